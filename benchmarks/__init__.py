"""How fast, and against what: see README.md beside this file."""
