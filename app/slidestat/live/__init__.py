"""Questions to the states of a running worker."""
