"""What the jobs on Spark cost."""
