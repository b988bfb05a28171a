"""Outputs, and how far they have come, in one Kafka transaction for each partition."""
