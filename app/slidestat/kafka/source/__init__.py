"""The source of a topology: a look at its keys, and the schemas of its records."""
