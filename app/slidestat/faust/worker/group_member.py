"""A member of the consumer group: its pipelines at batches, commits, rebalances and timers."""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial, wraps
from typing import Any, cast

from faust.types import TP, StreamT

from slidestat.declare.declared import require_one_worker
from slidestat.engine.garbage_collector import COLLECT_EVERY_S, collect_garbage
from slidestat.engine.records import RecordBatch
from slidestat.errors import EndedError, SlidestatError
from slidestat.faust.broker_contact import LOOK_EVERY_S, BrokerContact
from slidestat.faust.delivery import SESSION_TIMEOUT_S, BatchConsumer, DueTicks
from slidestat.faust.fencing import SupersededError
from slidestat.faust.flushes import Flushes, FlushGivenUpError, to_its_end
from slidestat.faust.partitions.batch_steps import is_backlog
from slidestat.faust.pipeline import Pipeline, flush_all
from slidestat.faust.restore import BulkRecovery
from slidestat.faust.source.key_watch import encode_note
from slidestat.faust.source.schema_wait import SchemaWait
from slidestat.faust.worker.app import batch_app
from slidestat.faust.worker.parts import WorkerParts
from slidestat.faust.worker.resources import give_back_memory
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.kafka.read.open_transactions import OpenTransactions
from slidestat.kafka.transactional_producer import FencedError, LostError
from slidestat.live.batch_traces import BatchTrace, now_ns
from slidestat.live.live_topology import LiveTopology
from slidestat.log import log_event, log_exception

# The state of a worker that learnt that others have its partitions, until a rebalance tells so.

# The longest time until a group lets a worker know that it was removed.
_REBALANCE_S = 3 * SESSION_TIMEOUT_S
_SUPERSEDED = SlidestatError(
    "Another worker writes to this worker's changelog, and is in no group with it.",
    "Stop one of the two; this one committed nothing since.",
)
_FENCED_OFF = EndedError(
    "The brokers take no more transactions of this worker: another one has its partitions, or a"
    " transaction was open for more than ten minutes.",
    "Start it again: nothing is lost, and what was not committed is written anew. If it happens"
    " again, look for a worker of the same topology that is in no group with it.",
)


class Supersession:
    """A guard that ends the worker if no rebalance comes after it was fenced off: then the other
    owner is in no group with it.
    """

    def __init__(self, contact: BrokerContact, end: Callable[[SlidestatError], None]) -> None:
        self._contact = contact
        self._end = end
        self._is_known = False

    def __bool__(self) -> bool:
        """Return whether the worker may write nothing."""
        return self._is_known

    def learn(self, error: SupersededError) -> None:
        """Wait for the rebalance."""
        self._is_known = True
        is_transaction = isinstance(error.__cause__, FencedError | LostError)
        self._look_later(_FENCED_OFF if is_transaction else _SUPERSEDED)

    def rebalanced(self) -> None:
        """Clear the supersession after a rebalance: the group has assigned the partitions."""
        self._is_known = False

    def _look_later(self, reason: SlidestatError) -> None:
        asyncio.get_running_loop().call_later(_REBALANCE_S, self._look, reason)

    def _look(self, reason: SlidestatError) -> None:
        if not self._is_known:
            return
        if self._contact.is_silent:  # There is no way to learn of a rebalance.
            self._look_later(reason)
        else:
            self._end(reason)


_IDLE_CHECK_S = 1.0
_END_CHECK_S = 0.5
_KEY_CHECK_S = 1.0
_EXPECTED_CHECK_S = 10.0
_LOSS_CHECK_S = 1.0
# A pause of a tenth of a second is a backlog of a quick topic: each would flush all states.
_CAUGHT_UP_EVERY_S = 30.0
# A rival began when this worker did: looks at all topics of the brokers get rare.
_RIVAL_CHECK_S, _RAREST_RIVAL_CHECK_S = 10.0, 320.0
_MOVER_CHECK_S = 1.0

# Part of the minute after which the group would continue without this worker.
_REVOKED_S = 20.0


class GroupMember:
    """A member of a group, which computes topologies of one group and source, in a Faust app.

    Offsets are committed up to where all topologies are durable; a topology that is ahead of them
    skips what it has read.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        require_one_worker(settings.topologies)
        self.app = batch_app(settings)
        self._source = settings.source
        self._extent = settings.extent
        self._key_watch = settings.key_watch
        self._bootstrap = settings.bootstrap_servers
        self._schemas = None if settings.registry is None else SchemaWait(settings.registry)
        self._rival = settings.rival
        self._rival_due, self._rival_pause_s = 0.0, _RIVAL_CHECK_S
        self._mover = settings.mover
        self._may_change_statistics = settings.change_statistics
        parts = WorkerParts(self.app, settings)
        self._outputs = parts.outputs
        self._topics = parts.topics
        self._producers = parts.producers
        self._contact = BrokerContact(
            self._bootstrap,
            self._producers,
            self._source,
            lambda: cast(BatchConsumer, self.app.consumer).lost_since,
        )
        self._tables = parts.tables
        self._pipelines = parts.pipelines
        self._live = {
            topology.name: LiveTopology(topology, pipeline)
            for topology, pipeline in zip(settings.topologies, self._pipelines, strict=True)
        }
        self._due = DueTicks()
        # Held while records are queued, and while a flush waits for them: it would wait for ever
        # for a queue that is filled meanwhile.
        self._sending = asyncio.Lock()
        self._looking_ahead = asyncio.Lock()
        self._open_transactions = OpenTransactions()
        self._flushes = Flushes()
        # Whether a backlog is being read, and whether it has been since the last commit.
        self._is_behind = self._has_caught_up = False
        self._caught_up_at = -_CAUGHT_UP_EVERY_S
        # Faust starts an agent that failed again, with the next batch, until the app has stopped.
        self._has_failed = False
        self._superseded = Supersession(self._contact, self._crash_soon)
        # The pipelines whose topologies expect the keys of a topic; and why one cannot be read.
        self._told_of_keys: dict[str, str] = {}
        self._expecting = [
            (pipeline, settings.key_lists[counted.expected_topic])
            for pipeline in self._pipelines
            if (counted := pipeline.topology.counted) is not None and counted.expected_topic
        ]
        for pipeline, listed in self._expecting:
            pipeline.partitions.expect(listed.keys)
        self._connect(settings)
        self._start_timers(settings)

    def _connect(self, settings: WorkerSettings) -> None:
        """Have the app call this member."""
        app = self.app
        tables: Any = app.tables
        tables._recovery = BulkRecovery(
            app,
            app.tables,
            bootstrap_servers=settings.bootstrap_servers,
            before_highwaters=self._before_highwaters,
            on_owned=self._own,
            beacon=app.tables.beacon,
            loop=app.tables.loop,
        )
        app.while_restoring = self._look_while_restoring
        app.topics_error = self._topics.error
        app.group_lost = self._crash_soon
        app.make_web = lambda: settings.web.server(app, self._live)
        app.before_commit = self._before_commit
        app.needed_offset = self._needed_offset
        app.due_at = self._due.next
        app.decode_ahead = self._decode_ahead
        if self._key_watch is not None:
            app.commit_notes = self._commit_notes
        source = app.topic(self._source, key_serializer="raw", value_serializer="raw")
        app.agent(source, name=f"{settings.topologies[0].group_name}-absorb")(self._absorb)
        app.on_partitions_revoked.connect(self._revoked)
        app.on_rebalance_complete.connect(self._ready)

    def _decode_ahead(self, batch: RecordBatch) -> None:
        for pipeline in self._pipelines:
            pipeline.partitions.decode_ahead(batch)

    def _start_timers(self, settings: WorkerSettings) -> None:
        timers = [
            (LOOK_EVERY_S, self._look_for_brokers),
            (_LOSS_CHECK_S, self._look_for_losses),
            (_RIVAL_CHECK_S, self._look_for_rivals),
            (COLLECT_EVERY_S, self._collect_garbage),
        ]
        if self._mover is not None:
            timers.append((_MOVER_CHECK_S, self._look_at_mover))
        if self._key_watch is not None:
            timers.append((_KEY_CHECK_S, self._compare_keys))
        if self._expecting:
            timers.append((_EXPECTED_CHECK_S, self._read_expected))
        if any(topology.idle_ms for topology in settings.topologies):
            timers.append((_IDLE_CHECK_S, self._look_ahead))
        if settings.extent.end_offsets is not None:
            timers.append((_END_CHECK_S, self._end_when_read))
        for interval_s, look in timers:
            self.app.timer(interval_s)(self._or_crash(look))

    def _or_crash(self, look: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Have the worker end if a timer fails, with nothing half done in its last commit."""

        @wraps(look)
        async def looking() -> None:
            try:
                await look()
            except Exception as error:
                await self._crash(error)
                raise

        return looking

    def close(self) -> None:
        """Close what the app leaves open, after its end."""
        for table in self._tables:
            table.close()

    # Batches.

    async def _absorb(self, batches: StreamT[RecordBatch]) -> None:
        async for batch in batches:
            rebalances = self.app.rebalancing_count
            trace = None if self.app.traces is None else self.app.traces.begun(batch)
            try:
                within = self._extent.within(batch)
                # Commits continue while records wait for their schemas.
                if within is not None and await self._schemas_known(within, rebalances):
                    # Commits continue meanwhile, and a rebalance does not wait for it.
                    for pipeline in self._pipelines:
                        await pipeline.partitions.open([within.partition])
                    async with self._sending:
                        await self._process(within, rebalances, trace)
            except Exception as error:
                # A restarted agent would continue with the next batch and lose this one.
                log_exception(
                    "batch failed",
                    topic=batch.topic,
                    partition=batch.partition,
                    offset=int(batch.offsets[0]),
                    last_offset=int(batch.offsets[-1]),
                )
                await self._crash(error)
                raise

    async def _schemas_known(self, batch: RecordBatch, rebalances: int) -> bool:
        """Wait for the schemas of a batch; return False if it is given up before it can be read."""
        if self._schemas is None:
            return True
        return await self._schemas.before(
            batch, lambda: self.app.should_stop or self._is_rebalanced_since(rebalances)
        )

    async def _process(self, batch: RecordBatch, rebalances: int, trace: BatchTrace | None) -> None:
        if self._key_watch is not None:
            await self._key_watch.before(len(batch))
        if self._is_rebalanced_since(rebalances):
            return  # It is read again, here or by another worker.
        for pipeline in self._pipelines:
            if self._may_write_nothing or not await pipeline.order.check(batch):
                return
            await self._store_changes(pipeline)
            if self._may_write_nothing or not await pipeline.steps.process(batch, trace):
                return
        if trace is not None and self.app.traces is not None:
            self.app.traces.processed(trace)
        due_in_ms = min(pipeline.due_in_ms(batch.partition) for pipeline in self._pipelines)
        self._due.note(batch.partition, batch.fetched_at, due_in_ms)
        self._commit_backlog(batch)

    # Commits.

    def _commit_backlog(self, batch: RecordBatch) -> None:
        """Commit once a backlog is read to its end: its last emissions, and where a restart begins,
        do not wait for the next second, nor for a round of checkpoints. Where one backlog follows
        another, once in `_CAUGHT_UP_EVERY_S`.
        """
        offsets, partitions = self._pipelines[0].offsets, self._pipelines[0].partitions
        self._is_behind |= is_backlog(offsets, batch)
        if self._is_behind and all(
            offsets.is_end(partition, partitions.next_offset(partition))
            for partition in self._held_partitions()
        ):
            self._is_behind, now = False, time.monotonic()
            if now - self._caught_up_at >= _CAUGHT_UP_EVERY_S:
                self._has_caught_up, self._caught_up_at = True, now
                self.app.add_future(self._commit_all())

    async def _commit_all(self) -> None:
        # A commit that is under way may have begun before the last batch, and commit() then waits
        # for its end alone: so a second one.
        for _ in range(2):
            if self._has_caught_up:
                await self.app.consumer.commit()

    async def _before_commit(self) -> dict[TP, int]:
        # The last commit of a worker that stops is that of all it has.
        whole = self.app.should_stop or self.app.consumer.should_stop
        if self._has_caught_up:
            self._has_caught_up = False
            whole |= all(pipeline.states.are_few for pipeline in self._pipelines)
        try:
            return await self._flushes.run(partial(self._flush, whole=whole))
        except FlushGivenUpError:
            return {}

    async def _flush(self, *, whole: bool) -> dict[TP, int]:
        if self._has_failed:
            return {}
        try:
            traces, began_ns = self.app.traces, now_ns()
            before = 0 if traces is None else traces.unflushed
            durable = await flush_all(self._pipelines, self._outputs, self._sending, whole=whole)
            if traces is not None:
                traces.flushed(began_ns, before)
            return durable
        except SupersededError as error:
            self._wait_superseded(error)
            return {}
        except BaseException as error:
            # The rows that were taken for this flush are not written: the next flush must not
            # commit them.
            if isinstance(error, Exception):
                await self._crash(error)
            else:
                self._forget()
            raise

    async def _store_changes(self, pipeline: Pipeline) -> None:
        """Store which statistics partitions have, if those were changed. `_sending` is held:
        nothing of them is emitted meanwhile.
        """
        if pipeline.states.are_changed:
            try:
                await to_its_end(pipeline.states.store_changes())
            except SupersededError as error:
                self._wait_superseded(error)

    def _wait_superseded(self, error: SupersededError) -> None:
        """Drop all, and wait for the rebalance that assigns the partitions."""
        self._forget()
        self._superseded.learn(error)
        if isinstance(error.__cause__, LostError) and not self.app.should_stop:
            log_event(
                "partitions taken over again",
                f"a transaction cannot be continued ({error.__cause__}): this worker joins its"
                " group again, and reads on from what was committed",
                topics=[self._source],
            )
            cast(BatchConsumer, self.app.consumer).join_again()

    def _needed_offset(self, tp: TP) -> int:
        try:
            return min(
                pipeline.partitions.needed_offset(tp.partition) for pipeline in self._pipelines
            )
        except SlidestatError:
            return sys.maxsize  # The first batch raises the error, and stops the worker.

    def _commit_notes(self) -> dict[TP, str]:
        notes = {}
        for partition in self._held_partitions():
            samples = [pipeline.partitions.sampled_keys(partition) for pipeline in self._pipelines]
            if any(samples):
                note = encode_note(dict(sample for sample in samples if sample is not None))
                notes[TP(self._source, partition)] = note
        return notes

    # Rebalances.

    async def _revoked(self, *_args: Any, **_kwargs: Any) -> None:
        if self._mover is not None:
            self._mover.elect(())
        log_event("partitions given up", topics=[self._source])
        for topology in self._live.values():
            topology.not_ready()
        # A flush under way must end before another worker may read what it writes; and what this
        # one leaves unwritten is read again.
        if not self._superseded:
            try:
                await self._flushes.run_within(_REVOKED_S, partial(self._flush, whole=True))
            except FlushGivenUpError:
                log_event(
                    "states not written",
                    f"not everything was acknowledged within {_REVOKED_S:.0f} s: the group goes on,"
                    " and reads again what was not committed",
                    topics=[self._source],
                )
        self._forget()
        for pipeline in self._pipelines:
            await pipeline.partitions.opened()
        self._superseded.rebalanced()
        # Provisional emissions must be sent, or expire: they would replace those of the next
        # worker.
        async with self._looking_ahead:
            pass
        await asyncio.to_thread(give_back_memory)

    async def _ready(self, *_args: Any, **_kwargs: Any) -> None:
        held, rebalances = self._held_partitions(), self.app.rebalancing_count
        if not self._may_change_statistics:
            # The stored state answers until the partition is open.
            self._answer(held)
        try:
            for pipeline in self._pipelines:
                await pipeline.partitions.open(held)
                if self.app.rebalancing_count != rebalances:
                    return
                if not await pipeline.order.compare(held):
                    return
                if pipeline.states.are_changed:
                    async with self._sending:
                        await self._store_changes(pipeline)
        except SlidestatError as error:
            await self._crash(error)
            return
        for pipeline in self._pipelines:
            pipeline.progress.ready(held)
        self._answer(held)
        if self._mover is not None:
            self._mover.elect(held)

    def _answer(self, held: Collection[int]) -> None:
        for topology in self._live.values():
            topology.ready(held)

    async def _before_highwaters(self, changelogs: set[TP]) -> None:
        # The recovery of the rebalance before may have ended, and opened its partitions, after they
        # were given up for this one.
        self._forget()
        for table in self._tables:
            topic = table.changelog_topic
            await table.before_highwaters({tp.partition for tp in changelogs if tp.topic == topic})

    async def _own(
        self, restored: dict[TP, int], emptied: set[TP], generation: int
    ) -> dict[TP, int]:
        ends = {}
        for table in self._tables:
            topic = table.changelog_topic
            own = {tp.partition: at for tp, at in restored.items() if tp.topic == topic}
            unfenced = {tp.partition for tp in emptied if tp.topic == topic}
            try:
                owned_up_to = await table.own(own, unfenced, generation)
            except SupersededError as error:
                self._wait_superseded(error)
                return restored
            for partition, offset in owned_up_to.items():
                ends[TP(topic, partition)] = offset
        return ends

    def _held_partitions(self) -> list[int]:
        assigned = self.app.consumer.assignment()
        return [tp.partition for tp in assigned if tp.topic == self._source]

    def _is_rebalanced_since(self, rebalances: int) -> bool:
        return bool(self.app.rebalancing) or self.app.rebalancing_count != rebalances

    # Timers.

    async def _look_for_brokers(self) -> None:
        for producer in self._producers:
            producer.listen()
        try:
            await self._contact.look(self._topics.without_leader)
            for topology in self._live.values():
                topology.is_up_to_date = not self._contact.is_silent
            await self._topics.confirm()
        except SlidestatError as error:
            # A client keeps what it has for a topic that is gone for half a minute.
            for producer in self._producers:
                producer.fail(error)
            raise

    async def _look_while_restoring(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                await self._look_for_brokers()
        except Exception as error:  # noqa: BLE001  The worker ends of it.
            await self._crash(error)

    async def _look_for_rivals(self) -> None:
        if time.monotonic() < self._rival_due:
            return
        self._rival_due = time.monotonic() + self._rival_pause_s
        self._rival_pause_s = min(2 * self._rival_pause_s, _RAREST_RIVAL_CHECK_S)
        rival = await asyncio.to_thread(self._rival)
        if rival is not None:
            await self._crash(rival)
            raise rival

    async def _look_at_mover(self) -> None:
        if self._mover is not None and self._mover.failure is not None:
            raise self._mover.failure

    async def _compare_keys(self) -> None:
        rebalances = self.app.rebalancing_count
        watch = self._key_watch
        notes = await watch.notes(set(self._held_partitions())) if watch is not None else None
        if notes is None or self._is_rebalanced_since(rebalances):
            return  # They may be here by now.
        for pipeline in self._pipelines:
            pipeline.partitions.learn_keys(notes)

    async def _read_expected(self) -> None:
        for pipeline, listed in self._expecting:
            topic = listed.topic
            try:
                keys = await asyncio.to_thread(listed.read)
            except SlidestatError as error:
                # The keys that were read before are expected until the file can be read again.
                if (text := f"{error.message} {error.advice}") != self._told_of_keys.get(topic):
                    log_event("expected keys unknown", text, topic=topic)
                self._told_of_keys[topic] = text
                continue
            self._told_of_keys.pop(topic, None)
            if pipeline.partitions.expects(keys):
                continue
            async with self._sending:
                await pipeline.steps.emit_all_kept()
                pipeline.partitions.expect(keys)
            log_event(
                "expected keys changed",
                f"{pipeline.topology.name}: {topic} lists {len(keys):,} keys now",
                topology=pipeline.topology.name,
                topic=topic,
                keys=len(keys),
            )

    async def _collect_garbage(self) -> None:
        collect_garbage()

    async def _look_for_losses(self) -> None:
        offsets = self._pipelines[0].offsets
        ends = {partition: offsets.end(partition) or 0 for partition in self._held_partitions()}
        self._open_transactions.look(
            {
                (self._source, partition): (end - offsets.waiting(partition), end)
                for partition, end in ends.items()
            }
        )
        async with self._sending:
            for pipeline in self._pipelines:
                await pipeline.order.look_for_losses()

    async def _look_ahead(self) -> None:
        async with self._sending, self._looking_ahead:
            for pipeline in self._pipelines:
                await pipeline.look_ahead()

    async def _end_when_read(self) -> None:
        async with self._sending:  # A batch is read when it is all processed.
            held = self._held_partitions()
            if held and all(
                self._extent.is_read(
                    p, min(line.partitions.next_offset(p) for line in self._pipelines)
                )
                for p in held
            ):
                signal.raise_signal(signal.SIGTERM)

    # Ends.

    @property
    def _may_write_nothing(self) -> bool:
        return self._has_failed or bool(self._superseded)

    def _forget(self) -> None:
        for table in self._tables:
            table.give_up()
        for pipeline in self._pipelines:
            pipeline.forget()
        if self.app.traces is not None:
            self.app.traces.forget()

    async def _crash(self, error: Exception) -> None:
        # Stopping commits once more: nothing half done may be in that commit, and nothing of what
        # follows. A partition of which nothing was stored would begin with the next batch.
        self._has_failed = True
        self._forget()
        await self.app.crash(error)

    def _crash_soon(self, error: Exception) -> None:
        self.app.add_future(self._crash(error))
