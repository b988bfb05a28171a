"""Blocks over levels, of Arasu and Manku: what quantiles and frequent items are made of."""
