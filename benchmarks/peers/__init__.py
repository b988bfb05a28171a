"""The question as users of other libraries write it; each runs in its own environment."""
