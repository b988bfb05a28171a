"""The columns of a key's events in an audit: exact, as long as its windows, not as its history."""
