"""A worker: one process of a consumer group, which computes one or more topologies of a topic."""

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError
from faust.exceptions import ConsistencyError
from faust.types import TP, StreamT
from faust.web.base import Web

from slidestat.declare.one_worker import require_one_worker
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import EmissionCodec, JsonCodec
from slidestat.engine.extent import WHOLE, Extent
from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.assignment import BalancedAssignor
from slidestat.faust.broker_contact import LOOK_EVERY_S, BrokerContact, went_away_at_start
from slidestat.faust.checkpoint_turns import CHECKPOINT_INTERVAL_S
from slidestat.faust.delivery import BatchApp, BatchConsumer
from slidestat.faust.fencing import SupersededError
from slidestat.faust.flushes import Flushes, FlushGivenUpError
from slidestat.faust.graceful_shutdown import LeavingWorker
from slidestat.faust.open_files import open_files, raise_open_files
from slidestat.faust.pipeline import Pipeline, flush_all
from slidestat.faust.progress import Progress
from slidestat.faust.restore import BulkRecovery
from slidestat.faust.source.commit_notes import encode_note
from slidestat.faust.source.key_watch import KeyWatch
from slidestat.faust.source.topic_watch import TopicWatch, advice_without_changelog
from slidestat.faust.table import StateTable
from slidestat.kafka.faust_credentials import faust_credentials
from slidestat.kafka.letter_record import LETTER_BYTES
from slidestat.kafka.producer import BulkProducer
from slidestat.kafka.settings import broker_security
from slidestat.live.live_topology import LiveTopology
from slidestat.log import LogForm, json_logging, tell, tell_failure

# Batches that may wait for the agent; each holds up to a fetch (FETCH_BYTES) of one partition.
_WAITING_BATCHES = 4
_FETCH_BYTES = 4 * 2**20
_BATCH_RECORDS = 50_000
_COMMIT_INTERVAL_S = 1.0
_IDLE_CHECK_S = 1.0
_END_CHECK_S = 0.5
_KEY_CHECK_S = 1.0
_LOSS_CHECK_S = 1.0
# A killed worker's partitions stand still for as long, also when it is started again at once;
# Faust would have them wait for a minute.
_SESSION_TIMEOUT_S = 10.0

# Of the minute after which the group would go on without this worker.
_REVOKED_S = 20.0
# As long as a group may take to tell a worker that it was given up.
_REBALANCE_S = 3 * _SESSION_TIMEOUT_S
_SUPERSEDED = SlidestatError(
    "Another worker writes to the changelog of this one, and is in no group with it.",
    "Stop one of the two; this one committed nothing since.",
)

# rocksdict raises plain exceptions; RocksDB begins their text with the kind of fault.
_ROCKSDB_FAULTS = ("Corruption", "IO error")
_NO_FILES = (os.strerror(errno.EMFILE), os.strerror(errno.ENFILE))
_NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), os.strerror(errno.EFBIG))


class WebSide(Protocol):
    """Where a worker can be asked, and what serves there."""

    @property
    def canonical_url(self) -> str:
        """How the other workers of the group reach it, and know it."""

    def server(self, app: BatchApp, topologies: dict[str, LiveTopology]) -> Web:
        """The server of these topologies, by name."""


def create_app(
    topologies: Sequence[Topology | Referee],
    bootstrap_servers: str,
    data_dir: Path,
    partitions: int,
    web: WebSide,
    codecs: Sequence[EmissionCodec] | None = None,
    extent: Extent = WHOLE,
    letter_bytes: int = LETTER_BYTES,
    key_watch: KeyWatch | None = None,
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S,
    *,
    allow_loss: bool = False,
) -> BatchApp:
    """The Faust app of topologies that share a group and a source of `partitions` partitions.

    The source is consumed once. What is committed is what all of them have made durable; one that
    is further on passes over what it has seen. `extent` limits what is read and emitted,
    `letter_bytes` what a letter has of a record. A `key_watch` looks for keys that lie in several
    partitions. A state becomes durable at most once in a checkpoint interval. With `allow_loss`
    records that are gone before they were read are counted as lost; else they stop it.
    """
    require_one_worker(topologies)
    source_topic = topologies[0].source
    app = BatchApp(
        topologies[0].application_id,
        broker=[f"kafka://{server}" for server in bootstrap_servers.split(",")],
        broker_credentials=faust_credentials(broker_security()),
        store="rocksdb://",
        datadir=data_dir,
        topic_partitions=partitions,
        topic_disable_leader=True,
        # They are all there. Faust would ask for the changelog again, with a single replica, and
        # end where the brokers forbid it to create topics.
        topic_allow_declare=False,
        canonical_url=web.canonical_url,
        web_in_thread=True,
        PartitionAssignor=BalancedAssignor,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=_FETCH_BYTES,
        broker_max_poll_records=_BATCH_RECORDS,
        stream_buffer_maxsize=_WAITING_BATCHES,
        broker_commit_interval=_COMMIT_INTERVAL_S,
        broker_session_timeout=_SESSION_TIMEOUT_S,
        # Every batch is its own unit of work; nothing waits for a worker that is about to join.
        stream_recovery_delay=0.0,
    )
    app.batch_topics = frozenset({source_topic})
    outputs = BulkProducer(bootstrap_servers)
    changelog = BulkProducer(bootstrap_servers, track_offsets=True)
    topics = TopicWatch(bootstrap_servers, topologies, data_dir)
    app.topics_fault = topics.fault
    offsets = _ConsumerOffsets(app, source_topic, topics)
    tables = [
        StateTable(app, topology, partitions, changelog, bootstrap_servers)
        for topology in topologies
    ]
    pipelines = [
        Pipeline(
            topology,
            table,
            outputs,
            offsets,
            Progress(topology.name),
            codec,
            extent.silent_until,
            partitions,
            letter_bytes,
            checkpoint_interval_s,
            allow_loss=allow_loss,
        )
        for topology, table, codec in zip(
            topologies, tables, codecs or [JsonCodec()] * len(topologies), strict=True
        )
    ]

    def owned(changelog: TP, last_offset: int, generation: int) -> None:
        for table in tables:
            if table.changelog_topic == changelog.topic:
                table.owned(changelog.partition, last_offset, generation)

    tables_of_faust: Any = app.tables
    tables_of_faust._recovery = BulkRecovery(
        app,
        app.tables,
        bootstrap_servers=bootstrap_servers,
        on_owned=owned,
        beacon=app.tables.beacon,
        loop=app.tables.loop,
    )
    # Held while records are queued, and while a flush waits for them: it would wait for ever for a
    # queue that is filled meanwhile.
    sending = asyncio.Lock()
    looking_ahead = asyncio.Lock()
    live = {
        topology.name: LiveTopology(topology, pipeline)
        for topology, pipeline in zip(topologies, pipelines, strict=True)
    }
    app.make_web = lambda: web.server(app, live)
    flushes = Flushes()
    # Between the discovery that others have its partitions and the rebalance that says so.
    superseded = asyncio.Event()

    def forget() -> None:
        for pipeline in pipelines:
            pipeline.forget()

    async def crash(error: Exception) -> None:
        # Stopping commits once more: nothing half done may be in that commit.
        forget()
        await app.crash(error)

    def end_superseded() -> None:
        if not superseded.is_set():
            return
        if contact.is_silent:  # Nobody can tell of a rebalance.
            asyncio.get_running_loop().call_later(_REBALANCE_S, end_superseded)
        else:
            app.add_future(crash(_SUPERSEDED))

    async def flush(*, whole: bool) -> dict[TP, int]:
        try:
            return await flush_all(pipelines, outputs, sending, whole=whole)
        except SupersededError:
            forget()
            superseded.set()
            asyncio.get_running_loop().call_later(_REBALANCE_S, end_superseded)
            return {}
        except BaseException as error:
            # What was taken for writing is not written: the next flush must not commit it.
            forget()
            if isinstance(error, Exception):
                await app.crash(error)
            raise

    async def before_commit() -> dict[TP, int]:
        # The last commit of a worker that stops is that of all it has.
        whole = app.should_stop or app.consumer.should_stop
        try:
            return await flushes.run(partial(flush, whole=whole))
        except FlushGivenUpError:
            return {}

    app.before_commit = before_commit

    def held_partitions() -> set[int]:
        return {tp.partition for tp in app.consumer.assignment() if tp.topic == source_topic}

    def commit_notes() -> dict[TP, str]:
        notes = {}
        for partition in held_partitions():
            samples = [pipeline.sampled_keys(partition) for pipeline in pipelines]
            if any(samples):
                note = encode_note(dict(sample for sample in samples if sample is not None))
                notes[TP(source_topic, partition)] = note
        return notes

    if key_watch is not None:
        app.commit_notes = commit_notes

    def needed_offset(tp: TP) -> int:
        try:
            return min(pipeline.needed_offset(tp.partition) for pipeline in pipelines)
        except SlidestatError:
            return sys.maxsize  # The first batch says what is wrong, and stops the worker.

    app.needed_offset = needed_offset

    source = app.topic(source_topic, key_serializer="raw", value_serializer="raw")

    @app.agent(source, name=f"{topologies[0].group_name}-absorb")
    async def absorb(batches: StreamT[RecordBatch]) -> None:
        async for batch in batches:
            rebalances = app.rebalancing_count
            try:
                within = extent.within(batch)
                if within is None:
                    continue
                async with sending:
                    if key_watch is not None:
                        await key_watch.before(len(within))
                    if app.rebalancing or app.rebalancing_count != rebalances:
                        continue  # It is read again, here or by another worker.
                    for pipeline in pipelines:
                        if superseded.is_set():
                            break
                        if not await pipeline.check_order(within):
                            break
                        if not await pipeline.process(within):
                            break
            except Exception as error:
                # A restarted agent would go on with the next batch and lose this one.
                tell_failure(
                    "batch failed",
                    topic=batch.topic,
                    partition=batch.partition,
                    offset=int(batch.offsets[0]),
                    last_offset=int(batch.offsets[-1]),
                )
                await crash(error)
                raise

    contact = BrokerContact((outputs, changelog), source_topic)

    @app.timer(LOOK_EVERY_S)  # type: ignore[untyped-decorator]  # Faust's own
    async def look_for_brokers() -> None:
        await contact.look(topics.without_leader)
        try:
            await topics.confirm()
        except SlidestatError as error:
            await crash(error)
            raise

    if key_watch is not None:

        @app.timer(_KEY_CHECK_S)  # type: ignore[untyped-decorator]  # Faust's own
        async def compare_keys() -> None:
            rebalances = app.rebalancing_count
            notes = await key_watch.notes(held_partitions())
            if notes is None or app.rebalancing or app.rebalancing_count != rebalances:
                return  # They may be here by now.
            try:
                for pipeline in pipelines:
                    pipeline.learn_keys(notes)
            except SlidestatError as error:
                await crash(error)

    @app.timer(_LOSS_CHECK_S)  # type: ignore[untyped-decorator]  # Faust's own
    async def look_for_losses() -> None:
        async with sending:
            try:
                for pipeline in pipelines:
                    await pipeline.look_for_losses()
            except SlidestatError as error:
                await crash(error)
                raise

    if any(topology.idle_ms for topology in topologies):

        @app.timer(_IDLE_CHECK_S)  # type: ignore[untyped-decorator]  # Faust's own
        async def look_ahead() -> None:
            async with sending, looking_ahead:
                try:
                    for pipeline in pipelines:
                        await pipeline.look_ahead()
                except Exception as error:
                    await crash(error)
                    raise

    if extent.end_offsets is not None:

        @app.timer(_END_CHECK_S)  # type: ignore[untyped-decorator]  # Faust's own
        async def end() -> None:
            async with sending:  # A batch is read when it is all processed.
                assigned = app.consumer.assignment()
                held = [tp.partition for tp in assigned if tp.topic == source_topic]
                if held and all(
                    extent.is_read(partition, min(p.next_offset(partition) for p in pipelines))
                    for partition in held
                ):
                    signal.raise_signal(signal.SIGTERM)

    @app.on_partitions_revoked.connect
    async def revoked(*_args: Any, **_kwargs: Any) -> None:
        tell("partitions given up", topics=[source_topic])
        for topology in live.values():
            topology.not_ready()
        # A flush under way must end before another worker may read what it writes; and what this
        # one leaves unwritten is read again.
        if not superseded.is_set():
            try:
                await flushes.run_within(_REVOKED_S, partial(flush, whole=True))
            except FlushGivenUpError:
                tell(
                    "states not written",
                    f"not everything was acknowledged within {_REVOKED_S:.0f} s: the group goes on,"
                    " and reads again what was not committed",
                    topics=[source_topic],
                )
        forget()
        superseded.clear()
        # So must provisional emissions: they would replace those of the next worker.
        async with looking_ahead:
            pass

    @app.on_rebalance_complete.connect
    async def ready(*_args: Any, **_kwargs: Any) -> None:
        held = [tp.partition for tp in app.consumer.assignment() if tp.topic == source_topic]
        try:
            for pipeline in pipelines:
                pipeline.open(held)
        except SlidestatError as error:
            await crash(error)
            return
        for pipeline in pipelines:
            pipeline.progress.ready(held)
        for topology in live.values():
            topology.ready(held)

    return app


class _ConsumerOffsets:
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


def run_worker(
    topologies: Sequence[Topology | Referee],
    bootstrap_servers: str,
    data_dir: Path,
    partitions: int,
    web: WebSide,
    codecs: Sequence[EmissionCodec] | None = None,
    extent: Extent = WHOLE,
    log: LogForm = LogForm.TEXT,
    letter_bytes: int = LETTER_BYTES,
    key_watch: KeyWatch | None = None,
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S,
    *,
    allow_loss: bool = False,
) -> None:
    """Run a worker until SIGINT or SIGTERM, or to the end of `extent`; then flush, commit and leave
    the group.

    The topologies share a group and a source. `data_dir` is this worker's alone; its log is in it,
    or in JSON on standard error. `codecs` write the topologies' emissions, in JSON by default.
    Raises SlidestatError for what the user can correct, other exceptions as they are.
    """
    raise_open_files()
    app = create_app(
        topologies,
        bootstrap_servers,
        data_dir,
        partitions,
        web,
        codecs,
        extent,
        letter_bytes,
        key_watch,
        checkpoint_interval_s,
        allow_loss=allow_loss,
    )
    # The terminal shows what we tell; what Faust has to say is for whoever looks into it.
    is_json = log is LogForm.JSON
    worker = LeavingWorker(
        app,
        quiet=True,
        loglevel="WARNING",
        logfile=None if is_json else str(data_dir / "worker.log"),
        logging_config=json_logging() if is_json else None,
        redirect_stdouts=False,
    )
    worker.spinner = None
    # A commit that takes longer than the interval is a busy worker, not a fault.
    logging.getLogger("mode.timers").setLevel(logging.ERROR)
    try:
        with calm_garbage_collector():
            worker.execute_from_commandline()
    except SystemExit as stop:
        if stop.code:
            # The exit only says that there was a fault; the fault is what Faust stopped for, or
            # what made it so.
            reason = app.crash_reason or stop.__context__ or stop
            if (fault := app.topics_fault()) is not None:
                raise fault from reason
            _raise_for_the_user(reason, data_dir)


def _raise_for_the_user(reason: BaseException, data_dir: Path) -> NoReturn:
    """Raise the fault that ended a worker, as a SlidestatError if the user can correct it."""
    if isinstance(reason, ConsistencyError):
        raise SlidestatError(
            f"The tables in {data_dir} are ahead of their changelog: it was made anew.",
            advice_without_changelog(data_dir),
        ) from reason
    if isinstance(reason, KafkaConnectionError):
        raise went_away_at_start() from reason
    if str(reason).startswith(_ROCKSDB_FAULTS) and str(reason).endswith(_NO_ROOM):
        raise SlidestatError(
            f"There is no room for the tables in {data_dir}.",
            "Make room, and start the worker again: nothing is lost.",
        ) from reason
    if str(reason).startswith(_ROCKSDB_FAULTS) and str(reason).endswith(_NO_FILES):
        raise SlidestatError(
            f"The worker has no file left to open for the tables in {data_dir}: it may have"
            f" {open_files():,} open.",
            "Allow it more (`ulimit -n`, LimitNOFILE of systemd), or give its partitions to more"
            " workers, and start it again: nothing is lost, and nothing is damaged.",
        ) from reason
    if str(reason).startswith(_ROCKSDB_FAULTS):
        fault = str(reason).rstrip(".")
        raise SlidestatError(
            f"The tables in {data_dir} cannot be read: {fault}.",
            f"Delete the folder {data_dir}; the worker restores it from the changelog.",
        ) from reason
    raise reason
