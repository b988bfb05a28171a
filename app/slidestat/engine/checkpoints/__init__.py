"""Checkpoints of a partition: positions, counters, lost records."""
