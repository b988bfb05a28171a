"""Topologies on Structured Streaming: a worker's partitions as shards in Spark's state store."""
