"""Quantiles by rank, of Arasu and Manku."""
