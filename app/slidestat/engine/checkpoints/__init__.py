"""What a partition must remember: positions, counters, what was lost."""
