"""The parts of a stream, such as the values between edges: a synopsis of each part, in one state.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.3 (histograms: a sum or a mean in each bin).

The synopses of all parts of all keys of a batch are fed and asked in one call. A state is a
version, 1, then of each part the length of its synopsis as 4 bytes, little-endian, and all
synopses; a part without an event has none. What each holds depends on its own events alone, so
batches do not show.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_VERSION = 1


# Feeds and asks the synopses of many groups: new states, and float64[..., Q, W], the answers.
Run = Callable[[Sequence[bytes | None], Batch], tuple[list[bytes], Float64s]]


@dataclass(frozen=True)
class Parted:
    """Events of G groups with the part that each is of, and a value: int64[n] and float64[n],
    `starts` and `times` as of `Batch`.
    """

    starts: Int64s
    times: Int64s
    parts: Int64s
    values: Float64s


def run_parted(
    run: Run,
    count: int,
    states: Sequence[bytes | None],
    events: Parted,
    query_starts: Int64s,
    query_times: Int64s,
    windows: Int64s,
) -> tuple[list[bytes], Float64s]:
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
        Batch(
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


def _starts(sizes: Int64s) -> Int64s:
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
