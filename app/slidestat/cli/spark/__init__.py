"""The commands `slidestat spark`."""
