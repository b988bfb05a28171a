"""Unit tests of topologies and referees: their records in memory, in virtual event time."""

from app.testing.driver import TopologyDriver
from app.testing.referee_driver import RefereeDriver

__all__ = ["RefereeDriver", "TopologyDriver"]
