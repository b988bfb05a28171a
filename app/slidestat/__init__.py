"""Sliding-window statistics of keyed Kafka topics, in bounded memory, with bounds that hold.

The public face: declarations, their statistics, and drivers for unit tests. Synopses that are used
alone are in `slidestat.synopses`, the records on the wire in `slidestat.schemas`. Whatever is in
neither is private, and may change. Each name is loaded at its first use.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slidestat.declare.forms.files import (
        load_topology as load_topology,
    )
    from slidestat.declare.referee import (
        Referee as Referee,
    )
    from slidestat.declare.statistics import (
        Above as Above,
    )
    from slidestat.declare.statistics import (
        Count as Count,
    )
    from slidestat.declare.statistics import (
        Deviation as Deviation,
    )
    from slidestat.declare.statistics import (
        Distinct as Distinct,
    )
    from slidestat.declare.statistics import (
        Histogram as Histogram,
    )
    from slidestat.declare.statistics import (
        LandmarkCount as LandmarkCount,
    )
    from slidestat.declare.statistics import (
        LandmarkSum as LandmarkSum,
    )
    from slidestat.declare.statistics import (
        Maximum as Maximum,
    )
    from slidestat.declare.statistics import (
        Mean as Mean,
    )
    from slidestat.declare.statistics import (
        Minimum as Minimum,
    )
    from slidestat.declare.statistics import (
        Norm as Norm,
    )
    from slidestat.declare.statistics import (
        Quantiles as Quantiles,
    )
    from slidestat.declare.statistics import (
        Rate as Rate,
    )
    from slidestat.declare.statistics import (
        Statistic as Statistic,
    )
    from slidestat.declare.statistics import (
        Sum as Sum,
    )
    from slidestat.declare.statistics import (
        TopItems as TopItems,
    )
    from slidestat.declare.statistics import (
        Variance as Variance,
    )
    from slidestat.declare.topology import (
        Topology as Topology,
    )
    from slidestat.errors import (
        SlidestatError as SlidestatError,
    )
    from slidestat.testing.driver import (
        TopologyDriver as TopologyDriver,
    )
    from slidestat.testing.referee_driver import (
        RefereeDriver as RefereeDriver,
    )

_MODULES = {
    "slidestat.declare.forms.files": ("load_topology",),
    "slidestat.declare.referee": ("Referee",),
    "slidestat.declare.statistics": (
        "Above",
        "Count",
        "Deviation",
        "Distinct",
        "Histogram",
        "LandmarkCount",
        "LandmarkSum",
        "Maximum",
        "Mean",
        "Minimum",
        "Norm",
        "Quantiles",
        "Rate",
        "Statistic",
        "Sum",
        "TopItems",
        "Variance",
    ),
    "slidestat.declare.topology": ("Topology",),
    "slidestat.errors": ("SlidestatError",),
    "slidestat.testing.driver": ("TopologyDriver",),
    "slidestat.testing.referee_driver": ("RefereeDriver",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
