"""One partition of one topology, from record batches to key states, emissions and dead letters.

Pure: it reads a store, and returns what is to be written; it never talks to Kafka. The result is a
function of the records' order alone, whatever the batches, the workers or the restarts:

1. records before the next expected offset are passed over (they were seen);
2. unreadable ones are refused, late ones (behind the watermark) set aside, and what would outgrow
   its key's windows is refused, all as letters; so is, once that is decided, what lies far ahead of
   the records around it (`clock.py`);
3. the others wait, and are absorbed in order of (time, offset) when the watermark has reached them
   and there is a reason: all of them at once when a tick has passed, those of some keys when it is
   their turn to be written, and all once they have become many;
4. a tick is emitted in the batch in which the watermark passes it, for the keys with events since
   the tick before, in order of (tick, key); synopses see exactly the events before the tick;
5. a key whose last event has left a window, or the span, is emitted once more, at the first tick
   after that; so is one that has been silent for `forget_after`; with `emit` for the span alone, or
   at every tick until then; and the state of a key is deleted once no later figure depends on it.

States become durable slot by slot (`unwritten.py`), so that after a crash some are far ahead of the
checkpoint. A key's state does not take in events that it has absorbed already, and a tick that its
watermark has passed is not emitted again: its emission was acknowledged before that state was
written. Nor is what was emitted before the last flush: the checkpoint has that position.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import Alerting
from slidestat.engine.alerts.unconfirmed import Unconfirmed
from slidestat.engine.checkpoints.checkpoint import Checkpoint, Snapshot
from slidestat.engine.checkpoints.kept_statistics import kept_statistics
from slidestat.engine.checkpoints.ledger import Durability, needed_offset
from slidestat.engine.clock import Advance, EventClock
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.added_figures import AddedFigures
from slidestat.engine.emissions.emission import EmissionEncoder
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec
from slidestat.engine.emissions.last_written import LastWritten
from slidestat.engine.emissions.placed_emissions import PlacedEmissions
from slidestat.engine.intake.earlier_records import EarlierRecords, Part
from slidestat.engine.intake.intake import Intake, Taken
from slidestat.engine.keys.expected_keys import ExpectedKeys
from slidestat.engine.keys.held_keys import HeldKeys
from slidestat.engine.keys.key_state import StateLayout, starts_by_label
from slidestat.engine.keys.shared_keys import KeySample
from slidestat.engine.keys.stored_keys import PartitionStore
from slidestat.engine.keys.unwritten import SLOTS
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.publishing import Clock, Publication, Publisher
from slidestat.engine.records import LogMark, RecordBatch
from slidestat.engine.ticks.absorber import Absorber
from slidestat.engine.ticks.chosen_records import ChosenRecords
from slidestat.engine.ticks.early import EarlyAbsorption
from slidestat.engine.ticks.followed_alerts import FollowedAlerts
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.look_ahead import LookAhead, absorb_and_publish
from slidestat.engine.ticks.ranked_ticks import RankedTicks
from slidestat.engine.ticks.silent_keys import SilentKeys
from slidestat.engine.ticks.ticker import LAST, KeptTicks, Limits, Ticker
from slidestat.engine.view import PartitionView, Unabsorbed
from slidestat.engine.waiting import EventStore
from slidestat.schemas.query import AddedStatistic


class PartitionProcessor:
    """The processor of one partition: it keeps the statistics of its keys."""

    LIMITS = Limits()

    def __init__(
        self,
        topology: Topology,
        topic: str,
        partition: int,
        store: PartitionStore,
        decoder: EventDecoder | None = None,
        codec: EmissionWriter | None = None,
        work: PartitionWork | None = None,
        topic_id: str = "",
        clock: EventClock | None = None,
        file: Path | None = None,
        *,
        expected: Mapping[str, int] = MappingProxyType({}),
        change_statistics: bool = False,
    ) -> None:
        """Restore a partition.

        `topic_id` is that of the source, which a checkpoint without one takes for its own;
        `clock` is the partition's where not all of its records come here; `file` is where events go
        for a moment that memory should not hold; `expected` maps keys to the partitions on which
        they must come. With `change_statistics` the stored states may be of other statistics: new
        ones begin after the records that were read.
        """
        work = work or PartitionWork()
        self._topology, self._partition = topology, partition
        self._every = topology.every_ms
        self._lateness = topology.lateness_ms
        self._publisher = Publisher(topology, topic, partition) if topology.publish else None
        kept = kept_statistics(topology, store, may_change=change_statistics)
        layout = StateLayout(topology, kept.slots)
        self._starts = starts = starts_by_label(topology, layout)
        self._added = AddedFigures(topology, starts)
        self._durability = Durability(topology, store.checkpoint(), topic_id, kept)
        start = self._durability.checkpoint
        self._waiting = EventStore(topology.columns, file, whole_ms=bool(topology.every_events))
        watermark = start.max_time - self._lateness
        self._alerting = None
        if topology.alerts:
            told = Unconfirmed(store.told(), self._durability.emitted_watermark)
            self._alerting = Alerting(topology, topic, partition, starts, told)
        limit = self.LIMITS.cached_keys
        self._keys = HeldKeys.restored(
            *(topology, store, watermark, limit, work, self._alerting, layout, expected, partition),
            judge_all_at=self._durability.judge_all_at,
        )
        self._expected = ExpectedKeys(topology, self._keys)
        decoder = decoder or EventDecoder(topology)
        self._earlier = EarlierRecords(topology, kept.slots, decoder)
        whole = None if self._publisher is None else self._publisher.whole_key
        self._intake = Intake(topology, decoder, whole, start, self._keys, self._waiting, clock)
        kernels = KernelCalls(topology, work, layout.starts)
        passed = self._keys.stored_watermark
        self._ranked = RankedTicks(topology, topic, partition, starts, passed)
        self._absorber, self._ticker = self._ticks(topology, topic, codec or JsonCodec(), kernels)
        self._ahead = LookAhead(topology, self._keys, self._waiting, self._absorber, self._ticker)
        self._unabsorbed = Unabsorbed(self._keys, self._waiting, self._absorber, self._standstill)
        self._early = EarlyAbsorption(
            *(self._waiting, self._absorber, self._ticker, self._publisher, self._standstill),
            start.next_offset,
        )
        self._chooses = topology.chooses
        self._kept = KeptTicks(topology)
        # Whether a batch is half done: its ticks are not all emitted yet.
        self._is_amid = False
        # Expected keys begin here too where no record comes: they may be expected since this start.
        self._expected.begin(self._standstill(), self._waiting)

    def _ticks(
        self, topology: Topology, topic: str, codec: EmissionWriter, kernels: KernelCalls
    ) -> tuple[Absorber, Ticker]:
        """Return what absorbs events, and what emits ticks: both over the same keys and alerts."""
        emissions = PlacedEmissions(
            EmissionEncoder(topology, topic, self._partition, codec, self._starts),
            # They may be spread over partitions: what one of them knows is no answer.
            frozenset(() if topology.publishes_partitions else topology.publish),
        )
        tell_again = not self._durability.has_same_alerts
        at = self._durability.judge_all_at
        alerts = FollowedAlerts(
            topology, self._keys, self._alerting, tell_again=tell_again, judge_all_at=at
        )
        last_written = LastWritten(topology, self._starts) if topology.chooses else None
        is_new = not self._durability.has_same_emit
        chosen = ChosenRecords(
            self._keys, last_written, is_new=is_new, shows_due_alone=topology.is_asked_alone
        )
        kept = self._keys, kernels, emissions, alerts, chosen, self._ranked
        absorber, silent = Absorber(topology, *kept), SilentKeys(topology, *kept)
        sizes = self.LIMITS.slices
        ticker = Ticker(topology, self._keys, absorber, silent, emissions, sizes, self._ranked)
        return absorber, ticker

    @property
    def next_offset(self) -> int:
        """The first offset not yet read."""
        return self._intake.next_offset

    @property
    def has_begun(self) -> bool:
        """Return whether anything was ever read."""
        return self._durability.is_stored or self.next_offset > 0

    @property
    def unread_offset(self) -> int:
        """The first offset that was never read: records before it lead to no letters."""
        return max(self.next_offset, self._durability.emitted.next_offset)

    @property
    def mark(self) -> LogMark | None:
        """The last record that was read, also by the worker before; None if it is not known."""
        return self._durability.mark

    def note(self, mark: LogMark) -> None:
        """Note the last record of the batch that is read."""
        self._durability.read(mark)

    @property
    def watermark(self) -> int:
        """The event time reached so far, less the lateness."""
        return self._intake.watermark

    @property
    def newest_time(self) -> int:
        """The largest time of an event that is counted or waits, or how far event time has come."""
        return max(self._waiting.last_time(), self._intake.clock.time)

    @property
    def due_in_ms(self) -> int:
        """The distance from the watermark to the next tick."""
        return 0 if self._kept else self._every - self.watermark % self._every

    @property
    def firing(self) -> dict[str, int]:
        """The number of keys for which each alert fires, by its name."""
        alerts = {} if self._alerting is None else self._alerting.firing
        return {alert: len(keys) for alert, keys in alerts.items()}

    @property
    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint taken."""
        return self._durability.checkpoint

    @property
    def key_sample(self) -> KeySample:
        """The sample of keys, those of least hash: to be compared with other partitions' keys."""
        return self._keys.states.sample

    @property
    def has_new_statistics(self) -> bool:
        """Return whether statistics were changed, and no snapshot was taken since: the first one
        must be durable before anything is read.
        """
        return self._durability.is_changed

    @property
    def incomplete(self) -> list[AddedStatistic]:
        """The statistics that were added, as long as windows that end now begin before them."""
        end = self.watermark + 1
        return [it for it in self._added.statistics() if it.until_ms is None or end < it.until_ms]

    @property
    def reached(self) -> Checkpoint:
        """The position of reading, for display: records that wait for the watermark are included,
        those that may yet be refused are not.
        """
        intake = self._intake
        return self._durability.reached(intake.ledger, intake.suspects.offsets)

    @property
    def keeps_ticks(self) -> bool:
        """Return whether ticks are kept back."""
        return bool(self._kept)

    @property
    def unwritten_bytes(self) -> int:
        """The bytes of the states that no snapshot has taken yet."""
        return self._keys.states.unwritten_bytes

    @property
    def unwritten_records(self) -> int:
        """The number of offsets to read again after a restart, for states not in a snapshot."""
        waiting = self._waiting.first_offset() if self._lateness else None
        end = self.next_offset if waiting is None else waiting
        needed = needed_offset(self._keys.states, self.next_offset, self._waiting.first_offset())
        return max(0, end - needed)

    def process(self, batch: RecordBatch) -> Effects:
        """Process a batch; its outputs are returned or kept for the next snapshot."""
        effects = Effects()
        for step in self.steps(batch):
            effects.emissions = [*effects.emissions, *step.emissions]
            effects.dead_letters += step.dead_letters
            effects.late += step.late
            effects.published += step.published
            effects.alerts += step.alerts
        return effects

    def steps(
        self, batch: RecordBatch, decoded: EventColumns | None = None, *, more_follows: bool = False
    ) -> Iterator[Effects]:
        """Process a batch step by step: the output of a tick of many keys may not fit memory.

        Where `more_follows` at once, ticks may be kept back, to be emitted with a later batch, or
        by `kept_back`, which must come before the next snapshot.

        All events are read in the first step, so queries may be answered between any two. But this
        processor must be dropped if the last step is not reached: no snapshot is taken meanwhile.
        `decoded` are the columns of a batch's records, none of which was read before, where they
        are known already.
        """
        self._is_amid = True
        for part in self._earlier.parts(batch, decoded, self.next_offset):
            taken = self._taken(part)
            if taken is not None:
                self._kept.add(taken)
                yield Effects(dead_letters=taken.dead_letters, late=taken.late)
            if not self._kept:
                if self._waits_too_much():
                    for _ in self._early.of_all():
                        yield Effects()
            elif not (more_follows and self._may_keep()):
                yield from self._of_kept()
        self._is_amid = False

    def kept_back(self) -> Iterator[Effects]:
        """Emit the ticks that were kept back, step by step, as `steps` does."""
        if self._kept:
            self._is_amid = True
            yield from self._of_kept()
            self._is_amid = False

    def _taken(self, part: Part) -> Taken | None:
        """Take in a part of a batch, and return what became of it; None if nothing of it is new."""
        emitted = self._durability.emitted.next_offset
        taken = self._intake.take(part.batch, part.columns, emitted, part.quota)
        if taken is not None:
            self._look_anew()
        return taken

    def _look_anew(self) -> None:
        """Have provisional output computed and written again: new events may have changed it."""
        self._ahead.start_anew()
        if self._alerting is not None:
            self._alerting.unconfirmed.start_anew()

    def _may_keep(self) -> bool:
        """Return whether ticks may wait for more records to be read. A loss that is open marks
        emissions up to where it will end.
        """
        loss = self._intake.loss
        return (
            self._publisher is None
            and not (loss is not None and loss.is_open)
            and not self._waits_too_much()
            and self._kept.emissions <= self.LIMITS.kept_emissions
        )

    def _of_kept(self) -> Iterator[Effects]:
        """Return what the ticks that were kept back lead to, step by step; nothing is kept then."""
        advance = self._kept.take(self._durability.emitted_watermark, self._intake.loss)
        self._expected.begin(advance, self._waiting)
        if self._publisher is None:
            self._ranked.begin(advance)
            return self._ticker.outputs(self._waiting, advance, self.LIMITS.kept_emissions)
        placed, published = absorb_and_publish(
            self._publisher,
            self._absorber,
            self._keys,
            self._waiting.take(advance.watermark),
            advance,
        )
        effects = self._ticker.emissions(iter([(placed, LAST)]), advance)
        return chain((Effects(published=published),), effects)

    def _require_none_kept(self) -> None:
        if self._kept:
            raise RuntimeError("ticks are kept back: their emissions are not known")

    def _standstill(self) -> Advance:
        """Return an advance that moves nothing."""
        return self._advance_to(self.watermark)

    def _advance_to(self, watermark: int) -> Advance:
        """Return an advance of the watermark without a record."""
        emitted, loss = self._durability.emitted_watermark, self._intake.loss
        return Advance.at_once(self.watermark, self.next_offset - 1, watermark, emitted, loss)

    def _waits_too_much(self) -> bool:
        waiting, limits = self._waiting, self.LIMITS
        return (
            waiting.added_events > limits.waiting_events
            or waiting.added_bytes > limits.waiting_bytes
        )

    def lose(self, first_offset: int, next_offset: int) -> None:
        """Continue at `next_offset`: the records from `first_offset` up to it are gone. Windows
        that may lack them are marked. No tick may be kept back.
        """
        self._require_none_kept()
        self._intake.lose(first_offset, next_offset)
        self._durability.lost()

    def expect(self, expected: Mapping[str, int]) -> None:
        """Have other keys expected from now on, on these partitions. No tick may be kept back."""
        self._require_none_kept()
        self._keys.change_expected(self._topology, expected, self._partition, self.watermark)
        self._look_anew()
        self._expected.begin_again(self._standstill(), self._waiting)

    def provisional(self, now: int) -> Iterator[Effects]:
        """Yield the emissions to come, and the changes of alerts, slice by slice, as they would be
        if nothing else came before the time `now`: for an idle partition.

        Each is yielded once. They leave no trace, and the final ones follow in any case. A change
        of an alert may turn out not to be one: then its state is written at its tick. So a change
        is noted first, and yielded by the next call once a snapshot with the note is durable. None
        while ticks are kept back, and none where figures or numbers of events decide what is
        written: a final one might not follow.
        """
        if self._kept or self._chooses or self._topology.every_events:
            return
        if self._alerting is not None and (noted := self._alerting.unconfirmed.to_write()):
            yield Effects(alerts=noted)
        for effects in self._ahead.outputs(self._advance_to(now - self._lateness)):
            if self._alerting is not None:
                self._alerting.await_final(effects.alerts)
            if len(effects.emissions):
                yield Effects(effects.emissions)

    @property
    def has_to_tell(self) -> bool:
        """Return whether changes of alerts wait for a snapshot before they are written."""
        return self._alerting is not None and self._alerting.unconfirmed.waits

    def published_ahead(self, now: int) -> list[Publication | Clock]:
        """Return what this partition would publish if nothing else came before the time `now`: its
        synopses of ticks that are not passed yet, then its clock; for a partition that brings
        nothing new. Nothing, if there has been no further tick since it was asked last. No trace.
        """
        if self._publisher is None:
            return []
        return self._ahead.published(self._publisher, self._advance_to(now - self._lateness))

    def synopses_left(self) -> Iterator[list[Publication]]:
        """Yield, some keys at a time, the synopses of keys at the interval that is declared which
        are not published yet, as they are now: at the end of history. No tick may be kept back.
        """
        self._require_none_kept()
        return self._ticker.synopses_left(self.watermark + 1, self.next_offset - 1)

    def view(self) -> PartitionView:
        """Return a view of the keys, for queries."""
        return PartitionView(
            self._partition,
            self.watermark,
            self.next_offset,
            self._keys.states,
            self._intake.loss,
            self._unabsorbed,
            self._starts,
            {} if self._alerting is None else self._alerting.firing,
        )

    def snapshot(self, slots: Iterable[int] = range(SLOTS)) -> Snapshot | None:
        """Return the changes since the last snapshot, of the keys of these slots, or None if there
        are none; it must be made durable before the next one is taken, or this processor be thrown
        away. All that was emitted must be acknowledged before.
        """
        if self._is_amid:
            raise RuntimeError("a batch is half done: its emissions are not all known")
        self._require_none_kept()
        self._keys.delete_closed(self._durability.durable_offset, self.LIMITS.deleted_keys)
        slots = frozenset(slots)
        self._early.of_slots(slots)
        intake, alerting = self._intake, self._alerting
        self._keys.give_back_numbers()
        return self._durability.snapshot(
            self._keys.states,
            slots,
            intake.ledger,
            intake.clock,
            intake.next_offset,
            self._waiting.first_offset(),
            {} if alerting is None else alerting.unconfirmed.changes(self.watermark),
        )

    def written(self) -> None:
        """Note that the last snapshot is durable."""
        self._durability.written(self._keys.states)
        if self._alerting is not None:
            self._alerting.unconfirmed.written()
