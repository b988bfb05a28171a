"""Declarations of what is computed: topologies, referees, statistics and their terms."""
