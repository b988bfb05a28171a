"""The sliding average of one key: the mean of whole numbers from 0 to 2^53 over any window.

Paper: Gibbons and Tirthapura, "Distributed Streams Algorithms for Sliding Windows" (2002), section
5: a sum wave divided by a count wave, each with an error of epsilon / (2 + epsilon).

contract   lower <= exact <= upper; |estimate - exact| <= exact / (c - 1) <= epsilon * exact (and
           2^-51 of it), c as in the two waves; deterministic; any window n <= span; all three are
           nan if the window is empty, which is always known
space      that of the two waves
update     O(1) in the worst case (the states are read and written once a batch)
query      that of the two waves
order      times must not fall; ties are fine
merge      merge/totals.py; the relative error stays

Proof: docs/proofs.md.

The body (envelope: see wire.py): the length of the count wave's bytes, these, and those of the sum.
"""

import math
from fractions import Fraction
from typing import ClassVar

import numpy.typing as npt

from slidestat.synopses.core.envelope import Body, body_of, damaged, sealed, varint
from slidestat.synopses.core.estimate import Estimate
from slidestat.synopses.core.rounding import down, up
from slidestat.synopses.waves.parameters import AverageParameters
from slidestat.synopses.waves.waves import CountWave, SumWave

AVERAGE = 6


class AverageWave:
    """A deterministic wave of averages; a window of n at `now` is [now - n, now)."""

    kinds: ClassVar[tuple[int, ...]] = (AVERAGE,)

    def __init__(self, parameters: AverageParameters, count: CountWave, total: SumWave) -> None:
        self._parameters = parameters
        self._count = count
        self._sum = total

    @classmethod
    def create(cls, parameters: AverageParameters) -> "AverageWave":
        """Return an average that has seen nothing."""
        waves = parameters.waves
        return cls(parameters, CountWave.create(waves), SumWave.create(waves))

    @classmethod
    def from_bytes(cls, data: bytes) -> "AverageWave":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else.

        The parameters' epsilon is then the promised error, which may be below the one once asked
        for. Cost: O(len(data)).
        """
        halves = cls.halves(data)
        count, total = CountWave.from_bytes(halves[0]), SumWave.from_bytes(halves[1])
        least = count.parameters.per_level - 1
        if not (1 <= least <= 100_000) or count.parameters != total.parameters:
            raise damaged()
        if count.now != total.now:
            raise damaged()
        return cls(AverageParameters(1 / least, count.parameters.span), count, total)

    @staticmethod
    def halves(data: bytes) -> tuple[bytes, bytes]:
        """Return the count wave and the sum wave of a stored average; SynopsisError for others."""
        body = Body(body_of(data, AVERAGE))
        return body.taken(body.number()), body.rest()

    @property
    def parameters(self) -> AverageParameters:
        """Return the average's parameters."""
        return self._parameters

    @property
    def now(self) -> int:
        """The last event's time + 1, or the time advanced to; -2^61 before any."""
        return self._count.now

    def to_bytes(self) -> bytes:
        """Return the state: equal states are equal bytes."""
        count, total = self._count.to_bytes(), self._sum.to_bytes()
        return sealed(AVERAGE, varint(len(count)) + count + total)

    def insert(self, times: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Take in events: `times` not falling, from `now` - 1 on, and a value, 0 to 2^53, for each.

        Raises SynopsisError, and takes in nothing, if a time goes back, a value is out of range or
        no whole number, or the sum's upper to 2^62. Cost: O(events + bytes).
        """
        self._sum.insert(times, values)
        self._count.insert(times)

    def advance(self, now: int) -> None:
        """Move on to `now` without events, dropping what expires; SynopsisError if it goes back."""
        self._sum.advance(now)
        self._count.advance(now)

    def query(self, n: int, now: int | None = None) -> Estimate:
        """Answer for the window [now - n, now), 1 <= n <= span; nan if it has no event.

        `now` is the average's if None. A later one is a look ahead that changes nothing; an earlier
        one raises SynopsisError. Cost: O(bytes).
        """
        count, total = self._count.query(n, now), self._sum.query(n, now)
        if count.lower == 0:
            return Estimate(math.nan, math.nan, math.nan)
        least = Fraction(total.lower) / Fraction(count.upper)
        most = Fraction(total.upper) / Fraction(count.lower)
        estimate = total.estimate / count.estimate
        return Estimate(estimate, down(least), up(most))

    def check(self) -> None:
        """Raise SynopsisError unless both waves keep their invariants. Cost: O(items)."""
        self._count.check()
        self._sum.check()
