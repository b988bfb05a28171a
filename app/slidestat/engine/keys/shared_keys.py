"""Keys that lie in several partitions of a source, whose statistics would each be of a part.

A key's statistics are those of its partition. Where records are not partitioned by the key (null
Kafka keys are the commonest case), a key would come out once for each partition, each time with a
part of the truth and with bounds for that part: so a worker stops before it emits such figures. A
topology that publishes its partitions is made for this, and a referee answers; so it does for the
keys that a topology publishes.
"""

from collections.abc import Iterable, Mapping

from slidestat.declare.topology import Topology
from slidestat.engine.keys.key_sample import Identity, KeySample
from slidestat.errors import SlidestatError


class SharedKeys:
    """A comparison of the sampled keys of a topology's partitions, those of this process and of
    others.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._may_be_shared = frozenset(topology.publish)
        self._is_exempt = topology.publishes_partitions
        self._samples: dict[int, KeySample] = {}
        # Where a key was sampled first. It may be out of the sample by now.
        self._place: dict[str, int] = {}
        # Of partitions of other processes.
        self._elsewhere: dict[Identity, int] = {}

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
            if key in self._may_be_shared:
                continue
            first = self._place.setdefault(key, partition)
            if first != partition and key in self._samples[first]:
                raise shared_key(self._topology, key, first, partition)
            self._place[key] = partition
            there = self._elsewhere.get(sample.identity(key))
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
