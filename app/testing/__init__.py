"""Try a topology out in memory, without a broker: for the unit tests of those who write one."""

from app.testing.driver import TopologyDriver

__all__ = ["TopologyDriver"]
