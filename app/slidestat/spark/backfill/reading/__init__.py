"""Read history: a topic, or files as the records that a topic would have had."""
