"""Every figure recomputed from the raw events, and compared."""
