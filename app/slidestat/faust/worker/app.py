"""The Faust app of a worker, before anything is connected to it."""

from typing import cast

from aiokafka import TopicPartition
from faust.types import TP

from slidestat.faust.assignment import BalancedAssignor
from slidestat.faust.delivery import BatchApp, BatchConsumer
from slidestat.faust.source.topic_watch import TopicWatch
from slidestat.faust.worker.credentials import faust_credentials
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.kafka.settings import broker_security

# A killed worker's partitions wait for as long, also when it is started again at once; Faust would
# have them wait for a minute.
SESSION_TIMEOUT_S = 10.0

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


class ConsumerOffsets:
    """The offsets that the app's consumer knows, and the topic's id, which brokers know."""

    def __init__(self, app: BatchApp, topic: str, topics: TopicWatch) -> None:
        self._app = app
        self._topic = topic
        self._topics = topics

    @property
    def topic_id(self) -> str:
        return self._topics.source_id

    async def confirm_source(self) -> None:
        await self._topics.confirm_source()

    def end(self, partition: int) -> int | None:
        return self._app.consumer.highwater(TP(self._topic, partition))

    def is_end(self, partition: int, offset: int) -> bool:
        consumer = cast(BatchConsumer, self._app.consumer)
        return consumer.is_end(TP(self._topic, partition), offset)

    def jumped_to(self, partition: int, offset: int) -> int | None:
        consumer = cast(BatchConsumer, self._app.consumer)
        return consumer.jumped_to(TP(self._topic, partition), offset)

    async def earliest(self, partition: int) -> int:
        tp = TopicPartition(self._topic, partition)
        return (await self._app.consumer.earliest_offsets(tp))[tp]
