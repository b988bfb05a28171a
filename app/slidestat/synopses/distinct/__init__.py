"""How many distinct items: of any window, of one stream or of the union of many."""
