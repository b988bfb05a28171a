"""What a machine has, of what slidestat needs; one check a function."""
