"""The worker: Faust's consumer with batches, tables, checkpoints, start and shutdown."""
