"""The worker process: settings, Faust app, and what happens at batches, commits and rebalances."""
