"""Merging: synopses of many parties answer over the union of their streams, at a stated error."""
