"""Distinct items over the union of a bundle's parts, all of them or those that a predicate means.

Source: Gibbons, Tirthapura 2002, section 5 (distinct values, predicates at query time), and their
Referee of section 4. The merged state is that of one synopsis fed with all streams, byte for byte,
so an item that many parties saw counts once. All parties have one seed, the stored coins of the
paper: with coins of its own, the samples of a party would say nothing of the others'. What is
promised: README.md. Cost: O(bytes log(bytes)), and the hashing of what is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, BatchResult, questions
from slidestat.synopses.core.envelope import Body, damaged
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.distinct.batch import run_distinct_batch
from slidestat.synopses.distinct.parameters import DistinctParameters
from slidestat.synopses.distinct.wave import (
    DistinctEstimate,
    DistinctWave,
    Predicate,
    merge_distinct,
    wave_of_items,
)
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters
from slidestat.synopses.lean_distinct.sketch import (
    LeanDistinct,
    merge_lean_distinct,
    run_lean_distinct_batch,
)
from slidestat.synopses.merge.bundle import Asked, Bundle, MadeWith, UnionAnswers, ask
from slidestat.synopses.merge.summary import StateSummary, WindowFigure, must_agree

Window = TypeVar("Window", "WindowDistinct", "WindowLeanDistinct")


def union_distinct(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of randomised waves.

    times: int64[B]; spans: int64[K], 1 to the span kept. The bounds hold with the waves' confidence
    of 1 - delta each. Raises SynopsisError as `ask` does.
    """
    asked = ask(DistinctParameters, DistinctWave.kinds, bundles, times, spans)
    return _answered(asked, merge_distinct, run_distinct_batch, WindowDistinct)


def _answered(
    asked: Asked[MadeWith],
    merge: Callable[[Sequence[bytes]], bytes],
    run: Callable[[MadeWith, Sequence[bytes], Batch], BatchResult],
    window: "type[Window]",
) -> UnionAnswers:
    """Return the answers of each bundle's merged state. States are merged by time: where parts are
    asked at times of their own, the summary of each part's `window` is taken, and these are merged.
    """
    found = np.empty((3, len(asked.starts) - 1, len(asked.spans)))
    merged: list[bytes] = []
    places: list[int] = []
    times: list[int] = []
    for bundle, (first, last) in enumerate(pairwise(asked.starts.tolist())):
        states = asked.states[first:last]
        at: list[int] = asked.times[first:last].tolist()
        if len({*at}) == 1:
            merged.append(merge(states))
            places.append(bundle)
            times.append(at[0])
            continue
        for k, span in enumerate(asked.spans.tolist()):
            found[:, bundle, k] = _united(window, states, span, at).answer()[:3]
    result = run(asked.parameters, merged, questions(times, asked.spans))
    found[:, places] = result.figures
    return UnionAnswers(*found)


def _united(
    window: "type[Window]", states: Sequence[bytes], span: int, times: Sequence[int]
) -> "Window":
    """Return the summary of the windows [time - span, time) of states, each at its own time."""
    taken: list[Window] = [
        window.take(state, span, time) for state, time in zip(states, times, strict=True)
    ]
    return taken[0].merge(*taken[1:])


def union_distinct_where(
    bundle: Bundle, spans: npt.ArrayLike, now: int | Integers, predicate: Predicate
) -> list[DistinctEstimate]:
    """Answer, for each of the windows [now - span, now), how many distinct items of all parts
    together the predicate means; `now` is that of all parts, or int64[P] that of each.

    The predicate is given the items, and may be thought of when the events are long gone; error and
    confidence are those of `DistinctWave.query`. Raises SynopsisError as `ask` does.
    """
    asked = ask(DistinctParameters, DistinctWave.kinds, [bundle], np.atleast_1d(now), spans)
    times = asked.times.tolist()
    if len({*times}) > 1:
        windows = (
            _united(WindowDistinct, asked.states, span, times) for span in asked.spans.tolist()
        )
        return [window.answer(predicate) for window in windows]
    wave = DistinctWave.from_bytes(merge_distinct([part.data for part in bundle.parts]))
    return [wave.query(span, times[0], predicate) for span in asked.spans.tolist()]


def union_lean_distinct(
    bundles: Sequence[Bundle], times: npt.ArrayLike, spans: npt.ArrayLike
) -> UnionAnswers:
    """Answer for the windows [time - span, time) of each bundle of lean distinct items.

    times: int64[B]; spans: int64[K], 1 to the span kept. The bounds hold with the synopses'
    confidence of 1 - delta each. Raises SynopsisError as `ask` does.
    """
    asked = ask(LeanDistinctParameters, LeanDistinct.kinds, bundles, times, spans)
    return _answered(asked, merge_lean_distinct, run_lean_distinct_batch, WindowLeanDistinct)


# Distinct items of one window: a stored state with a span of 1, all of whose items came at time 0.
# The errors and the confidence of one state hold in any tree of merges (README.md, docs/proofs.md),
# and merging is associative, commutative and idempotent to the byte.


@dataclass(frozen=True)
class WindowDistinct(StateSummary):
    """A window as a wave of items that were all seen at time 0."""

    form: ClassVar[int] = 6
    kinds: ClassVar[tuple[int, ...]] = DistinctWave.kinds

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowDistinct":
        wave = DistinctWave.from_bytes(state)
        return cls(wave_of_items(wave.parameters, wave.kept_items(n, now)))

    def merge(self, *others: "WindowDistinct") -> "WindowDistinct":
        waves = [part._wave for part in (self, *others)]
        must_agree(waves[0].parameters, tuple(wave.parameters for wave in waves[1:]))
        items = np.concatenate([wave.kept_items(1) for wave in waves])
        return WindowDistinct(wave_of_items(waves[0].parameters, items))

    def answer(self, predicate: Predicate | None = None) -> DistinctEstimate:
        """Return how many distinct items there are, or for how many of them the predicate holds."""
        return self._wave.query(1, predicate=predicate)

    @property
    def _wave(self) -> DistinctWave:
        return DistinctWave.from_bytes(self.data)

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("distinct", self.answer())]

    @classmethod
    def from_body(cls, body: Body) -> "WindowDistinct":
        read = cls(body.rest())
        wave = read._wave
        if (wave.parameters.span, wave.now) != (1, 1):
            raise damaged()
        return read.merge()


@dataclass(frozen=True)
class WindowLeanDistinct(StateSummary):
    """A window as a state of lean distinct items that were all seen at time 0."""

    form: ClassVar[int] = 8
    kinds: ClassVar[tuple[int, ...]] = LeanDistinct.kinds

    @classmethod
    def take(cls, state: bytes, n: int, now: int | None) -> "WindowLeanDistinct":
        return cls(LeanDistinct.from_bytes(state).window(n, now))

    def merge(self, *others: "WindowLeanDistinct") -> "WindowLeanDistinct":
        made_with, *rest = (LeanDistinct.from_bytes(it.data).parameters for it in (self, *others))
        must_agree(made_with, tuple(rest))
        return WindowLeanDistinct(merge_lean_distinct([it.data for it in (self, *others)]))

    def answer(self) -> Estimate:
        """Return how many distinct items there are."""
        return LeanDistinct.from_bytes(self.data).query(1)

    def figures(self, _quantiles: Sequence[float], _share: float) -> Sequence[WindowFigure]:
        return [WindowFigure("distinct", self.answer())]

    @classmethod
    def from_body(cls, body: Body) -> "WindowLeanDistinct":
        read = cls(body.rest())
        state = LeanDistinct.from_bytes(read.data)
        if (state.parameters.span, state.now) != (1, 1):
            raise damaged()
        return read
