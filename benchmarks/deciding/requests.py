"""Requests of users: the events of the deciding question, and what is exactly true of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.harness.workload import KeyDistribution, Record, Workload, draw
from slidestat.synopses.core.arrays import Integers

_SEED = 20120704
_USERS, _PATHS = 50_000, 2_000
# Normal distribution of the logarithm of milliseconds: a median of 60 ms, and one request in a
# hundred above 0.8 s.
_LOG_MEDIAN, _LOG_SPREAD = 4.1, 1.1
_MOST_MICROSECONDS = 60_000_000


@dataclass(frozen=True, kw_only=True)
class Requests(Workload):
    """Events with a service as key, how long each took (`cents`, hundredths of a millisecond), a
    user and a path.

    users: int64[n], of [0, 50,000), the k-th in proportion to 1/k^0.5. paths: int64[n], of
    [0, 2,000), in proportion to 1/k.
    """

    users: Integers
    paths: Integers

    def part(self, start: int, end: int) -> "Requests":
        """Return its events from `start` up to `end`."""
        rows = slice(start, end)
        columns = (self.keys, self.times, self.cents, self.users, self.paths)
        keys, times, cents, users, paths = (column[rows] for column in columns)
        return replace(self, keys=keys, times=times, cents=cents, users=users, paths=paths)

    def records(self, start: int = 0, end: int | None = None) -> Iterator[Record]:
        """Yield events as they are on the wire, about 95 bytes each."""
        part = self.part(start, len(self) if end is None else end)
        columns = (part.keys, part.times, part.cents, part.users, part.paths)
        for key, time_ms, cents, user, path in zip(*(c.tolist() for c in columns), strict=True):
            name = self.key_text(key).encode()
            fields = (name, time_ms, cents // 100, cents % 100, user, path)
            value = b'{"key":"%b","time":%d,"took":%d.%02d,"user":"user-%05d","path":"/p/%d"}'
            yield Record(name, value % fields, time_ms, key % self.partitions)


def draw_requests(events: int, key_count: int, partitions: int, mean_gap_ms: float) -> Requests:
    """Draw requests; the same arguments give the same ones."""
    drawn = draw(events, key_count, KeyDistribution.ZIPF, partitions, mean_gap_ms)
    rng = np.random.default_rng(_SEED)
    cents = (100 * np.exp(rng.normal(_LOG_MEDIAN, _LOG_SPREAD, events))).astype(np.int64) + 1
    return Requests(
        key_count,
        partitions,
        drawn.keys,
        drawn.times,
        np.minimum(cents, _MOST_MICROSECONDS),
        users=_drawn(rng, events, _USERS, 0.5),
        paths=_drawn(rng, events, _PATHS, 1.0),
    )


def _drawn(rng: np.random.Generator, events: int, kinds: int, exponent: float) -> Integers:
    shares = np.cumsum(1.0 / np.arange(1, kinds + 1) ** exponent)
    places: Integers = np.searchsorted(shares, rng.random(events) * shares[-1]).astype(np.int64)
    return places


class ExactRequests:
    """The requests of any key in any window, found by search."""

    def __init__(self, requests: Requests) -> None:
        order = np.argsort(requests.keys, kind="stable")
        self.requests, self._order = requests, order
        self._starts = np.searchsorted(requests.keys[order], np.arange(requests.key_count + 1))
        self._times = requests.times[order]

    def rows(self, key: int, start_ms: int, end_ms: int) -> Integers:
        """Return the places of the key's events in [start_ms, end_ms)."""
        first, last = self._starts[key], self._starts[key + 1]
        low, high = np.searchsorted(self._times[first:last], (start_ms, end_ms)).tolist()
        return self._order[first + low : first + high]

    def due(self, every_ms: int) -> Integers:
        """Return int64[n, 2] of each key with each tick that follows an event of it directly, up to
        the newest event of its partition.
        """
        requests = self.requests
        of = requests.keys % requests.partitions
        newest = np.zeros(requests.partitions, np.int64)
        np.maximum.at(newest, of, requests.times)
        ticks = requests.times // every_ms + 1
        is_passed = ticks * every_ms <= newest[of]
        # One number for key and tick: pairs of ten million events take too long to sort.
        codes = np.unique(ticks[is_passed] * requests.key_count + requests.keys[is_passed])
        ends, keys = np.divmod(codes, requests.key_count)
        return np.stack([keys, ends * every_ms], axis=1)
