"""Topics as partitioned Parquet."""
