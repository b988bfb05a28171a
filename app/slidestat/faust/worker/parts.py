"""The producers of a worker, and the table and pipeline of each of its topologies."""

from slidestat.declare.declared import Declared
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.faust.delivery import SESSION_TIMEOUT_S, BatchApp
from slidestat.faust.exactly_once import PartitionTransactions, TransactionalTable
from slidestat.faust.pipeline import Pipeline
from slidestat.faust.progress import Progress
from slidestat.faust.source.source_offsets import SourceOffsets
from slidestat.faust.source.topic_watch import TopicWatch
from slidestat.faust.table import StateTable
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.kafka.column_producer import bulk_producer
from slidestat.kafka.producer import BulkProducer, ExpiringProducer

# A provisional emission that is not acknowledged by then is never sent. The partition is another
# worker's a session after the last heartbeat, of which there is one in 3 s, and what has expired is
# looked for each second.
_PROVISIONAL_S = SESSION_TIMEOUT_S / 2


class WorkerParts:
    """A factory of the parts of a worker, by its settings."""

    def __init__(self, app: BatchApp, settings: WorkerSettings) -> None:
        self._app = app
        self._settings = settings
        servers = settings.bootstrap_servers
        self.outputs = bulk_producer(servers)
        self._changelog = bulk_producer(servers, track_offsets=True)
        self._provisional = None
        if any(topology.idle_ms for topology in settings.topologies):
            self._provisional = ExpiringProducer(servers, _PROVISIONAL_S)
        self.topics = TopicWatch(servers, settings.topologies, settings.data_dir)
        self.transactions = {
            topology.name: PartitionTransactions(servers, topology.transactional_prefix)
            for topology in settings.topologies
            if topology.exactly_once
        }
        self.tables = [self._table(topology) for topology in settings.topologies]
        self.pipelines = self._pipelines()

    @property
    def producers(self) -> list[BulkProducer]:
        """The producers that write to the brokers."""
        provisional = [] if self._provisional is None else [self._provisional]
        return [self.outputs, self._changelog, *provisional, *self.transactions.values()]

    def _table(self, topology: Declared) -> StateTable:
        settings = self._settings
        parts = (
            self._app,
            topology,
            settings.partitions,
            self._changelog,
            settings.bootstrap_servers,
            self.topics.id_of(topology.changelog_topic),
        )
        if topology.name in self.transactions:
            return TransactionalTable(*parts, self.transactions[topology.name])
        return StateTable(*parts)

    def _pipelines(self) -> list[Pipeline]:
        settings = self._settings
        codecs = settings.codecs or [JsonCodec()] * len(settings.topologies)
        offsets = SourceOffsets(self._app, settings.bootstrap_servers, settings.source, self.topics)
        return [
            Pipeline(
                topology,
                table,
                self.transactions.get(topology.name, self.outputs),
                offsets,
                Progress(topology.name, settings.letter_commands.get(topology.name, "")),
                codec=codec,
                silent_until=settings.extent.silent_until,
                partitions=settings.partitions,
                letter_bytes=settings.letter_bytes,
                checkpoint_interval_s=settings.checkpoint_interval_s,
                allow_loss=settings.allow_loss,
                change_statistics=settings.change_statistics,
                schemas=None if settings.registry is None else settings.registry.schemas,
                provisional=self._provisional,
                folder=settings.data_dir,
                mover=settings.mover if topology.repartition else None,
                is_first_start=topology.name in settings.first_starts,
            )
            for topology, table, codec in zip(settings.topologies, self.tables, codecs, strict=True)
        ]
