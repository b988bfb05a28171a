"""Watch the source while it is read: its keys, its identity, what of it was lost."""
