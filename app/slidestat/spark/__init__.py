"""The jobs on Spark."""
