"""Frequent items: of Arasu and Manku, by sampling, and with the items' names."""
