"""Which worker gets which partitions: each as many as any other, or one more, and what it had.

Faust's assignor takes nothing from a worker that has up to ceil(partitions / workers), as long as
there are standbys: a third worker of four partitions finds two that hold two each, and stays idle.
Here the active partitions are shared out first, and Faust's assignor is given that as what workers
had: it leaves it as it is, and adds the standbys.
"""

from collections.abc import Iterator, Mapping, Set

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientMetadata, CopartitionedAssignment
from faust.assignor.cluster_assignment import ClusterAssignment
from faust.assignor.partition_assignor import (
    MemberAssignmentMapping,
    MemberMetadataMapping,
    PartitionAssignor,
)


class BalancedAssignor(PartitionAssignor):
    """A partition assignor like Faust's, with active partitions shared out evenly."""

    def _perform_assignment(
        self, cluster: ClusterMetadata, member_metadata: MemberMetadataMapping
    ) -> MemberAssignmentMapping:
        clients = {
            member: ClientMetadata.loads(metadata.user_data)
            for member, metadata in member_metadata.items()
        }
        subscriptions = {member: found.subscription for member, found in member_metadata.items()}
        group = ClusterAssignment()
        for member, client in clients.items():
            group.add_client(member, subscriptions[member], client)
        copartitioned = self._get_copartitioned_groups(group.topics(), cluster, subscriptions)
        for partitions, groups in copartitioned.items():
            for topics in groups:
                held = group.copartitioned_assignments(topics)
                for member, actives in shared_out(partitions, held).items():
                    for topic in topics:
                        clients[member].assignment.actives[topic] = sorted(actives)
        evened = {
            member: ConsumerProtocolMemberMetadata(
                metadata.version, metadata.subscription, clients[member].dumps()
            )
            for member, metadata in member_metadata.items()
        }
        assigned: MemberAssignmentMapping = super()._perform_assignment(cluster, evened)
        return assigned


def shared_out(partitions: int, held: Mapping[str, CopartitionedAssignment]) -> dict[str, set[int]]:
    """Return the partitions of each member: as many as any other has, or one more.

    A member keeps what it has up to its share; a partition that it gives up, or that no member has,
    goes to a member with room that has a standby of it, if there is one. So no more partitions move
    than must. The result depends only on the members' names and on what they have, in whatever
    order they came.
    """
    actives = dict(_without_doubles(partitions, held))
    share, more = divmod(partitions, len(actives))
    # Those that have most have one more: they need not give it up.
    by_most = sorted(actives, key=lambda member: (-len(actives[member]), member))
    shares = {member: share + (place < more) for place, member in enumerate(by_most)}
    for member in by_most:
        wanted = {
            partition
            for other in by_most
            if len(actives[other]) < shares[other]
            for partition in held[other].standbys
        }
        first_to_go = sorted(actives[member], key=lambda p: (p not in wanted, -p))
        actives[member] -= set(first_to_go[: max(0, len(first_to_go) - shares[member])])
    free = sorted(set(range(partitions)).difference(*actives.values()))
    for by_standby in (True, False):
        for partition in tuple(free):
            for member in by_most:
                has_room = len(actives[member]) < shares[member]
                if has_room and (not by_standby or partition in held[member].standbys):
                    actives[member].add(partition)
                    free.remove(partition)
                    break
    return actives


def _without_doubles(
    partitions: int, held: Mapping[str, CopartitionedAssignment]
) -> Iterator[tuple[str, set[int]]]:
    """Yield the partitions of members; of one that several claim, the first has it: the other is a
    zombie.
    """
    taken: Set[int] = set()
    for member in sorted(held):
        own = held[member].actives.intersection(range(partitions)) - taken
        taken |= own
        yield member, own
