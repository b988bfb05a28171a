"""Hold the partitions that a worker has of a topology: an idea a module, for pipeline.py."""
