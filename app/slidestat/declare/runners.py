"""The synopses of a topology, as the streaming side uses them: all keys of a batch in one call.

A runner takes the stored states and the events of many keys, and gives new states and the answers
to queries. Two statistics whose runners are equal share one state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.parted_sums import Parted, run_parted_sums
from slidestat.synopses.blocks.parameters import QuantileParameters
from slidestat.synopses.core.batch import BatchResult, run_batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import CountParameters, SumParameters
from slidestat.synopses.distinct.distinct_batch import run_distinct_batch
from slidestat.synopses.distinct.distinct_parameters import DistinctParameters
from slidestat.synopses.distinct.distinct_wave import DistinctWave, Predicate
from slidestat.synopses.distinct.item_ids import item_ids
from slidestat.synopses.distinct.paired_ids import paired_ids, second_is
from slidestat.synopses.exponential_histogram.landmark import LandmarkParameters, run_landmark_batch
from slidestat.synopses.extremes.extreme import ExtremeParameters, run_extreme_batch
from slidestat.synopses.frequent.named_batch import run_named_items_batch
from slidestat.synopses.frequent.named_counts import run_item_counts
from slidestat.synopses.frequent_pairs.parameters import PairedParameters
from slidestat.synopses.moments.spread import SpreadParameters, run_spread_batch
from slidestat.synopses.norm.lp_norm import LpNormParameters, run_lp_norm_batch
from slidestat.synopses.quantiles.quantile_batch import run_quantile_batch
from slidestat.synopses.sampling.sample import (
    SampleParameters,
    SlidingSample,
    run_sample_batch,
)
from slidestat.synopses.value_histogram.value_histogram import (
    ValueHistogramParameters,
    run_value_histogram_batch,
)
from slidestat.synopses.value_quantiles.batch import run_value_quantile_batch
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters
from slidestat.synopses.waves.wave_batch import run_wave_batch
from slidestat.synopses.waves.wave_parameters import WaveParameters

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class ItemColumn(NamedTuple):
    """Items of events: the different `texts`, and int64[n] `codes`, where each event's is there; -1
    for an event that has none.
    """

    texts: Sequence[str]
    codes: Int64s

    def ids(self, seed: int = 0) -> Int64s:
        """int64[n]: each event's item as a number, a hash of its text with a seed."""
        return item_ids(self.texts, seed)[self.codes]


@dataclass(frozen=True, slots=True)
class Work:
    """Events and queries of G groups (keys), as `synopses.core.batch.run_batch` describes them.

    `numbers` and `items` have the events' values of each field that is read, NaN or a code of -1
    where an event lacks it; `windows` int64[W] the lengths of the windows that each of the Q
    queries asks for; `conditions` for which events each condition holds.
    """

    starts: Int64s
    times: Int64s
    numbers: Mapping[FieldPath, Float64s]
    items: Mapping[FieldPath, ItemColumn]
    query_starts: Int64s
    query_times: Int64s
    windows: Int64s
    conditions: Mapping[Expression, npt.NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def queries(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return the queries as arrays."""
        return self.query_starts, self.query_times, self.windows

    def values(self, field: FieldPath) -> tuple[Int64s, Int64s, Float64s]:
        """The events that have the field, as times and values."""
        values = self.numbers[field]
        starts, times, rows = self._where(~np.isnan(values))
        return starts, times, values if rows is None else values[rows]

    def coded(self, *fields: FieldPath) -> tuple[Int64s, Int64s, list[ItemColumn]]:
        """The events that have all of the fields, as times and items."""
        columns = [self.items[field] for field in fields]
        there = np.logical_and.reduce([column.codes >= 0 for column in columns])
        starts, times, rows = self._where(there)
        if rows is not None:
            columns = [column._replace(codes=column.codes[rows]) for column in columns]
        return starts, times, columns

    def texts(self, field: FieldPath) -> tuple[Int64s, Int64s, Int64s]:
        """The events that have the field, as times and items."""
        starts, times, (items,) = self.coded(field)
        return starts, times, items.ids()

    def weighed(self, field: FieldPath, weight: FieldPath) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """The events that have both fields, as times, items and whole weights from 1 on."""
        items, weights = self.items[field], self.numbers[weight]
        starts, times, rows = self._where((items.codes >= 0) & ~np.isnan(weights))
        if rows is not None:
            items, weights = items._replace(codes=items.codes[rows]), weights[rows]
        return starts, times, items.ids(), np.maximum(np.rint(weights), 1).astype(np.int64)

    def chosen(self, condition: Expression) -> "Work":
        """The same work over the events for which a condition holds."""
        if not len(self.times):
            return self
        starts, times, rows = self._where(self.conditions[condition])
        if rows is None:
            return self
        return replace(
            self,
            starts=starts,
            times=times,
            numbers={path: values[rows] for path, values in self.numbers.items()},
            items={
                path: items._replace(codes=items.codes[rows]) for path, items in self.items.items()
            },
        )

    def _where(self, there: npt.NDArray[np.bool_]) -> tuple[Int64s, Int64s, Int64s | None]:
        """Starts and times of the events that are there, and their rows; None if all are."""
        if there.all():
            return self.starts, self.times, None
        rows = np.flatnonzero(there)
        return np.searchsorted(rows, self.starts), self.times[rows], rows


class Listed(NamedTuple):
    """An item that a synopsis lists: (estimate, lower, upper) of how often it came."""

    item: str
    numbers: tuple[float, float, float]


class Answered(NamedTuple):
    """New states, one a group; and for each answer's name float64[3, Q, W] (or [3, Q, W, S]):
    estimates, lowers, uppers. Lists, for each query and window, the most frequent item first.
    """

    states: list[bytes]
    answers: dict[str, Float64s]
    lists: Sequence[Sequence[Sequence[Listed]]] = ()


class Runner(Protocol):
    """One synopsis of each key. Hashable, and equal to what keeps the same."""

    @property
    def meaning(self) -> str:
        """Return the meaning of its states; states of another meaning cannot be used."""

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        """Take events in and answer; raises SynopsisError for states that are not its own."""


def _stack(result: BatchResult) -> Float64s:
    return np.stack((result.estimates, result.lowers, result.uppers))


@dataclass(frozen=True)
class CountRunner:
    """How many events."""

    parameters: CountParameters

    @property
    def meaning(self) -> str:
        return f"count, epsilon {float(self.parameters.epsilon)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_batch(self.parameters, states, work.starts, work.times, None, *work.queries)
        return Answered(result.states, {"count": _stack(result)})


@dataclass(frozen=True)
class SumRunner:
    """The sum of a field."""

    parameters: SumParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        return _of(
            self.field, f"sum, epsilon {float(parameters.epsilon)}, {parameters.decimals} decimals"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_batch(self.parameters, states, *work.values(self.field), *work.queries)
        return Answered(result.states, {"sum": _stack(result)})


@dataclass(frozen=True)
class PartedSumRunner:
    """Sums of the magnitudes of a field's values below the first of `cuts`, between each two, and
    from the last one on; an answer has one more axis, a place for each part.
    """

    parameters: SumParameters
    field: FieldPath
    cuts: tuple[float, ...]

    @property
    def meaning(self) -> str:
        p = self.parameters
        cuts = ", ".join(map(str, self.cuts))
        return _of(
            self.field,
            f"sums parted at {cuts}, epsilon {float(p.epsilon)}, {p.decimals} decimals",
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, values = work.values(self.field)
        parts = np.searchsorted(self.cuts, values, "right")
        events = Parted(starts, times, parts, np.abs(values))
        found, answers = run_parted_sums(
            self.parameters, len(self.cuts) + 1, states, events, *work.queries
        )
        return Answered(found, {"parted sum": answers})


@dataclass(frozen=True)
class SpreadRunner:
    """Mean, variance and standard deviation of a field."""

    parameters: SpreadParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        return _of(
            self.field,
            f"spread, epsilon {float(parameters.epsilon)}, {parameters.decimals} decimals",
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_spread_batch(self.parameters, states, *work.values(self.field), *work.queries)
        return Answered(
            result.states,
            {
                "mean": _stack(result.mean),
                "variance": _stack(result.variance),
                "deviation": _stack(result.deviation),
            },
        )


@dataclass(frozen=True)
class ExtremeRunner:
    """The least or the largest of a field."""

    parameters: ExtremeParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        return _of(self.field, f"{self.parameters.side}, epsilon {float(self.parameters.epsilon)}")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_extreme_batch(self.parameters, states, *work.values(self.field), *work.queries)
        return Answered(result.states, {self.parameters.side: _stack(result)})


@dataclass(frozen=True)
class QuantileRunner:
    """Quantiles of a field, by rank; an answer has one more axis, a place for each quantile."""

    parameters: QuantileParameters
    field: FieldPath
    quantiles: tuple[float, ...]

    @property
    def meaning(self) -> str:
        return _of(self.field, f"quantiles, epsilon {float(self.parameters.epsilon)}")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_quantile_batch(
            self.parameters, states, *work.values(self.field), *work.queries, self.quantiles
        )
        figures = np.stack((result.estimates, result.lowers, result.uppers))
        # Which is which: statistics that share a state may ask for others.
        asked = np.array(self.quantiles, np.float64)
        return Answered(result.states, {"quantile": figures, "quantiles": asked})


@dataclass(frozen=True)
class ValueQuantileRunner:
    """Quantiles of a field, by value; an answer is one as of a `QuantileRunner`. That of `ranked`
    values, "rank", is float64[4, 3, Q, W, values], as `run_value_quantile_batch` has it.
    """

    parameters: ValueQuantileParameters
    field: FieldPath
    quantiles: tuple[float, ...] = ()
    ranked: tuple[float, ...] = ()

    @property
    def meaning(self) -> str:
        p = self.parameters
        errors = f"relative error {float(p.relative_error)}, epsilon {float(p.epsilon)}"
        return _of(self.field, f"quantiles by value, {errors}")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_value_quantile_batch(
            self.parameters,
            states,
            *work.values(self.field),
            *work.queries,
            self.quantiles,
            self.ranked,
        )
        figures = np.stack((result.estimates, result.lowers, result.uppers))
        asked = np.array(self.quantiles, np.float64)
        answers = {"quantile": figures, "quantiles": asked, "rank": result.ranks}
        return Answered(result.states, answers)


@dataclass(frozen=True)
class HistogramRunner:
    """Counts between edges; an answer has one more axis, a place for each range."""

    parameters: ValueHistogramParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        edges = ", ".join(map(str, parameters.edges))
        return _of(self.field, f"histogram, epsilon {float(parameters.epsilon)}, edges {edges}")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_value_histogram_batch(
            self.parameters, states, *work.values(self.field), *work.queries
        )
        return Answered(result.states, {"histogram": _stack(result)})


@dataclass(frozen=True)
class DistinctRunner:
    """How many different items a field has; or pairs of an item and what the field `by` has."""

    parameters: DistinctParameters
    field: FieldPath
    by: FieldPath | None = None

    @property
    def meaning(self) -> str:
        p = self.parameters
        what = _of(
            self.field,
            f"distinct, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )
        # As a list: no other field's path is written so.
        return what if self.by is None else f"{what} by {list(self.by)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        if self.by is None:
            starts, times, items = work.texts(self.field)
        else:
            starts, times, (firsts, seconds) = work.coded(self.field, self.by)
            items = paired_ids(firsts.ids(), seconds.ids(self.parameters.seed))
        result = run_distinct_batch(self.parameters, states, starts, times, items, *work.queries)
        return Answered(result.states, {"distinct": _stack(result)})


@dataclass(frozen=True)
class DistinctWhereRunner:
    """A question to the states of a `DistinctRunner`: how many of the items have `text` in the
    field `by`. It takes no events in.
    """

    parameters: DistinctParameters
    field: FieldPath
    by: FieldPath | None
    text: str

    @property
    def meaning(self) -> str:
        asked_of = DistinctRunner(self.parameters, self.field, self.by)
        return f"{asked_of.meaning} where it is {self.text!r}"

    @property
    def is_meant(self) -> Predicate:
        """Which items have the text."""
        return second_is(self.text, self.parameters.seed)

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        _require_question(work)
        answers = np.empty((3, len(work.query_times), len(work.windows)))
        waves, is_meant = list(map(self._wave, states)), self.is_meant
        for wave, queries in zip(waves, pairwise(work.query_starts.tolist()), strict=True):
            for query in range(*queries):
                for place, window in enumerate(work.windows.tolist()):
                    found = wave.query(window, int(work.query_times[query]), is_meant)
                    answers[:, query, place] = found.estimate, found.lower, found.upper
        return Answered([wave.to_bytes() for wave in waves], {"distinct": answers})

    def _wave(self, state: bytes | None) -> DistinctWave:
        if state is None:
            return DistinctWave.create(self.parameters)
        wave = DistinctWave.from_bytes(state)
        if wave.parameters != self.parameters:
            raise SynopsisError("the state was made with other parameters")
        return wave


@dataclass(frozen=True)
class TopRunner:
    """The items of a field that came most often: those with a share of epsilon, and maybe others
    with less. Where none has it and counts are exact, `instead` others, the most frequent ones.
    """

    parameters: PairedParameters
    field: FieldPath
    instead: int = 0

    @property
    def meaning(self) -> str:
        return _of(self.field, f"frequent items in pairs, epsilon {float(self.parameters.epsilon)}")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, (items,) = work.coded(self.field)
        result = run_named_items_batch(
            self.parameters,
            states,
            starts,
            times,
            items.codes,
            items.texts,
            *work.queries,
            self.parameters.epsilon,
            instead=self.instead,
        )
        found = [
            Listed(name, ((lower + upper) / 2, float(lower), float(upper)))
            for name, lower, upper in zip(
                result.names, result.lowers.tolist(), result.uppers.tolist(), strict=True
            )
        ]
        ends = result.ends.tolist()
        windows = len(work.windows)
        lists = [
            [
                sorted(found[ends[at] : ends[at + 1]], key=lambda item: (-item.numbers[0], item))
                for at in range(query * windows, (query + 1) * windows)
            ]
            for query in range(len(work.query_times))
        ]
        return Answered(result.states, {}, lists)


@dataclass(frozen=True)
class ItemCountRunner:
    """A question to the states of a `TopRunner`: how often each of `items` came. It takes no events
    in.
    """

    parameters: PairedParameters
    field: FieldPath
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        return f"{TopRunner(self.parameters, self.field).meaning} counted of {list(self.items)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        _require_question(work)
        states, counts = run_item_counts(self.parameters, states, *work.queries, self.items)
        return Answered(states, {}, self.listed(counts))

    def listed(self, counts: Float64s) -> list[list[list[Listed]]]:
        """float64[3, Q, W, items] as a list for each query and window, items in their order."""
        return [
            [
                [
                    Listed(item, (estimate, lower, upper))
                    for item, (estimate, lower, upper) in zip(self.items, row, strict=True)
                ]
                for row in windows
            ]
            for windows in np.moveaxis(counts, 0, 3).tolist()
        ]


@dataclass(frozen=True)
class ItemsRunner:
    """Counts of `items` that are named beforehand, rising; an answer has a place for each of them.

    They are the bins of a histogram: bin i + 1 is that of the i-th item.
    """

    parameters: CountParameters
    field: FieldPath
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        counts = f"counts of {list(self.items)}, epsilon {float(self.parameters.epsilon)}"
        return _of(self.field, counts)

    @property
    def histogram(self) -> ValueHistogramParameters:
        """Of the places of items, from 1 on."""
        edges = tuple(map(float, range(1, len(self.items) + 1)))
        return ValueHistogramParameters(self.parameters.epsilon, self.parameters.span, edges)

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, (items,) = work.coded(self.field)
        place_of = {item: float(place) for place, item in enumerate(self.items, 1)}
        places = np.array([place_of.get(text, 0.0) for text in items.texts])
        places = places[items.codes] if len(items.codes) else np.empty(0)
        rows = np.flatnonzero(places)
        result = run_value_histogram_batch(
            self.histogram,
            states,
            *(np.searchsorted(rows, starts), times[rows], places[rows]),
            *work.queries,
        )
        return Answered(result.states, {"items": _stack(result)[..., 1:]})


@dataclass(frozen=True)
class SampleRunner:
    """A uniform sample of a field's values; in its lists the item is the number of the event."""

    parameters: SampleParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        return _of(self.field, f"sample of {self.parameters.size}, seed {self.parameters.seed}")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, values = work.values(self.field)
        of_key = list(pairwise(starts.tolist()))
        queries = list(pairwise(work.query_starts.tolist()))
        lists: list[list[list[Listed]]] = [[] for _ in range(len(work.query_times))]
        # In rounds, as a state is asked between its events: the first question of each key, the
        # second of each, and so on; then what comes after the last.
        known, taken = list(states), [first for first, _ in of_key]
        rounds = max((end - first for first, end in queries), default=0)
        for turn in range(rounds + 1):
            asked = [first + turn if first + turn < end else -1 for first, end in queries]
            ends = [
                last
                if query < 0
                else first + int(np.searchsorted(times[first:last], work.query_times[query]))
                for query, (first, last) in zip(asked, of_key, strict=True)
            ]
            sizes = [end - first for first, end in zip(taken, ends, strict=True)]
            rows = np.repeat(np.array(taken) - np.cumsum([0, *sizes])[:-1], sizes)
            rows = rows + np.arange(len(rows))
            known = [
                *run_sample_batch(
                    *(self.parameters, known, np.cumsum([0, *sizes]), times[rows], values[rows])
                )
            ]
            taken = ends
            for state, query in zip(known, asked, strict=True):
                if query >= 0:
                    lists[query] = self._listed(state, int(work.query_times[query]), work.windows)
        return Answered([state or b"" for state in known], {}, lists)

    def _listed(self, state: bytes | None, now: int, windows: Int64s) -> list[list[Listed]]:
        sample = SlidingSample.from_bytes(state or b"")
        found = [sample.sample(window, now) for window in windows.tolist()]
        return [
            [
                Listed(str(index), (value, value, value))
                for index, value in zip(of.indices.tolist(), of.values.tolist(), strict=True)
            ]
            for of in found
        ]


@dataclass(frozen=True)
class NormRunner:
    """The L_p norm of the items of a field, or of how much of a `weight` came of each."""

    parameters: LpNormParameters
    field: FieldPath
    weight: FieldPath | None = None

    @property
    def meaning(self) -> str:
        p = self.parameters
        what = _of(
            self.field,
            f"norm, p {p.p}, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )
        return what if self.weight is None else f"{what} weighing {list(self.weight)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        weights = None
        if self.weight is None:
            starts, times, items = work.texts(self.field)
        else:
            starts, times, items, weights = work.weighed(self.field, self.weight)
        result = run_lp_norm_batch(
            self.parameters, states, starts, times, items, weights, *work.queries
        )
        return Answered(result.states, {"norm": _stack(result)})


@dataclass(frozen=True)
class AgeRunner:
    """How long ago events were, by their `numbers` from the last one on, rising; an answer has a
    place for each of them instead of one for each window. Those that are not in the span are NaN.
    """

    parameters: WaveParameters
    numbers: tuple[int, ...]

    @property
    def meaning(self) -> str:
        return f"ages of events, epsilon {float(self.parameters.epsilon)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_wave_batch(
            *("position", self.parameters, states, work.starts, work.times, None),
            *(work.query_starts, work.query_times, self.numbers),
        )
        ages = _stack(result)
        # What is kept of older events depends on when a key was last forgotten.
        older = (ages[1] > self.parameters.span) | np.isinf(ages[2])
        ages[:, older] = np.nan
        return Answered(result.states, {"age": ages, "ages of": np.array(self.numbers)})


@dataclass(frozen=True)
class LandmarkRunner:
    """Count and sum of all events of a key, or their count alone; an answer has one window."""

    parameters: LandmarkParameters
    field: FieldPath | None

    @property
    def meaning(self) -> str:
        if self.field is None:
            return "landmark count"
        return _of(self.field, f"landmark sum, {self.parameters.decimals} decimals")

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        if self.field is None:
            starts, times, values = work.starts, work.times, np.zeros(len(work.times))
        else:
            starts, times, values = work.values(self.field)
        result = run_landmark_batch(
            self.parameters, states, starts, times, values, *work.queries[:2]
        )
        answers = {
            "landmark_count": np.stack([result.counts.astype(np.float64)] * 3),
            "landmark_sum": _stack(result.sums),
        }
        return Answered(
            result.states, {name: answer[..., np.newaxis] for name, answer in answers.items()}
        )


@dataclass(frozen=True)
class ChosenRunner:
    """Another runner, given only the events for which a condition holds."""

    runner: Runner
    condition: Expression

    @property
    def meaning(self) -> str:
        return f"{self.runner.meaning}, where {self.condition.text}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        return self.runner.run(states, work.chosen(self.condition))


_WithQuantiles = QuantileRunner | ValueQuantileRunner


def shared(runners: Sequence[Runner]) -> tuple[Runner, ...]:
    """The runners, those of one meaning made one: it answers for all of them."""
    found: dict[str, Runner] = {}
    for runner in runners:
        found[runner.meaning] = _for_both(found.get(runner.meaning, runner), runner)
    return tuple(found[runner.meaning] for runner in runners)


def _for_both(known: Runner, runner: Runner) -> Runner:
    """One that answers for two of one meaning."""
    if isinstance(known, ChosenRunner) and isinstance(runner, ChosenRunner):
        return replace(known, runner=_for_both(known.runner, runner.runner))
    if isinstance(known, _WithQuantiles) and isinstance(runner, _WithQuantiles):
        return replace(known, quantiles=tuple(sorted({*known.quantiles, *runner.quantiles})))
    if isinstance(known, AgeRunner) and isinstance(runner, AgeRunner):
        return replace(known, numbers=tuple(sorted({*known.numbers, *runner.numbers})))
    if isinstance(known, TopRunner) and isinstance(runner, TopRunner):
        return replace(known, instead=max(known.instead, runner.instead))
    return known


def _require_question(work: Work) -> None:
    """Raise SynopsisError for work with events, which a question cannot take in."""
    if len(work.times):
        raise SynopsisError("a question takes no events in")


def _of(field: FieldPath, what: str) -> str:
    return f"{what}, of {field_text(field)}"
