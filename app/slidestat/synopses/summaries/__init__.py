"""Summaries of single windows, as bytes that merge into longer windows."""
