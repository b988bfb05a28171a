"""Repartitioning: a source's records moved to a topic of the topology's own by their key."""
