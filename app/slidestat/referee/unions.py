"""The answers of a topology's synopses over the union of many parties' streams."""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np
import numpy.typing as npt

from slidestat.declare.runners import Answered, ItemColumn, Listed, Runner, Work
from slidestat.declare.runners.ages import AgeRunner
from slidestat.declare.runners.chosen import ChosenRunner
from slidestat.declare.runners.distinct import (
    DistinctRunner,
    DistinctWhereRunner,
    LeanDistinctRunner,
)
from slidestat.declare.runners.extremes import ExtremeRunner
from slidestat.declare.runners.frequent import ItemCountRunner, TopRunner
from slidestat.declare.runners.histograms import HistogramRunner, ItemsRunner
from slidestat.declare.runners.parted import PartedRunner
from slidestat.declare.runners.quantiles import QuantileRunner, ValueQuantileRunner
from slidestat.declare.runners.spreads import SpreadRunner
from slidestat.declare.runners.sums import CountRunner, SumRunner
from slidestat.declare.topology import Topology
from slidestat.synopses.merge.age_union import union_ages
from slidestat.synopses.merge.asked import UnionAnswers
from slidestat.synopses.merge.bundle import Bundle
from slidestat.synopses.merge.distinct_union import (
    union_distinct,
    union_distinct_where,
    union_lean_distinct,
)
from slidestat.synopses.merge.extremes import union_extremes
from slidestat.synopses.merge.histogram_union import union_value_histograms
from slidestat.synopses.merge.named_union import union_item_counts, union_named_items
from slidestat.synopses.merge.quantile_union import union_quantiles
from slidestat.synopses.merge.spreads import union_spreads
from slidestat.synopses.merge.totals import union_totals
from slidestat.synopses.merge.value_quantile_union import (
    union_value_quantiles,
    union_value_ranks,
)

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_NO_EVENTS = np.zeros(2, np.int64)
_NO_TIMES = np.empty(0, np.int64)


def empty_synopsis(runner: Runner, topology: Topology) -> bytes:
    """Return the synopsis of a stream that has had no event."""
    work = Work(
        _NO_EVENTS,
        _NO_TIMES,
        {column.path: np.empty(0) for column in topology.columns.numbers},
        {column.path: ItemColumn((), _NO_TIMES) for column in topology.columns.items},
        _NO_EVENTS,
        _NO_TIMES,
        np.array(topology.window_lengths, np.int64),
    )
    return runner.run([None], work).states[0]


@singledispatch
def unite(
    runner: Runner, _bundles: Sequence[Bundle], _times: Sequence[int], _windows: Int64s
) -> Answered:
    """Answer for the union of each bundle's parts, at its time, over `windows`; the result has no
    states. Bundles are those of `bundles_of`, stream by stream. Raises SynopsisError for parts that
    are not its own, TypeError for a runner whose synopses cannot be united.
    """
    raise TypeError(f"{runner.meaning} has no union")


def _stack(union: UnionAnswers) -> Float64s:
    return np.stack((union.estimates, union.lowers, union.uppers))


@unite.register
def _(
    runner: ChosenRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    return unite(runner.runner, bundles, times, windows)


@unite.register
def _(_: CountRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s) -> Answered:
    return Answered([], {"count": _stack(union_totals(bundles, times, windows))})


@unite.register
def _(_: SumRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s) -> Answered:
    return Answered([], {"sum": _stack(union_totals(bundles, times, windows))})


@unite.register
def _(
    runner: PartedRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    answers = unite(runner.of_one, bundles, times, windows).answers[runner.what]
    of_streams = answers.reshape(3, -1, runner.count, len(windows))
    return Answered([], {runner.answer: np.moveaxis(of_streams, 2, 3)})


@unite.register
def _(
    runner: AgeRunner, bundles: Sequence[Bundle], times: Sequence[int], _windows: Int64s
) -> Answered:
    return Answered([], runner.told(_stack(union_ages(bundles, times, runner.numbers))))


@unite.register
def _(
    _: SpreadRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    union = union_spreads(bundles, times, windows)
    parts = {"mean": union.mean, "variance": union.variance, "deviation": union.deviation}
    return Answered([], {name: _stack(part) for name, part in parts.items()})


@unite.register
def _(
    runner: ExtremeRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    return Answered([], {runner.parameters.side: _stack(union_extremes(bundles, times, windows))})


@unite.register
def _(
    runner: QuantileRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    union = union_quantiles(bundles, times, windows, runner.quantiles)
    return Answered(
        [],
        {
            "quantile": np.stack((union.estimates, union.lowers, union.uppers)),
            "quantiles": np.array(runner.quantiles, np.float64),
        },
    )


@unite.register
def _(
    runner: ValueQuantileRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    if runner.ranked:
        return Answered([], {"rank": union_value_ranks(bundles, times, windows, runner.ranked)})
    union = union_value_quantiles(bundles, times, windows, runner.quantiles)
    asked = np.array(runner.quantiles, np.float64)
    return Answered([], {"quantile": _stack(union), "quantiles": asked})


@unite.register
def _(
    _: HistogramRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    return Answered([], {"histogram": _stack(union_value_histograms(bundles, times, windows))})


@unite.register
def _(_: ItemsRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s) -> Answered:
    counts = _stack(union_value_histograms(bundles, times, windows))
    return Answered([], {"items": counts[..., 1:]})


@unite.register
def _(
    _: DistinctRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    return Answered([], {"distinct": _stack(union_distinct(bundles, times, windows))})


@unite.register
def _(
    _: LeanDistinctRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    return Answered([], {"lean_distinct": _stack(union_lean_distinct(bundles, times, windows))})


@unite.register
def _(
    runner: DistinctWhereRunner,
    bundles: Sequence[Bundle],
    times: Sequence[int],
    windows: Int64s,
) -> Answered:
    is_meant = runner.is_meant
    found = [
        [answer[:3] for answer in union_distinct_where(bundle, windows, time, is_meant)]
        for bundle, time in zip(bundles, times, strict=True)
    ]
    return Answered([], {"distinct": np.moveaxis(np.array(found, np.float64), 2, 0)})


@unite.register
def _(
    runner: ItemCountRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    counts = union_item_counts(bundles, times, windows, runner.items)
    return Answered([], {}, runner.listed(counts))


@unite.register
def _(
    runner: TopRunner, bundles: Sequence[Bundle], times: Sequence[int], windows: Int64s
) -> Answered:
    epsilon = runner.parameters.epsilon
    lists = union_named_items(bundles, times, windows, epsilon, runner.instead)
    return Answered(
        [],
        {},
        [
            [
                [Listed(text, (mid, low, high)) for text, mid, low, high in window.items]
                for window in bundle
            ]
            for bundle in lists
        ],
    )
