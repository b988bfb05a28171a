"""The command `slidestat`."""
