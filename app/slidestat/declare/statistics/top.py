"""The items of a field that come most often; and values that are drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import floor
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from slidestat import synopses
from slidestat.declare.columns import Limits
from slidestat.declare.fields import Field, FieldPath
from slidestat.declare.statistics.base import (
    DECIMALS,
    PLACES,
    ListStatistic,
    Promise,
    WeighedStatistic,
    check_epsilon,
    check_places,
)
from slidestat.declare.statistics.parted import Parted, part_bundles, run_parted
from slidestat.declare.statistics.runner import (
    Answered,
    CombinableRunner,
    Listed,
    PastRunner,
    Runner,
    Unions,
    UnitedRunner,
    Work,
    in_parts,
    of_field,
    require_question,
)
from slidestat.declare.values import check_seed, check_whole, is_number
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.rounding import EXACT, down, up, with_rounded

if TYPE_CHECKING:
    from slidestat.synopses.frequent.named_items import NamedBatch
    from slidestat.synopses.past.past import PastList

_LIMIT, _MOST_LISTED = 10, 1_000
_LEAST_SHARE = 0.002


@dataclass(frozen=True)
class TopRunner(CombinableRunner, UnitedRunner, PastRunner):
    """The items of a field that came most often: those with a share of `share`, or of epsilon
    without one, and maybe others with less. Where none has it and counts are exact, `instead`
    others, the most frequent ones.
    """

    parameters: synopses.PairedParameters
    field: FieldPath
    instead: int = 0
    share: float = 0.0

    @property
    def meaning(self) -> str:
        what = f"frequent items in pairs, epsilon {float(self.parameters.epsilon)}"
        # Lists of different shares do not follow from one another, so states are not shared.
        what += f", share {float(self.share)}" if self.share else ""
        return of_field(self.field, what)

    @property
    def least(self) -> float:
        """Return the share that every item has listed which has it."""
        return self.share or self.parameters.epsilon

    def combined(self, other: Self) -> Self:
        return replace(self, instead=max(self.instead, other.instead))

    def lists(
        self, states: Sequence[bytes | None], work: Work, share: float, instead: int = 0
    ) -> NamedBatch:
        """Return the new states, and the lists of the items that may have a share."""
        batch, (items,) = work.items_of(self.field)
        return synopses.run_named_items_batch(
            self.parameters, states, batch.holding(items.codes), items.texts, share, instead
        )

    def union_lists(self, asked: Unions, share: float, instead: int = 0) -> NamedBatch:
        """Return the lists over the union of each stream's bundles."""
        from slidestat.synopses.merge.items import union_lists

        return union_lists(*asked, share, instead)

    def numbers(self, lower: int, upper: int) -> tuple[float, float, float]:
        """Return (estimate, lower, upper) of what has these bounds in a list."""
        return (lower + upper) / 2, float(lower), float(upper)

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        lists = self.lists(states, work, self.least, self.instead)
        return Answered(lists.states, {}, self._all_listed(lists))

    def _all_listed(self, lists: NamedBatch) -> list[list[list[Listed]]]:
        bounds = zip(lists.names, lists.lowers.tolist(), lists.uppers.tolist(), strict=True)
        found = [Listed(name, self.numbers(lower, upper)) for name, lower, upper in bounds]
        ends = lists.ends.tolist()
        queries, windows = lists.unlisted.shape
        return [
            [
                sorted(found[ends[at] : ends[at + 1]], key=lambda item: (-item.numbers[0], item))
                for at in range(query * windows, (query + 1) * windows)
            ]
            for query in range(queries)
        ]

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        from slidestat.synopses.past.past import past_items

        require_question(work)
        result = self.lists(states, work.longer(ago), 0)
        windows = len(work.windows)
        lists = [
            [self._listed(past_items(result, query, at, windows)) for at in range(windows)]
            for query in range(len(work.query_times))
        ]
        return Answered([], {}, lists)

    def _listed(self, past: PastList) -> list[Listed]:
        """Return the items that may have the share; all that may have come if none is asked for."""
        least = Fraction(str(self.least)) * past.events_low
        items = [it for it in past.items if it.upper >= least]
        if not items and not self.share:
            items = past.items
        listed = [Listed(it.name, self.numbers(it.lower, it.upper)) for it in items]
        return sorted(listed, key=lambda item: (-item.numbers[0], item))

    def union(self, asked: Unions) -> Answered:
        lists = self.union_lists(asked, self.least, self.instead)
        return Answered([], {}, self._all_listed(lists))


_BITS, _DIGITS = 4, 11
_MOST_DIGIT = (1 << _BITS) - 1
_SCALES = 1 << _BITS * np.arange(_DIGITS)
# The largest weight in units. A window holds 2^62 units, so a quarter of a million of such weights.
_LARGEST = (1 << _BITS * _DIGITS) - 1
# The most copies of events at once, of some 100 bytes each; the largest weight has 165 copies.
_MOST_COPIES = 1 << 19


@dataclass(frozen=True)
class WeighedTopRunner(TopRunner):
    """The items of a field of which most of a `weight` came, in units of 10^-decimals.

    Proof. A weight is written with digits to the base 16. An event is one of part d as often as its
    digit d has it, so an item's weight is the sum of 16^d times its count in part d, and so is the
    window's, W. Each part is a state of frequent items: its bounds are less than epsilon of its
    events m_d apart, or equal. So bounds of an item, added up with 16^d, are less than epsilon
    times the sum of 16^d m_d = W apart, or equal; and of W they are within epsilon W, as those of
    each m_d. So every proof of counts holds with W in place of the window's events. Of few events
    all parts are exact, whatever they weigh: of 10 / epsilon / 15 surely.
    """

    weight: FieldPath = ()
    decimals: int = 0

    @property
    def meaning(self) -> str:
        return f"{super().meaning} weighing {list(self.weight)}, {self.decimals} decimals"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        ends = self._ends(work)
        return in_parts(states, work, ends, super().run) if ends else super().run(states, work)

    def _ends(self, work: Work) -> list[int]:
        """Return the times up to which to work at once, so that few copies are there; none where
        all are few. Events of one time are never separated.
        """
        _, _, weights = work.weighed(self.field, self.weight)
        if len(weights) * _DIGITS * _MOST_DIGIT <= _MOST_COPIES:
            return []
        order = np.argsort(work.times, kind="stable")
        from slidestat.synopses.core.batch import TIME_MAX

        copies = self._digits(np.nan_to_num(work.numbers[self.weight]))[order].sum(axis=1)
        pieces = np.cumsum(copies) // _MOST_COPIES
        begins = work.times[order][1:][np.diff(pieces) > 0]
        return [*np.unique(begins).tolist(), TIME_MAX] if len(begins) else []

    def _digits(self, weights: Floats) -> Integers:
        """Return the digits of weights, the lowest first: int64[n, _DIGITS]."""
        units = np.rint(weights * 10.0**self.decimals).astype(np.int64)
        digits: Integers = units[:, np.newaxis] // _SCALES % (1 << _BITS)
        return digits

    def lists(
        self, states: Sequence[bytes | None], work: Work, share: float, instead: int = 0
    ) -> NamedBatch:
        from slidestat.synopses.frequent.named_items import added_lists

        work, items, weights = work.weighed(self.field, self.weight)
        digits = self._digits(weights)
        copies = np.repeat(np.arange(digits.size), digits.reshape(-1))
        event, part = np.divmod(copies, _DIGITS)
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(digits.sum(axis=1))))
        events = Parted(before[work.starts], work.times[event], part, items.codes[event])
        found: list[NamedBatch] = []

        def run(known: Sequence[bytes | None], batch: synopses.Batch) -> tuple[list[bytes], Floats]:
            """Run all parts, and answer with the place of each list among those found."""
            ran = synopses.run_named_items_batch(self.parameters, known, batch, items.texts, 0)
            found.append(ran)
            return ran.states, np.arange(ran.unlisted.size, dtype=float).reshape(batch.shape)

        new_states, places = run_parted(run, _DIGITS, states, events, *work.queries)
        queries, windows = len(work.query_times), len(work.windows)
        added = added_lists(
            found[0],
            (queries, windows),
            np.repeat(np.arange(queries * windows), _DIGITS),
            places.reshape(-1).astype(np.int64),
            np.tile(_SCALES, queries * windows),
            share,
            instead,
        )
        return replace(added, states=new_states)

    def union_lists(self, asked: Unions, share: float, instead: int = 0) -> NamedBatch:
        from slidestat.synopses.merge.items import union_lists

        return union_lists(*asked, share, instead, _SCALES.tolist())

    def bundles(self, published: Mapping[str, bytes], empty: bytes) -> list[synopses.Bundle]:
        return part_bundles(published, empty, _DIGITS, self._empty_part)

    @cached_property
    def _empty_part(self) -> bytes:
        """The state of a digit that no weight has had."""
        none = synopses.Batch([0, 0], (), ())
        return synopses.run_named_items_batch(self.parameters, [None], none, (), 0).states[0]

    def numbers(self, lower: int, upper: int) -> tuple[float, float, float]:
        scale: int = 10**self.decimals
        ends = down(Fraction(lower, scale)), up(Fraction(upper, scale))
        return (lower + upper) / (2 * scale), *ends


@dataclass(frozen=True, kw_only=True)
class TopItems(WeighedStatistic, ListStatistic):
    """The `limit` items that came most often, each with how often, the most frequent first; or with
    `share`, all that have at least this share of the window's events; or with `weight`, those of
    which most came, such as paths by bytes, each with how much.

    limit: how many items are listed, 1 to 1,000; not with a share.
    share: an item with at least this share of the window's events is listed, 0.002 to 1; 0: the
    `limit` most frequent items are.
    epsilon: bounds of an item lie less than this share of the window's events apart, 0.001 to 0.5;
    with a share, from 0.002 to the share: a tenth of it keeps lists short.
    weight: another field, with how much came: a number that is not negative and less than 2^44 /
    10^decimals; others make dead letters. Shares and errors are then of the sum of the weights.
    decimals: the decimal places that a weight is rounded to, 0 to 9.
    promise: each is off by at most half of epsilon of the window's events. None that has a share of
    epsilon of them is missing, unless there are more than `limit`; what has less may be listed, and
    is within its bounds. Where none has such a share, and the window has so few events (up to about
    10 / epsilon) that counts are exact, the `limit` most frequent ones are listed all the same. So
    a window without items has no event with the field, or so many different ones that none has a
    share of epsilon. With a `share`, every item that has it is listed, and none that has at most
    the share less epsilon.
    union: counts add up, by the items' ids; off by less than epsilon of the events of all parties,
    or of their weight.
    """

    kind: ClassVar[str] = "top"
    has_past: ClassVar[bool] = True
    epsilons: ClassVar[tuple[float, float]] = 0.001, 0.5
    keeps_decimals: ClassVar[bool] = True
    limits = None  # as items have none
    limit: int = _LIMIT
    share: float = 0.0
    epsilon: float = 0.01
    weight: Field = ""
    decimals: int = DECIMALS

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.weight_path
        check_whole(self.kind, "limit", self.limit, 1, _MOST_LISTED)
        if isinstance(self.share, bool) or self.share != 0:
            self._check_share()

    def _check_share(self) -> None:
        if not is_number(self.share) or not _LEAST_SHARE <= self.share <= 1:
            raise SlidestatError(
                f"the share of {self.kind} is {self.share!r}.",
                f"Give a share of the window's events from {_LEAST_SHARE} to 1; 0.01 is one per"
                " cent.",
            )
        check_places(self.kind, "share", self.share, PLACES)
        if self.limit != _LIMIT:
            raise SlidestatError(
                f"{self.kind} has both a share and a limit.",
                "Leave the limit out: every item that has the share is listed.",
            )
        if self.epsilon > self.share:
            raise SlidestatError(
                f"the epsilon of {self.kind}, {self.epsilon!r}, is above its share, {self.share!r}:"
                " any item might have the share.",
                f"Give an epsilon of at most {self.share!r}; a tenth of the share keeps lists"
                " short.",
            )
        check_epsilon(self.kind, self.epsilon, _LEAST_SHARE, self.share)

    @property
    def later_fields(self) -> Set[str]:
        unused = "limit" if self.share else "share"
        return frozenset((unused,) if self.weight else (unused, "decimals"))

    @property
    def weight_limits(self) -> Limits:
        return Limits(0.0, float(_LARGEST // 10**self.decimals))

    def runner(self, span: int, field: FieldPath) -> Runner:
        return self.top_runner(span, field)

    def top_runner(self, span: int, field: FieldPath) -> TopRunner:
        """Return its runner, which answers for items that are not listed as well."""
        asked = self.parameters(span), field, 0 if self.share else self.limit, self.share
        if self.weight_path is None:
            return TopRunner(*asked)
        return WeighedTopRunner(*asked, self.weight_path, self.decimals)

    def promise(self, span: int) -> Promise:
        """Return the promise: bounds are less than epsilon m apart, the estimate in the middle."""
        rounding = 2.0**-52 if self.weight else 0.0
        return Promise(share_error=self.parameters(span).relative_width / 2 + rounding)

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return listed if self.share else listed[: self.limit]

    def parameters(self, span: int) -> synopses.PairedParameters:
        """Return the parameters of its synopsis.

        With a share s, its epsilon e is epsilon / (1 + s), rounded down. An item is listed if its
        upper bound is at least s times the fewest events f that the window of m may have. So every
        item with s m events is listed. One that is has more than s f - e m events, and f is at
        least (1 - e) m (marks.py): so more than (s - e (1 + s)) m, which is (s - epsilon) m or
        more.
        """
        epsilon = self.epsilon
        if self.share:
            exact = Fraction(str(self.epsilon)) / (1 + Fraction(str(self.share)))
            epsilon = floor(exact * 10**PLACES) / 10**PLACES
        return synopses.PairedParameters(epsilon=epsilon, span=span)


_LARGEST_SIZE = 1_000


@dataclass(frozen=True)
class SampleRunner:
    """A uniform sample of a field's values; in its lists the item is the number of the event."""

    parameters: synopses.SampleParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        return of_field(
            self.field, f"sample of {self.parameters.size}, seed {self.parameters.seed}"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        starts, times, values = work.values(self.field)
        of_key = list(pairwise(starts.tolist()))
        queries = list(pairwise(work.query_starts.tolist()))
        lists: list[list[list[Listed]]] = [[] for _ in range(len(work.query_times))]
        # A state is asked between its events, in rounds: the first question of each key, the second
        # of each, and so on; then what comes after the last.
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
                *synopses.run_sample_batch(
                    self.parameters,
                    known,
                    synopses.Batch(np.cumsum([0, *sizes]), times[rows], values[rows]),
                )
            ]
            taken = ends
            for state, query in zip(known, asked, strict=True):
                if query >= 0:
                    lists[query] = self._listed(state, int(work.query_times[query]), work.windows)
        return Answered([state or b"" for state in known], {}, lists)

    def _listed(self, state: bytes | None, now: int, windows: Integers) -> list[list[Listed]]:
        sample = synopses.SlidingSample.from_bytes(state or b"")
        found = [sample.sample(window, now) for window in windows.tolist()]
        return [
            [
                Listed(str(index), (value, value, value))
                for index, value in zip(of.indices.tolist(), of.values.tolist(), strict=True)
            ]
            for of in found
        ]


@dataclass(frozen=True, kw_only=True)
class Sample(ListStatistic):
    """Values of the window drawn at random, each set of them as likely as any other, old to new.

    Each has a figure, whose estimate and bounds are the value, and whose item is the event's number
    among the key's events since its state began. A window of at most `size` events is given whole.
    A share that is estimated from k values is within 1.36 / sqrt(k) in 95 of 100 cases. Replays
    draw the same. Keys with one seed draw events of the same numbers: estimates of one key hold,
    those of different keys are not independent.

    size: how many values are drawn, 1 to 1,000.
    seed: of the draws, 0 to 2^63 - 1.
    promise: values as they were, none drawn twice; all of them if there are at most `size`.
    """

    kind: ClassVar[str] = "sample"
    can_be_united: ClassVar[bool] = False
    size: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.kind, "size", self.size, 1, _LARGEST_SIZE)
        check_seed(self.kind, self.seed, 63)

    def runner(self, span: int, field: FieldPath) -> Runner:
        return SampleRunner(synopses.SampleParameters(self.size, span, self.seed), field)

    def promise(self, _span: int) -> Promise:
        return Promise()

    def chosen(self, listed: Sequence[Listed]) -> Sequence[Listed]:
        return [
            found._replace(numbers=tuple(with_rounded(np.array(found.numbers)).tolist()))
            if abs(found.numbers[0]) >= EXACT
            else found
            for found in listed
        ]
