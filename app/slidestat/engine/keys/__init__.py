"""The keys of a partition: by numbers, with what is due of them, and cut into runs of events."""
