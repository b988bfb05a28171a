"""Statistics over all partitions: synopses of parties in, answers out."""
