"""The parts of a stream, such as the values between edges, or those of events whose other field is
between them: a synopsis of each part, in one state.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.3 (histograms: a sum or a mean in each bin).

The synopses of all parts of all keys of a batch are fed and asked in one call. A state is a
version, 1, then of each part the length of its synopsis as 4 bytes, little-endian, and all
synopses; a part without an event has none. Each part depends on its own events alone, so batches do
not show.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slidestat import synopses
from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics.runner import (
    NOBODY,
    Answered,
    PastRunner,
    Unions,
    UnitedRunner,
    Work,
    added_past,
    of_field,
    past_of,
)
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.errors import SynopsisError

if TYPE_CHECKING:
    # Feeds and asks the synopses of many groups: new states, and float64[..., Q, W], the answers.
    Run = Callable[[Sequence[bytes | None], synopses.Batch], tuple[list[bytes], Floats]]

_VERSION = 1


@dataclass(frozen=True)
class Parted:
    """Events of G groups with the part that each is of, and a value: int64[n] and float64[n],
    `starts` and `times` as of `Batch`.
    """

    starts: Integers
    times: Integers
    parts: Integers
    values: Floats | Integers


def run_parted(
    run: Run,
    count: int,
    states: Sequence[bytes | None],
    events: Parted,
    query_starts: Integers,
    query_times: Integers,
    windows: Integers,
) -> tuple[list[bytes], Floats]:
    """Feed and ask the synopses of `count` parts of each group; return the new states, and the
    answers of `run` with one more axis: float64[..., Q, W, count].

    Raises SynopsisError, and changes nothing, for states that are not of so many parts, and as
    `run` does. Cost: that of `run` over the parts.
    """
    groups = len(states)
    known = [part for state in states for part in parts_of(state, count)]
    flat = np.repeat(np.arange(groups), np.diff(events.starts)) * count + events.parts
    order = np.argsort(flat, kind="stable")
    sizes = np.bincount(flat, minlength=groups * count)
    asked = np.repeat(np.diff(query_starts), count)
    # Where the k-th part of each query's group asks for it.
    of_group = np.repeat(np.arange(groups), np.diff(query_starts))
    places = (query_starts[:-1] * count)[of_group, np.newaxis]
    places = places + np.arange(count) * np.diff(query_starts)[of_group, np.newaxis]
    places = places + (np.arange(len(query_times)) - query_starts[of_group])[:, np.newaxis]
    times = np.empty(len(query_times) * count, np.int64)
    times[places] = query_times[:, np.newaxis]
    fed, answers = run(
        known,
        synopses.Batch(
            _starts(sizes),
            events.times[order],
            events.values[order],
            _starts(asked),
            times,
            windows,
        ),
    )
    found = [
        new if size or old is not None else b""
        for new, old, size in zip(fed, known, sizes.tolist(), strict=True)
    ]
    new_states = [_joined(found[at : at + count]) for at in range(0, len(found), count)]
    # float64[..., Q, count, W] has the parts before the windows.
    return new_states, np.moveaxis(answers[..., places, :], -2, -1)


def _starts(sizes: Integers) -> Integers:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _joined(parts: Sequence[bytes]) -> bytes:
    if not any(parts):
        return b""
    lengths = struct.pack(f"<B{len(parts)}I", _VERSION, *map(len, parts))
    return lengths + b"".join(parts)


def parts_of(state: bytes | None, count: int) -> list[bytes | None]:
    """Return the synopsis of each part of a state, None for a part without an event.

    Raises SynopsisError for a state that is not of `count` parts.
    """
    if not state:
        return [None] * count
    head = struct.calcsize(f"<B{count}I")
    if len(state) < head or state[0] != _VERSION:
        raise SynopsisError(f"the state is not of {count} parts")
    _, *lengths = struct.unpack_from(f"<B{count}I", state)
    if head + sum(lengths) != len(state):
        raise SynopsisError(f"the state is not of {count} parts")
    ends = np.cumsum([head, *lengths]).tolist()
    return [state[a:b] or None for a, b in pairwise(ends)]


def part_bundles(
    published: Mapping[str, bytes], empty: bytes, count: int, empty_part: bytes
) -> list[synopses.Bundle]:
    """Return a bundle for each part of the states that each party published; `empty` is the state
    of no events, `empty_part` the synopsis of a part without any.

    Raises SynopsisError for states of other parts, and as `Bundle.of` does.
    """
    states = published or {NOBODY: empty}
    parts = {party: parts_of(state, count) for party, state in states.items()}
    return [
        synopses.Bundle.of({party: of[part] or empty_part for party, of in parts.items()})
        for part in range(count)
    ]


class PartRunner(UnitedRunner):
    """A runner of a field's values, or of those of one part of a stream."""

    # The name of the answer that is given for each part, and whether it is of magnitudes.
    what: ClassVar[str]
    of_magnitudes: ClassVar[bool] = False
    parameters: synopses.SumParameters | synopses.SpreadParameters
    field: FieldPath

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        return self.fed(states, work.values_of(self.field))

    @abstractmethod
    def fed(self, states: Sequence[bytes | None], batch: synopses.Batch) -> Answered:
        """Do the same with the events that have the field, and its values."""


@dataclass(frozen=True)
class PartedRunner(UnitedRunner, PastRunner):
    """A runner of each part: of sums, which are those of magnitudes, or of means. An answer has one
    more axis, a place for each part.

    The parts lie between cuts of the values, or, with `by`, of what that field has. Of these each
    is two parts where sums are kept: that of the values below zero, and then that of the others.
    """

    of_one: PartRunner
    cuts: tuple[float, ...]
    by: FieldPath | None = None

    @property
    def meaning(self) -> str:
        p, what = self.of_one.parameters, self.of_one.what
        cuts = ", ".join(map(str, self.cuts))
        # A list, as no cut is written so.
        cuts = cuts if self.by is None else f"{cuts} by {list(self.by)}"
        return of_field(
            self.of_one.field,
            f"{what}s parted at {cuts}, epsilon {float(p.epsilon)}, {p.decimals} decimals",
        )

    @property
    def answer(self) -> str:
        """The name of its answer."""
        return f"parted {self.of_one.what}"

    @property
    def count(self) -> int:
        """The number of parts."""
        return (len(self.cuts) + 1) * (2 if self._has_signs else 1)

    @property
    def _has_signs(self) -> bool:
        return self.by is not None and self.of_one.of_magnitudes

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        if self.by is None:
            starts, times, values = work.values(self.of_one.field)
            parts = np.searchsorted(self.cuts, values, "right")
        else:
            starts, times, values, bys = work.pairs(self.of_one.field, self.by)
            parts = np.searchsorted(self.cuts, bys, "right")
        if self._has_signs:
            parts = 2 * parts + (values >= 0)
        kept = np.abs(values) if self.of_one.of_magnitudes else values
        events = Parted(starts, times, parts, kept)
        found, answers = run_parted(self._fed, self.count, states, events, *work.queries)
        return Answered(found, {self.answer: answers})

    def past(self, states: Sequence[bytes | None], work: Work, ago: int) -> Answered:
        if self.adds_up:
            return added_past(self, states, work, ago)
        of_states = [parts_of(state, self.count) for state in states]
        # There may be no state: then each part has none.
        parts = [[it[place] for it in of_states] for place in range(self.count)]
        found = [past_of(self.of_one).past(part, work, ago) for part in parts]
        answers = [answered.answers[self.of_one.what] for answered in found]
        return Answered([], {self.answer: np.stack(answers, axis=-1)})

    @property
    def adds_up(self) -> bool:
        return past_of(self.of_one).adds_up

    def union(self, asked: Unions) -> Answered:
        answers = self.of_one.union(asked).answers[self.of_one.what]
        of_streams = answers.reshape(3, -1, self.count, len(asked.windows))
        return Answered([], {self.answer: np.moveaxis(of_streams, 2, 3)})

    def bundles(self, published: Mapping[str, bytes], empty: bytes) -> list[synopses.Bundle]:
        return part_bundles(published, empty, self.count, self._empty)

    @cached_property
    def _empty(self) -> bytes:
        """The synopsis of a part that has had no event."""
        return self.of_one.fed([None], synopses.Batch([0, 0], (), ())).states[0]

    def _fed(
        self, states: Sequence[bytes | None], batch: synopses.Batch
    ) -> tuple[list[bytes], Floats]:
        fed = self.of_one.fed(states, batch)
        return fed.states, fed.answers[self.of_one.what]
