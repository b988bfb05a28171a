"""Sliding-window statistics of keyed Kafka topics, in bounded memory, with bounds that hold.

The public face: declarations, their statistics, and drivers for unit tests. Synopses that are used
alone are in `slidestat.synopses`, the records on the wire in `slidestat.schemas`. Whatever is in
neither is private, and may change. Each name is loaded at its first use.
"""

from typing import TYPE_CHECKING

from slidestat.faces import loader

if TYPE_CHECKING:
    from slidestat.declare.alerts import (
        Alert as Alert,
    )
    from slidestat.declare.forms.files import (
        load_topology as load_topology,
    )
    from slidestat.declare.referee import (
        Referee as Referee,
    )
    from slidestat.declare.statistics import (
        Above as Above,
        AgeOfLast as AgeOfLast,
        Count as Count,
        Deviation as Deviation,
        Distinct as Distinct,
        Histogram as Histogram,
        Items as Items,
        LandmarkCount as LandmarkCount,
        LandmarkSum as LandmarkSum,
        LeanDistinct as LeanDistinct,
        Maximum as Maximum,
        Mean as Mean,
        MeanHistogram as MeanHistogram,
        Minimum as Minimum,
        NetSum as NetSum,
        Norm as Norm,
        Quantiles as Quantiles,
        RankQuantiles as RankQuantiles,
        Rate as Rate,
        Sample as Sample,
        Statistic as Statistic,
        Sum as Sum,
        SumHistogram as SumHistogram,
        TopItems as TopItems,
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
    "slidestat.declare.alerts": ("Alert",),
    "slidestat.declare.forms.files": ("load_topology",),
    "slidestat.declare.referee": ("Referee",),
    "slidestat.declare.statistics": (
        "Above",
        "AgeOfLast",
        "Count",
        "Deviation",
        "Distinct",
        "Histogram",
        "Items",
        "LandmarkCount",
        "LandmarkSum",
        "LeanDistinct",
        "Maximum",
        "Mean",
        "MeanHistogram",
        "Minimum",
        "NetSum",
        "Norm",
        "Quantiles",
        "RankQuantiles",
        "Rate",
        "Sample",
        "Statistic",
        "Sum",
        "SumHistogram",
        "TopItems",
        "Variance",
    ),
    "slidestat.declare.topology": ("Topology",),
    "slidestat.errors": ("SlidestatError",),
    "slidestat.testing.driver": ("TopologyDriver",),
    "slidestat.testing.referee_driver": ("RefereeDriver",),
}

__all__ = sorted(name for names in _MODULES.values() for name in names)

__getattr__ = loader(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
