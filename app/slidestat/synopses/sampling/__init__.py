"""A uniform sample of the values of a window."""
