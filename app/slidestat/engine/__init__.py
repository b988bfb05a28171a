"""One partition, pure: columns of events in, states and emissions out; no Kafka, no Faust."""
