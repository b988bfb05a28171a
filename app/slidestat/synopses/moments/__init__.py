"""Mean and variance of a window."""
