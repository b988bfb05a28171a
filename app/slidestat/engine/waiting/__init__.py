"""Hold events that were read and are not in the states of their keys yet."""
