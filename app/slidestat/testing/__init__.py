"""Unit tests of topologies and referees: their records in memory, in virtual event time."""
