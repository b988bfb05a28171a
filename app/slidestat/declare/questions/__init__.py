"""Statistics that are asked of what is kept, and never declared."""
