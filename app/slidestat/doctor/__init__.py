"""Check whether a machine has what slidestat needs; one check a function."""
