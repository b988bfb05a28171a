"""Synopses merged over times, keys and partitions."""
