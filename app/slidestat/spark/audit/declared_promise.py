"""The least that a declared statistic promises: an emission that promises less breaks it.

A figure is judged by the error that it states. So that a worker cannot make any figure right by
stating a larger one, what it states is held to the parameters that were declared.
"""

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.declaration import DeclaredStatistic

# Of terms for what doubles round, which come on top of what is declared; the largest is 2^-30.
_ROUNDING = 2.0**-29
# So many units of the last decimal place that values are kept to may a figure be off; a variance so
# many squares of a unit, and units of a deviation.
_UNITS = 4
# What epsilon is of, where it is not of the figure itself.
_OF_EPSILON = {
    **dict.fromkeys(("quantile", "rank_quantile", "top"), "share_error"),
    **dict.fromkeys(("net_sum", "sum_histogram"), "magnitude_error"),
    **dict.fromkeys(("mean", "mean_histogram"), "deviation_error"),
}
_TERMS = ("relative_error", "share_error", "magnitude_error", "deviation_error", "absolute_error")


def promises_less(statistic: DeclaredStatistic, figure: Figure) -> str:
    """Return what a figure promises less of than its statistic declares; "" if nothing."""
    parameters = statistic.parameters
    most = dict.fromkeys(_TERMS, 0.0)
    unit = 10.0 ** -parameters["decimals"] if "decimals" in parameters else 0.0
    most["absolute_error"] = _UNITS * unit
    if statistic.kind == "variance":
        most |= {"absolute_error": _UNITS * unit**2, "deviation_error": _UNITS * unit}
    if statistic.kind == "quantile":
        most["relative_error"] = parameters["relative_error"]
    of_epsilon = _OF_EPSILON.get(statistic.kind, "relative_error")
    most[of_epsilon] = parameters.get("epsilon", 0.0)
    for name in _TERMS:
        if getattr(figure, name) > most[name] + _ROUNDING:
            return f"promises less than is declared: {name} {getattr(figure, name)}"
    if figure.confidence < least_confidence(statistic):
        return f"promises less than is declared: confidence {figure.confidence}"
    return ""


def least_confidence(statistic: DeclaredStatistic) -> float:
    """Return the least confidence of a statistic's figures; 1 unless they depend on chance."""
    return float(1 - statistic.parameters.get("delta", 0.0))
