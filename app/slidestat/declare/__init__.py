"""What is computed, declared: topologies, referees, statistics and their terms."""
