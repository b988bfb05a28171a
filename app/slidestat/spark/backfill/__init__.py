"""History through the engine of a worker."""
