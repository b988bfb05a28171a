"""The jobs on Spark; and for notebooks the figures of a lake as a table, aggregates as columns.

>>> from slidestat.spark import basic_quantile, read_statistics
"""

from typing import TYPE_CHECKING

from slidestat.faces import loader

if TYPE_CHECKING:
    from slidestat.spark.band_plot import plot_figures as plot_figures
    from slidestat.spark.figures import read_statistics as read_statistics
    from slidestat.spark.sql.columns import (
        basic_count as basic_count,
        basic_distinct as basic_distinct,
        basic_quantile as basic_quantile,
        basic_rank_quantile as basic_rank_quantile,
        basic_sum as basic_sum,
        basic_top as basic_top,
    )
    from slidestat.spark.sql.functions import register_functions as register_functions

_MODULES = {
    "slidestat.spark.band_plot": ("plot_figures",),
    "slidestat.spark.figures": ("read_statistics",),
    "slidestat.spark.sql.columns": (
        "basic_count",
        "basic_distinct",
        "basic_quantile",
        "basic_rank_quantile",
        "basic_sum",
        "basic_top",
    ),
    "slidestat.spark.sql.functions": ("register_functions",),
}

__all__ = sorted(name for names in _MODULES.values() for name in names)

__getattr__ = loader(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
