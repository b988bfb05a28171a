"""Topics read without joining a group: to their ends, as records come, or here and there."""
