"""The states of keys: as they are stored, and those that are in memory, column by column."""
