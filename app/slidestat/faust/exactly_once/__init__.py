"""What is written, and how far it has come, in one Kafka transaction for each partition."""
