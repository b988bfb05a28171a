"""Keys that lie in several partitions of a source, whose statistics would each be of a part.

A key's statistics are those of its partition. Where records are not partitioned by the key (null
Kafka keys are the commonest case), a key would come out once for each partition, each time with a
part of the truth and with bounds for that part: so a worker stops before it emits such figures. A
topology that publishes its partitions is made for this, and a referee answers; so it does for the
keys that a topology publishes.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from heapq import heapify, heappop, heappush, nsmallest
from types import MappingProxyType
from typing import NamedTuple

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError

# A sample of a partition's keys that is the same wherever it is taken: the keys of least hash.
#
# Coordinated bottom-k sampling (Cohen and Kaplan 2007, after Broder 1997): all partitions order
# keys by one hash and keep the k least of those that have a state. What lies in two partitions and
# below the bounds of both samples is in both. So up to k keys a partition, every key that lies in
# two of them is seen; of more keys, a share f of which lies in both, none is seen with probability
# (1 - f)^k.

# For a partition of this worker; 1,024 keys take about 300 kB.
SAMPLED_KEYS = 1_024
IDENTITY_BYTES = 8
# Keys are ordered by the first half of a digest, and identified by other bytes of it.
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
        # Keys that are named as fresh whatever their hash.
        self.watched: frozenset[str] = frozenset()
        self._least: list[Identity] | None = None

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def add_all(self, keys: Iterable[str]) -> None:
        """Add keys that have a state from now on."""
        for key in keys:
            digest = _digest(key)
            # Most are no sample.
            if digest < self._bound or key in self.watched:
                self._add(key, digest)

    def add(self, key: str) -> None:
        """Add a key that has a state from now on."""
        self._add(key, _digest(key))

    def _add(self, key: str, digest: bytes) -> None:
        if key in self.watched:
            self._fresh.append(key)
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
        return list(dict.fromkeys(k for k in fresh if k in self._held or k in self.watched))

    def identity(self, key: str) -> Identity:
        """Return the identity of a key of the sample; raises KeyError for another."""
        return self._held[key].identity

    def identities(self) -> dict[Identity, str]:
        return {hashed.identity: key for key, hashed in self._held.items()}

    def least(self, count: int) -> list[Identity]:
        """Return the `count` identities of least hash, in order; kept until keys change."""
        if self._least is None or len(self._least) < min(count, len(self._held)):
            self._least = [hashed.identity for hashed in nsmallest(count, self._held.values())]
        return self._least[:count]


def identity(key: str) -> Identity:
    """Return a hash that identifies a key, the same in every process."""
    return _digest(key)[-IDENTITY_BYTES:]


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=_DIGEST_BYTES).digest()


class SharedKeys:
    """A comparison of sampled keys of a topology's partitions, here and in other processes."""

    def __init__(
        self, topology: Topology, expected: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Create the comparison; `expected` maps keys to the partitions on which they must come."""
        self._topology = topology
        self._expected = expected
        self._may_be_shared = frozenset(topology.publish)
        self._is_exempt = topology.publishes_partitions
        self._samples: dict[int, KeySample] = {}
        # Where a key was sampled first. It may be out of the sample by now.
        self._place: dict[str, int] = {}
        # The partitions of keys that other processes have.
        self._elsewhere: dict[Identity, int] = {}

    def expect(self, places: Mapping[str, int]) -> None:
        """Expect these keys on these partitions from now on."""
        self._expected = places

    def forget(self) -> None:
        """Forget all samples, as partitions may move."""
        self._samples, self._place, self._elsewhere = {}, {}, {}

    def look(self, partition: int, sample: KeySample) -> None:
        """Compare what is new in the sample of a partition with the other partitions' samples.

        Costs nothing where nothing is new. Raises SlidestatError for a key of two partitions.
        """
        if self._is_exempt:
            return
        self._samples[partition] = sample
        for key in sample.take_fresh():
            if self._expected.get(key, partition) != partition:
                raise misplaced_key(self._topology, key, self._expected[key], partition)
            if key in self._may_be_shared:
                continue
            first = self._place.setdefault(key, partition)
            if first != partition and key in self._samples[first]:
                raise shared_key(self._topology, key, first, partition)
            self._place[key] = partition
            there = self._elsewhere.get(identity(key))
            if there is not None and there not in self._samples:
                raise shared_key(self._topology, key, there, partition)
        if len(self._place) > 2 * sum(map(len, self._samples.values())) + 1_000:
            self._place = {
                key: number
                for number, held in self._samples.items()
                for key in held.identities().values()
            }

    def learn(self, others: Mapping[int, Iterable[Identity]]) -> None:
        """Compare all with what the processes of other partitions have sampled.

        Raises SlidestatError for a key that lies there and here.
        """
        self._elsewhere = {
            identity: partition
            for partition, identities in others.items()
            if partition not in self._samples
            for identity in identities
        }
        if self._is_exempt or not self._elsewhere:
            return
        for partition, sample in self._samples.items():
            own = sample.identities()
            for found in own.keys() & self._elsewhere.keys():
                if own[found] not in self._may_be_shared:
                    raise shared_key(self._topology, own[found], self._elsewhere[found], partition)


def misplaced_key(topology: Topology, key: str, expected: int, found: int) -> SlidestatError:
    """Return the error for an expected key on another partition than that of its text."""
    return SlidestatError(
        f"The key {key!r} ({topology.key_name}) is expected on partition {expected} of"
        f" {topology.events_topic!r}, where Kafka's clients send it by default, and it came on"
        f" partition {found}: its alerts would be those of a key that never came.",
        "Have its producer set this text as the record's key, with the default partitioner"
        " (murmur2; in librdkafka `partitioner=murmur2_random`); or have the workers move the"
        " records: give the topology another name and `repartition = true`; or take the key out of"
        " `expected`, or of the `expected_topic`.",
    )


def shared_key(topology: Topology, key: str, first: int, second: int) -> SlidestatError:
    """Return the error for a key that lies in two partitions."""
    one, other = sorted((first, second))
    return SlidestatError(
        f"The key {key!r} ({topology.key_name}) is in partitions {one} and {other} of"
        f" {topology.events_topic!r}: each would count only a part of its events, and its"
        " bounds would hold for that part alone.",
        "Have the workers move each key's records to one partition: give the topology another name"
        " and `repartition = true` (--repartition); or produce the records with this field as their"
        " Kafka key (`slidestat produce --key FIELD`); or have a referee answer over all"
        " partitions (`publish`, docs/many-parties.md). If this topology has already written"
        " figures of such keys, they are of a part of the events.",
    )
