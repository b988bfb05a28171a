"""Counts and sums: the exponential histogram of Datar et al.; totals since a first event."""
