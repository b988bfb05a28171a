"""The synopses of statistics: what a runner is given and gives, and one for each family."""

from slidestat.declare.runners.runner import Answered, Listed, Runner
from slidestat.declare.runners.work import ItemColumn, Work

__all__ = ["Answered", "ItemColumn", "Listed", "Runner", "Work"]
