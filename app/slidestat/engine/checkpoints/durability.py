"""Up to where a partition is durable, and up to where everything was emitted."""

from collections.abc import Iterable

from msgspec.structs import replace

from slidestat.declare.alerts import ALERTS_LABEL
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Recent,
    claims,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
    of_topic,
    stored_meaning,
)
from slidestat.engine.checkpoints.kept_statistics import AS_STORED, KeptStatistics
from slidestat.engine.checkpoints.ledger import Ledger
from slidestat.engine.checkpoints.snapshot import Snapshot
from slidestat.engine.clock.event_clock import EventClock
from slidestat.engine.states.key_states import KeyStates


class Durability:
    """The newest checkpoint of a partition, and the snapshot that is being written."""

    def __init__(
        self,
        topology: Topology,
        stored: bytes | None,
        topic_id: str,
        kept: KeptStatistics = AS_STORED,
    ) -> None:
        """Restore from `stored`, the checkpoint's bytes, None for a partition never seen.
        `topic_id` is that of the source, which a checkpoint without one takes for its own; `kept`
        holds the statistics that the states have.
        """
        self._slots = kept.slots
        # Stored at once, before anything is emitted by it.
        self.is_changed = kept.is_changed
        self._label = topology.state_label
        self._lateness = topology.lateness_ms
        self.is_stored = stored is not None
        self.checkpoint = decode_checkpoint(
            stored, topology.state_meaning, statistics_change=kept.is_changed
        )
        # Whether the same alerts were declared when the last ticks were emitted: new ones have not
        # judged those.
        before = {} if stored is None else stored_meaning(stored)
        self.has_same_alerts = before.get(ALERTS_LABEL) == self._label.get(ALERTS_LABEL)
        # The alerts that have judged all that was emitted: the stored ones, until the new ones
        # have.
        self._judged_by = self._label
        if not self.has_same_alerts:
            others = {name: text for name, text in self._label.items() if name != ALERTS_LABEL}
            known = {ALERTS_LABEL: before[ALERTS_LABEL]} if ALERTS_LABEL in before else {}
            self._judged_by = {**others, **known}
        # Stored at once: until then, the topic could be deleted and created again unnoticed.
        self._claims_source = self.is_stored and claims(self.checkpoint, topic_id)
        self.checkpoint = of_topic(self.checkpoint, topic_id)
        # Up to where everything that was emitted, or sent as a letter, is acknowledged or about to
        # be before a state is written; and the watermark there.
        self.emitted = decode_emitted(stored, self.checkpoint)
        self.emitted_watermark = self.emitted.max_time - self._lateness
        # A restarted worker reads from here on, or from further on, if it reads at all.
        self.durable_offset = self.checkpoint.next_offset if self.is_stored else 0
        self._snapshot: Snapshot | None = None

    def reached(self, ledger: Ledger, undecided: Iterable[int]) -> Checkpoint:
        """Return the position of reading; the records at the offsets `undecided` are taken as not
        read.
        """
        if ledger.reached.next_offset < self.emitted.next_offset:
            return self.emitted  # What was read before a restart is being read again.
        return ledger.reached_without(undecided)

    def snapshot(
        self,
        keys: KeyStates,
        slots: Iterable[int],
        ledger: Ledger,
        clock: EventClock,
        next_offset: int,
        waiting_offset: int | None,
    ) -> Snapshot | None:
        """Return the states of these slots that changed since they were last taken, and the
        checkpoint with them; None if nothing has changed.

        `waiting_offset` is the least offset of an event that waits.
        """
        states = keys.take_changes(slots)
        needed = needed_offset(keys, next_offset, waiting_offset)
        end = ledger.reached
        is_known = self.is_stored or not next_offset
        is_known = is_known and needed <= self.checkpoint.next_offset
        if (
            is_known
            and not states
            and end.next_offset <= self.emitted.next_offset
            and not self._claims_source
            and not self.is_changed
        ):
            return None
        self.is_stored, self._claims_source, self.is_changed = True, False, False
        self.checkpoint = replace(ledger.settle(needed), recent=clock.settle(needed))
        if end.next_offset > self.emitted.next_offset:
            self.emitted = replace(end, recent=Recent(), topic_id="", loss=None)
            self.emitted_watermark = end.max_time - self._lateness
        if end.next_offset >= self.emitted.next_offset:
            self._judged_by = self._label
        encoded = encode_checkpoint(self.checkpoint, self._judged_by, self.emitted, self._slots)
        self._snapshot = Snapshot(states, encoded, needed)
        return self._snapshot

    def written(self, keys: KeyStates) -> None:
        """Note that the last snapshot is durable."""
        if self._snapshot is not None:
            self.durable_offset = self._snapshot.next_offset
            keys.written()
            self._snapshot = None


def needed_offset(keys: KeyStates, next_offset: int, waiting_offset: int | None) -> int:
    """Return the offset from which the source must be read for the events that wait and the states
    that no snapshot has taken.
    """
    needed = (next_offset, waiting_offset, keys.first_offset())
    return min(offset for offset in needed if offset is not None)
