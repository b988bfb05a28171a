"""Records to columns of events, and what is refused."""
