"""Ranks of values as rows of answers."""

from collections.abc import Mapping, Sequence

from slidestat.declare.questions.ranks import Ranks
from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.topology import Topology
from slidestat.schemas.query import Bounds, ValueRank


class RankTable:
    """A formatter of the answers of `Ranks`, a topology's only statistics, over its windows."""

    def __init__(self, topology: Topology) -> None:
        self._windows = [
            (None, window) if topology.windows_of_events else (window, None)
            for window in topology.window_lengths
        ]
        self._asked: list[tuple[str, Ranks, Runner, tuple[float, float]]] = []
        for label, statistic, runner in zip(
            topology.labels, topology.statistics, topology.runners, strict=True
        ):
            if isinstance(statistic, Ranks):
                parameters = statistic.parameters(topology.span_length.length)
                errors = parameters.epsilon, parameters.rank_value_error
                self._asked.append((label, statistic, runner, errors))

    def rows(self, answered: Mapping[Runner, Answered]) -> list[ValueRank]:
        """Return the ranks of one query, by statistic, windows in their order, values in theirs."""
        rows = []
        for label, statistic, runner, (relative_error, value_error) in self._asked:
            # float64[windows, values, 4, 3]
            numbers = answered[runner].answers["rank"][:, :, 0].transpose(2, 3, 0, 1)
            for (window_ms, window_events), row in zip(
                self._windows, numbers.tolist(), strict=True
            ):
                for value, sides in zip(statistic.values, row, strict=True):
                    at_most, more_than, share_at_most, share_more_than = map(_bounds, sides)
                    rows.append(
                        ValueRank(
                            statistic=label,
                            value=value,
                            at_most=at_most,
                            more_than=more_than,
                            share_at_most=share_at_most,
                            share_more_than=share_more_than,
                            relative_error=relative_error,
                            value_error=value_error,
                            window_ms=window_ms,
                            window_events=window_events,
                        )
                    )
        return rows


def _bounds(side: Sequence[float]) -> Bounds:
    # NaN, which is not equal to itself, is null in JSON.
    estimate, lower, upper = (None if number != number else number for number in side)
    return Bounds(estimate, lower, upper)
