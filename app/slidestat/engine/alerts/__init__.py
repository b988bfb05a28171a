"""Alerts: conditions on the figures of emissions, how sure they are, and what becomes of them."""
