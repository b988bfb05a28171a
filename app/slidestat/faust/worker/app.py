"""The Faust app of a worker, before anything is connected to it."""

from collections.abc import Iterator, Mapping, Set

import faust
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientMetadata, CopartitionedAssignment
from faust.assignor.cluster_assignment import ClusterAssignment
from faust.assignor.partition_assignor import (
    MemberAssignmentMapping,
    MemberMetadataMapping,
    PartitionAssignor,
)
from faust.auth import OAuthCredentials
from faust.types.auth import CredentialsT

from slidestat.faust.delivery import SESSION_TIMEOUT_S, BatchApp
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.kafka.oauth import token_provider
from slidestat.kafka.settings import BrokerSecurity, CarriedSecurity, broker_security, tls_context

# The brokers' security settings in the words of Faust.


def faust_credentials(security: BrokerSecurity) -> CredentialsT | None:
    """Return the `broker_credentials` of a Faust app; None for brokers that want none.

    Raises SlidestatError for certificates that cannot be used.
    """
    context = tls_context(security) if security.has_tls else None
    provider = token_provider(CarriedSecurity.of(security))
    if provider is not None:
        return OAuthCredentials(oauth_cb=provider, ssl_context=context)
    if security.has_sasl:
        return faust.SASLCredentials(
            username=security.username,
            password=security.password,
            mechanism=security.mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context is not None else None


# The assignment of partitions to workers: each worker gets as many as any other, or one more, and
# keeps those that it had.
#
# Faust's assignor takes nothing from a worker that has up to ceil(partitions / workers), as long as
# there are standbys: a third worker of four partitions finds two that hold two each, and stays
# idle. Here the active partitions are shared out first, and Faust's assignor is given the result as
# if workers had held it: it leaves it as it is, and adds the standbys.


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
        known = _Partitions(cluster, self.app.conf.topic_partitions)
        copartitioned = self._get_copartitioned_groups(group.topics(), known, subscriptions)
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
        assigned: MemberAssignmentMapping = super()._perform_assignment(known, evened)
        return assigned


class _Partitions:
    """The partitions of a group's topics, also while no broker has told the leader of them: Faust's
    assignor gives nobody anything of a topic that it does not find.
    """

    def __init__(self, cluster: ClusterMetadata, usual: int) -> None:
        self._cluster = cluster
        self._usual = set(range(usual))

    def partitions_for_topic(self, topic: str) -> Set[int]:
        """Return a topic's partitions; if unknown, as many as the source had at the start."""
        return self._cluster.partitions_for_topic(topic) or self._usual


def shared_out(partitions: int, held: Mapping[str, CopartitionedAssignment]) -> dict[str, set[int]]:
    """Return the partitions of each member: as many as any other has, or one more.

    A member keeps what it has up to its share; a partition that it gives up, or that no member has,
    goes to a member with room that has a standby of it, if there is one. So no more partitions move
    than must. The result depends only on the members' names and on what they have, in whatever
    order they came.
    """
    actives = dict(_without_doubles(partitions, held))
    share, more = divmod(partitions, len(actives))
    # The workers that have most keep one more, so that they need not give it up.
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
    """Yield members' partitions; one that several claim is the first's: the other is a zombie."""
    taken: Set[int] = set()
    for member in sorted(held):
        own = held[member].actives.intersection(range(partitions)) - taken
        taken |= own
        yield member, own


# Batches that may wait for the agent; each holds up to a fetch (FETCH_BYTES) of one partition.
_WAITING_BATCHES = 4
_FETCH_BYTES = 4 * 2**20
_BATCH_RECORDS = 50_000
_COMMIT_INTERVAL_S = 1.0
# While a worker waits for a schema registry, or for acknowledgements, it takes in nothing, and that
# may last for days. After 1,000 s aiokafka would leave the group, and not come back before it is
# polled, which Faust does not do before it is back.
_MAX_POLL_INTERVAL_S = 10.0**9


def batch_app(settings: WorkerSettings) -> BatchApp:
    """Return a Faust app that reads the source in batches of up to 50,000 records or 4 MiB."""
    servers = settings.bootstrap_servers.split(",")
    app = BatchApp(
        settings.topologies[0].application_id,
        broker=[f"kafka://{server}" for server in servers],
        broker_credentials=faust_credentials(broker_security()),
        store="rocksdb://",
        datadir=settings.data_dir,
        topic_partitions=settings.partitions,
        topic_disable_leader=True,
        # They are all there. Faust would ask for the changelog again, with a single replica, and
        # end where the brokers forbid it to create topics.
        topic_allow_declare=False,
        canonical_url=settings.web.canonical_url,
        web_in_thread=True,
        PartitionAssignor=BalancedAssignor,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=_FETCH_BYTES,
        broker_max_poll_records=_BATCH_RECORDS,
        stream_buffer_maxsize=_WAITING_BATCHES,
        broker_commit_interval=_COMMIT_INTERVAL_S,
        broker_session_timeout=SESSION_TIMEOUT_S,
        broker_max_poll_interval=_MAX_POLL_INTERVAL_S,
        # Every batch is its own unit of work; nothing waits for a worker that is about to join.
        stream_recovery_delay=0.0,
    )
    app.batch_topics = frozenset({settings.source})
    return app
