"""Which declaration was in charge of which ticks: where its emissions must be, if any is missing.

A partition's emissions come tick by tick, so a declaration is in charge from its first tick to that
of the next one. Between two that emit at different intervals, the ticks after the last of the one
and before the first of the other are in no charge: which of the two would have emitted is not
known.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

_FOREVER_MS = 2**62


class Charge(NamedTuple):
    """The ticks from `since_ms` to before `until_ms`."""

    since_ms: int
    until_ms: int

    def has(self, tick_ms: int) -> bool:
        """Return whether a tick is one of them."""
        return self.since_ms <= tick_ms < self.until_ms


ALWAYS = (Charge(-_FOREVER_MS, _FOREVER_MS),)

Charges = dict[tuple[int, str], tuple[Charge, ...]]
"""By partition and fingerprint."""


class Turn(NamedTuple):
    """A declaration's first tick after another's last one, `before_ms` (None at the beginning)."""

    partition: int
    tick_ms: int
    before_ms: int | None
    mark: str


def charges_of(turns: Iterable[Turn], every_ms: Mapping[str, int]) -> Charges:
    """Return the charges of all partitions; `every_ms` is that of each declaration."""
    found: dict[tuple[int, str], list[Charge]] = {}
    in_order = sorted(turns, key=lambda turn: turn[:2])
    for partition, those in groupby(in_order, key=lambda turn: turn.partition):
        of_one = list(those)
        starts = [-_FOREVER_MS, *(turn.tick_ms for turn in of_one[1:])]
        ends = [
            following.tick_ms
            if every_ms[turn.mark] == every_ms[following.mark]
            else (following.before_ms or 0) + 1
            for turn, following in pairwise(of_one)
        ]
        for turn, start, end in zip(of_one, starts, [*ends, _FOREVER_MS], strict=True):
            found.setdefault((partition, turn.mark), []).append(Charge(start, end))
    return {place: tuple(charges) for place, charges in found.items()}


def without(charges: Sequence[Charge], absences: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return the ticks of `charges` that are in none of `absences`."""
    left = list(charges)
    for gone in absences:
        left = [
            part
            for one in left
            for part in (
                Charge(one.since_ms, min(one.until_ms, gone.since_ms)),
                Charge(max(one.since_ms, gone.until_ms), one.until_ms),
            )
            if part.since_ms < part.until_ms
        ]
    return tuple(left)
