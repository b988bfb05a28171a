"""Sums of the parts of a stream: an exponential histogram of a sum for each part, in one state.

Source: Datar, Gionis, Indyk, Motwani 2002, section 6.3 (histograms: a sum in each bin), and section
4 for the sum of a part. Values of both signs are parts below and from zero on, of which the
magnitudes are summed.

The histograms of all parts of all keys of a batch are fed and asked in one call. A state is a
version, 1, then of each part the length of its histogram as 4 bytes, little-endian, and all
histograms; a part without an event has none. What each holds depends on its own events alone, so
batches do not show.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.parameters import SumParameters
from slidestat.synopses.exponential_histogram.batch import run_batch

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_VERSION = 1


@dataclass(frozen=True)
class Parted:
    """Events of G groups with the part that each is of, and a magnitude, not negative, to be
    summed: int64[n] and float64[n], `starts` and `times` as of `Batch`.
    """

    starts: Int64s
    times: Int64s
    parts: Int64s
    magnitudes: Float64s


def run_parted_sums(
    parameters: SumParameters,
    count: int,
    states: Sequence[bytes | None],
    events: Parted,
    query_starts: Int64s,
    query_times: Int64s,
    windows: Int64s,
) -> tuple[list[bytes], Float64s]:
    """Feed and ask the sums of `count` parts of each group; returns the new states, and
    float64[3, Q, W, count]: estimates, lowers and uppers.

    Raises SynopsisError, and changes nothing, for states that are not of so many parts with these
    parameters, and as `run_batch` does. Cost: that of `run_batch` over the parts.
    """
    groups = len(states)
    known = [part for state in states for part in _parts_of(state, count)]
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
    result = run_batch(
        parameters,
        known,
        Batch(
            _starts(sizes),
            events.times[order],
            events.magnitudes[order],
            _starts(asked),
            times,
            windows,
        ),
    )
    found = [
        new if size or old is not None else b""
        for new, old, size in zip(result.states, known, sizes.tolist(), strict=True)
    ]
    new_states = [_joined(found[at : at + count]) for at in range(0, len(found), count)]
    answers = np.stack((result.estimates, result.lowers, result.uppers))
    return new_states, np.moveaxis(answers[:, places], 2, 3)


def added(answers: Float64s, signs: Float64s) -> Float64s:
    """float64[3, Q, W]: the sums of float64[3, Q, W, parts], each part with its sign.

    Bounds are rounded outwards where a double cannot hold them.
    """
    total = np.zeros(answers.shape[:3])
    for part, sign in enumerate(signs.tolist()):
        figures = answers[..., part] if sign > 0 else -answers[[0, 2, 1], ..., part]
        total[0] += figures[0]
        total[1] = _sum(total[1], figures[1], -np.inf)
        total[2] = _sum(total[2], figures[2], np.inf)
    total[0] = np.clip(total[0], total[1], total[2])
    return total


def _sum(a: Float64s, b: Float64s, towards: float) -> Float64s:
    """The sum of two, rounded `towards` an infinity: Knuth's two-sum tells what is left out."""
    rounded = a + b
    of_a = rounded - b
    left = (a - of_a) + (b - (rounded - of_a))
    is_off = left > 0 if towards > 0 else left < 0
    stepped: Float64s = np.where(is_off, np.nextafter(rounded, towards), rounded)
    return stepped


def _starts(sizes: Int64s) -> Int64s:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _joined(parts: Sequence[bytes]) -> bytes:
    if not any(parts):
        return b""
    lengths = struct.pack(f"<B{len(parts)}I", _VERSION, *map(len, parts))
    return lengths + b"".join(parts)


def _parts_of(state: bytes | None, count: int) -> list[bytes | None]:
    """The histogram of each part, None for a part without one."""
    if not state:
        return [None] * count
    head = struct.calcsize(f"<B{count}I")
    if len(state) < head or state[0] != _VERSION:
        raise SynopsisError(f"the state is not of sums of {count} parts")
    _, *lengths = struct.unpack_from(f"<B{count}I", state)
    if head + sum(lengths) != len(state):
        raise SynopsisError(f"the state is not of sums of {count} parts")
    ends = np.cumsum([head, *lengths]).tolist()
    return [state[a:b] or None for a, b in pairwise(ends)]
