"""The states of a partition's keys: bytes, cache, timers."""
