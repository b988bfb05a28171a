"""Checks of a topology: each raises SlidestatError, naming the field."""
