"""Derived from the fields of a topology: topics, lengths, columns, synopses."""
