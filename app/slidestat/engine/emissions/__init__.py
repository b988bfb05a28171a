"""Answers to the bytes of output records."""
