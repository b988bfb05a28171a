"""A sample of a partition's keys that is the same wherever it is taken: the keys of least hash.

Coordinated bottom-k sampling (Cohen and Kaplan 2007, after Broder 1997): all partitions order keys
by one hash and keep the k least of those that have a state. What lies in two partitions and below
the bounds of both samples is in both. So up to k keys a partition, every key that lies in two of
them is seen; of more keys, a share f of which lies in both, none is seen with probability
(1 - f)^k.
"""

from hashlib import blake2b
from heapq import heapify, heappop, heappush, nsmallest
from typing import NamedTuple

# Of a partition of this worker; 1,024 keys take about 300 kB.
SAMPLED_KEYS = 1_024
IDENTITY_BYTES = 8
# It is ordered by the first half, as good as always.
_DIGEST_BYTES = 16

Identity = bytes
"""The identity of a key: 8 bytes of its hash, other ones than those of its order."""


class _Hash(NamedTuple):
    order: int
    identity: Identity


class KeySample:
    """The keys of least hash among those that have a state. About 1 microsecond a new key."""

    def __init__(self, size: int = SAMPLED_KEYS) -> None:
        self._size = size
        self._held: dict[str, _Hash] = {}
        # Largest first; a key that was discarded may still be in it.
        self._heap: list[tuple[int, str]] = []
        # Keys of this hash and above are not sampled: not all of them are known.
        self._bound = b"\xff" * (_DIGEST_BYTES + 1)
        self._fresh: list[str] = []
        self._least: list[Identity] | None = None

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def add(self, key: str) -> None:
        """Add a key that has a state from now on."""
        digest = _digest(key)
        if digest >= self._bound or key in self._held:
            return
        hashed = self._held[key] = _Hash(int.from_bytes(digest), digest[-IDENTITY_BYTES:])
        self._least = None
        self._fresh.append(key)
        heappush(self._heap, (-hashed.order, key))
        while len(self._held) > self._size:
            largest, last = heappop(self._heap)
            if self._held.pop(last, None) is not None:
                self._bound = (-largest).to_bytes(_DIGEST_BYTES)
        if len(self._heap) > 2 * self._size:  # Most of it was discarded.
            self._heap = [(-hashed.order, key) for key, hashed in self._held.items()]
            heapify(self._heap)
        if len(self._fresh) > 2 * self._size:  # Not asked for.
            self._fresh = self.take_fresh()

    def discard(self, key: str) -> None:
        """Discard a key whose state is gone; it may start again in any partition."""
        if self._held.pop(key, None) is not None:
            self._least = None

    def take_fresh(self) -> list[str]:
        """Return the keys sampled since the last call, without those that are gone again."""
        fresh, self._fresh = self._fresh, []
        return list(dict.fromkeys(key for key in fresh if key in self._held))

    def identity(self, key: str) -> Identity:
        """Return the identity of a key of the sample; raises KeyError for another."""
        return self._held[key].identity

    def identities(self) -> dict[Identity, str]:
        """Return the keys of the sample by their identities."""
        return {hashed.identity: key for key, hashed in self._held.items()}

    def least(self, count: int) -> list[Identity]:
        """Return the identities of the `count` keys of least hash, in that order; kept until keys
        change.
        """
        if self._least is None or len(self._least) < min(count, len(self._held)):
            self._least = [hashed.identity for hashed in nsmallest(count, self._held.values())]
        return self._least[:count]


def identity(key: str) -> Identity:
    """Return a hash that identifies a key, the same in every process."""
    return _digest(key)[-IDENTITY_BYTES:]


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=_DIGEST_BYTES).digest()
