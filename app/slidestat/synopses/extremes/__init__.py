"""The least and the largest value of a window."""
