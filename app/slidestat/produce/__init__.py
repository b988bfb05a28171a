"""Rows of files as records of a topic."""
