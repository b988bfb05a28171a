"""Refuse on arrival the values of a key that would not fit into its windows.

A sum or a spread can hold some 2^18 of the largest values that it takes in a window, and no state
may outgrow its synopsis: one key would stop all others. So the span is cut into stretches of event
time, [k span, (k + 1) span), and of each stretch a key has a quota: 2^16 of the largest values. A
value is charged to it in steps, 2^16 of which are the largest value; what is less than a step is
not charged, and never refused. Once the quota is used up, what would be charged is refused.

It suffices: a window touches two stretches, so what was charged is at most 2 (2^16 + 1) of the
largest values, and less than a step of each event is not. That is 2^17 of the largest after 2^33
events of one key in one window. A norm holds 2^30 events of a key, including older ones that cannot
be distinguished from the first ones of its window, up to 2^28 (composition.py): so each event of a
topology with a norm is charged a 2^28th of the quota, and a window has 2^29.

It is a function of the records' order alone. Values are charged in order of their offsets, when
they arrive, waiting or not. A state remembers, for each stretch, what was charged up to its own
offset and the last offset that was: a record that is read again behind that one was refused before,
and one that the state has not seen is judged as if it came for the first time. Stored, an entry is
three little-endian 64-bit integers: stretch, charged steps, last offset.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slidestat.declare.fields import field_text
from slidestat.declare.topology import Topology
from slidestat.engine.events import Events, distinct_texts
from slidestat.engine.keys.key_state import KeyState
from slidestat.synopses.core.arrays import Floats, Integers

STEPS = 1 << 16
"""The steps of the largest value."""

QUOTA = STEPS << 16
"""Steps of a stretch."""

# Stretches that are used up must be known while their records may be read again: a key uses up
# fewer than this between two flushes.
_KEPT_STRETCHES = 64

_Used = dict[int, tuple[int, int]]
_NOTHING = (0, -1)


class Judgement(NamedTuple):
    """The rows of the new events that are refused, int64[r] rising, and what keys have used of
    their quotas, as it is stored; keys that are not there have used what is in their states.
    """

    refused: Integers
    used: dict[str, bytes]


class Quota:
    """The quotas of a partition's keys. 6 ns an event; charged, about 0.5 microseconds."""

    def __init__(self, topology: Topology, charging: Topology | None = None) -> None:
        """Create the quotas of a topology; the limits of `charging`, one of fewer statistics, count
        instead for records that were charged by it.
        """
        charging = charging or topology
        self._span = topology.span_length.length
        filling = charging.filling_columns.items()
        largest = {charging.columns.numbers[place].path: most for place, most in filling}
        paths = [column.path for column in topology.columns.numbers]
        # The place of each column that counts, and the largest value there.
        self._largest = {
            place: largest[path] for place, path in enumerate(paths) if path in largest
        }
        self._fields = ", ".join(map(field_text, largest))
        # Half of them in each of the two stretches that a window touches.
        most = [s.most_events for s in charging.statistics if s.most_events is not None]
        counts = most and not topology.span_length.of_events
        self._of_each = (STEPS << 17) // min(most) if counts else 0

    def judge(
        self, new: Events, states_of: Callable[[list[str]], list[KeyState]], watermark: int
    ) -> Judgement:
        """Charge `new` events, which are on time and in offset order; `watermark` is the one after
        them. The states have the use of earlier events, also of those that wait.
        """
        charges = self._charges(new.numbers, len(new))
        charged = np.flatnonzero(charges)
        if not len(charged):
            return Judgement(np.empty(0, np.int64), {})
        offsets, times, charges = new.offsets[charged], new.times[charged], charges[charged]
        keys, groups = distinct_texts(new.keys.take(pa.array(charged)))
        states = states_of(keys)
        used = [_decode(state.used) for state in states]

        stretches = times // self._span
        order = np.lexsort((offsets, stretches, groups))
        groups, stretches, offsets = groups[order], stretches[order], offsets[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (groups[1:] != groups[:-1]) | (stretches[1:] != stretches[:-1])
        starts = np.flatnonzero(first)
        account = np.cumsum(first) - 1
        owners = list(zip(groups[starts].tolist(), stretches[starts].tolist(), strict=True))
        known = np.array([used[group].get(at, _NOTHING) for group, at in owners], np.int64)

        seen = offsets <= np.array([state.offset for state in states], np.int64)[groups]
        charges = np.where(seen, 0, charges[order])
        # Refused events are charged here too: behind the first refused one all of its stretch are
        # refused.
        before = np.cumsum(charges) - charges
        before += known[account, 0] - before[starts][account]
        refused = (before >= QUOTA) & (~seen | (offsets > known[account, 1]))
        taken = ~refused & ~seen
        last = np.flatnonzero(taken)
        for place, row in dict(zip(account[last].tolist(), last.tolist(), strict=True)).items():
            group, at = owners[place]
            used[group][at] = int(before[row] + charges[row]), int(offsets[row])
        changed = dict.fromkeys(groups[taken].tolist())
        oldest = watermark // self._span
        return Judgement(
            np.sort(charged[order][refused]),
            {keys[group]: _encode(used[group], oldest) for group in changed},
        )

    def refusal(self, time: int) -> str:
        """Return the reason why an event of this time was refused."""
        start = time // self._span * self._span
        if self._of_each:
            return (
                f"the key's events from {start} to {start + self._span} ms are as many, or their"
                " values as large, as its windows can hold"
            )
        return (
            f"{self._fields}: the key's values from {start} to {start + self._span} ms are as many"
            " and as large as its windows can hold"
        )

    def _charges(self, numbers: tuple[Floats, ...], count: int) -> Integers:
        """Return int64[count]: the steps of each event, the maximum over its values."""
        charges = np.full(count, self._of_each, np.int64)
        for place, largest in self._largest.items():
            # An event that lacks the field, NaN, uses nothing.
            steps = np.nan_to_num(np.abs(numbers[place])) * (STEPS / largest)
            if count and steps.max() >= 1:
                np.maximum(charges, steps.astype(np.int64), out=charges)
        return charges


def needed_quotas(used: dict[str, bytes], oldest: int) -> dict[str, bytes]:
    """Return the stored quotas without those whose stretches are all before `oldest`: no event on
    time is charged to these any more. For readers that never read a record again.
    """
    return {
        key: stored for key, stored in used.items() if max(_decode(stored), default=-1) >= oldest
    }


def _decode(stored: bytes) -> _Used:
    entries = np.frombuffer(stored, "<i8").reshape(-1, 3).tolist()
    return {stretch: (charged, last) for stretch, charged, last in entries}


def _encode(used: _Used, oldest: int) -> bytes:
    """Return the stored form of a quota; stretches before `oldest` are dropped unless they are
    full: only records that are read again are charged to them.
    """
    kept = [(at, *entry) for at, entry in used.items() if at >= oldest or entry[0] >= QUOTA]
    return np.array(sorted(kept)[-_KEPT_STRETCHES:], "<i8").tobytes()
