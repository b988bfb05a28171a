"""How long a figure is waited for, after an event, a stop and a kill."""
