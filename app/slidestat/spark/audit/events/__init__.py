"""Records read again as events, in plain Python: an audit shares no code with the workers."""
