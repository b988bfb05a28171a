"""The items of a field that come most often."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, ClassVar, Self

from slidestat import synopses
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.base import (
    PLACES,
    ListStatistic,
    Promise,
    check_epsilon,
    check_places,
)
from slidestat.declare.statistics.runner import (
    Answered,
    CombinableRunner,
    Listed,
    PastRunner,
    Runner,
    UnitedRunner,
    Work,
    of_field,
    require_question,
)
from slidestat.errors import SlidestatError
from slidestat.synopses.core.arrays import Integers

if TYPE_CHECKING:
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

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        batch, (items,) = work.items_of(self.field)
        result = synopses.run_named_items_batch(
            self.parameters,
            states,
            batch.holding(items.codes),
            items.texts,
            self.least,
            self.instead,
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

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        from slidestat.synopses.past.past import past_items

        require_question(work)
        batch, (items,) = work.longer(ago).items_of(self.field)
        result = synopses.run_named_items_batch(
            self.parameters, states, batch.holding(items.codes), items.texts, 0
        )
        windows = len(work.windows)
        lists = [
            [self._listed(past_items(result, query, at, windows)) for at in range(windows)]
            for query in range(len(work.query_times))
        ]
        return Answered([], {}, lists)

    def _listed(self, past: PastList) -> list[Listed]:
        """Return the items that may have the share; where none may and no share is asked for, all
        that may have come.
        """
        least = self.least * past.events_low
        items = [it for it in past.items if it.upper >= least]
        if not items and not self.share:
            items = past.items
        listed = [Listed(it.name, ((it.lower + it.upper) / 2, it.lower, it.upper)) for it in items]
        return sorted(listed, key=lambda item: (-item.numbers[0], item))

    def union(
        self, bundles: Sequence[synopses.Bundle], times: Sequence[int], windows: Integers
    ) -> Answered:
        lists = synopses.union_named_items(bundles, times, windows, self.least, self.instead)
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


@dataclass(frozen=True, kw_only=True)
class TopItems(ListStatistic):
    """The `limit` items that came most often, each with how often, the most frequent first; or with
    `share`, all that have at least this share of the window's events.

    limit: how many items are listed, 1 to 1,000; not with a share.
    share: an item with at least this share of the window's events is listed, 0.002 to 1; 0: the
    `limit` most frequent items are.
    epsilon: bounds of an item lie less than this share of the window's events apart, 0.001 to 0.5;
    with a share, from 0.002 to the share: a tenth of it keeps lists short.
    promise: each is off by at most half of epsilon of the window's events. None that has a share of
    epsilon of them is missing, unless there are more than `limit`; what has less may be listed, and
    is within its bounds. Where none has such a share, and the window has so few events (up to about
    10 / epsilon) that counts are exact, the `limit` most frequent ones are listed all the same. So
    a window without items has no event with the field, or so many different ones that none has a
    share of epsilon. With a `share`, every item that has it is listed, and none that has at most
    the share less epsilon.
    union: counts add up, by the items' ids; off by less than epsilon of the events of all parties.
    """

    kind: ClassVar[str] = "top"
    has_past: ClassVar[bool] = True
    limit: int = _LIMIT
    share: float = 0.0
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_epsilon(self.kind, self.epsilon, 0.001, 0.5)
        if type(self.limit) is not int or not 1 <= self.limit <= _MOST_LISTED:
            raise SlidestatError(
                f"the limit of {self.kind} is {self.limit!r}.",
                f"Give a whole number from 1 to {_MOST_LISTED}.",
            )
        if isinstance(self.share, bool) or self.share != 0:
            self._check_share()

    def _check_share(self) -> None:
        number = isinstance(self.share, int | float) and not isinstance(self.share, bool)
        if not number or not _LEAST_SHARE <= self.share <= 1:
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
        return frozenset(("share",)) if not self.share else frozenset(("limit",))

    @property
    def limits(self) -> None:
        """The limits of items: none."""
        return

    def runner(self, span: int, field: FieldPath) -> Runner:
        instead = 0 if self.share else self.limit
        return TopRunner(self.parameters(span), field, instead, self.share)

    def promise(self, span: int) -> Promise:
        """Return the promise: bounds are less than epsilon m apart, and the estimate is their
        middle.
        """
        return Promise(share_error=self.parameters(span).relative_width / 2)

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
