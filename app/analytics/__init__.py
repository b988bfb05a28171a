"""Jobs on Spark: topics as a lake of Parquet, every figure audited, a report to show."""
