"""How many distinct items, in a tenth of a wave's room: Flajolet-Martin bitmaps with times."""
