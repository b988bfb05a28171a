"""The question that decides, here and by others: see `comparison`."""
