"""Figures, lengths and sizes as texts for people."""
