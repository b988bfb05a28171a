"""A topology proposed from what lies on a topic."""
