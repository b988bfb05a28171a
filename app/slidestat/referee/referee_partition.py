"""One partition of a referee's source: synopses and clocks of parties in, answers out.

Pure, as `partition.py` is, and durable in the same way. The result is a function of the records'
order alone:

1. a synopsis is kept, by stream, statistic, party and tick; a record that is none is a dead letter;
2. a clock that advances may settle ticks: those that all parties have come to (or that the last of
   them is more than `correctable` behind), which are answered once and for all; then ticks that are
   more than `patience` behind the furthest party are answered without those that have not come;
3. what no later tick needs is forgotten;
4. an idle party publishes what it would if no records came. With that it is present in
   answers that are given without waiting for it, as provisional ones, until its next clock.

The final answers of streams do not depend on how the parties' records mix: a tick's synopses come
before the clock that settles it, and do not change. Provisional answers do depend on it.

The part that survives a crash. A flush writes the clocks and how far ticks are settled first, in
one row, then synopses, then what is forgotten, then the checkpoint. So in a half-written changelog
the first row may be ahead of the checkpoint: records read again bring their synopses, and clocks
that are known move nothing; those that settle more ticks come after all synopses that these need.
What idle parties would publish is not stored: they publish it again at the wall clock's next tick.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Snapshot,
    claims,
    decode_checkpoint,
    encode_checkpoint,
    of_topic,
    stored_mark,
)
from slidestat.engine.checkpoints.ledger import COUNTED, DEAD, Ledger
from slidestat.engine.decoding.event_columns import Refusal
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec
from slidestat.engine.emissions.output_records import OutputRecord
from slidestat.engine.intake.letters import letter_of
from slidestat.engine.keys.shared_keys import KeySample
from slidestat.engine.keys.stored_keys import PartitionStore
from slidestat.engine.publishing import Clock, Publication
from slidestat.engine.records import NO_TIME, LogMark, RecordBatch
from slidestat.errors import SlidestatError
from slidestat.referee.live_referee import RefereeView
from slidestat.referee.party_clocks import CLOCKS, PartyClocks
from slidestat.referee.party_synopses import AnsweredTicks, PartyStreams, Piece
from slidestat.referee.ranking_answers import RankingAnswers
from slidestat.referee.referee_answers import RefereeAnswers
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.query import AddedStatistic
from slidestat.schemas.sequence import decode_clock
from slidestat.schemas.synopsis import (
    ClockKey,
    PartyClock,
    ProvisionalKey,
    SynopsisKey,
    decode_key,
    party_name,
)
from slidestat.synopses.core.errors import SynopsisError

# Read and check the records of the topic of synopses.

_MOST_PARTIES = 100_000
_PARTITION = re.compile(r"[0-9]{1,9}")


class ClockRecord(NamedTuple):
    """The clock of a party or, of an idle one, its provisional clock."""

    party: str
    clock: PartyClock
    is_of_idle: bool


class SynopsisRecord(NamedTuple):
    """A synopsis that a party has published or, of an idle one, would publish."""

    stream: str
    piece: Piece
    synopsis: bytes
    is_of_idle: bool


class RefusedError(Exception):
    """A record that is no synopsis and no clock of this referee's topology."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class PartyRecords:
    """A reader of the records of the parties of one topology."""

    def __init__(self, topology: Topology, answers: RefereeAnswers | RankingAnswers) -> None:
        self._topology = topology
        self._answers = answers

    def read(
        self, key: bytes | None, value: bytes | None, timestamp: int
    ) -> ClockRecord | SynopsisRecord:
        """Read and check one record; raises RefusedError if it is no synopsis and no clock."""
        if key is None or value is None:
            raise RefusedError(Reason.NULL_RECORD, "the record has no key or no value")
        try:
            whose = decode_key(key)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RefusedError(Reason.BAD_KEY, str(error)) from None
        is_of_idle = isinstance(whose, ProvisionalKey)
        whose = whose.of if isinstance(whose, ProvisionalKey) else whose
        if whose.topology != self._topology.name:
            raise RefusedError(Reason.BAD_KEY, f"of the topology {whose.topology!r}")
        if not self._is_party(whose.party):
            raise RefusedError(Reason.BAD_KEY, f"{whose.party!r} is no partition of the source")
        if isinstance(whose, ClockKey):
            return ClockRecord(whose.party, self._clock(value), is_of_idle)
        self._check_synopsis(whose, value, timestamp)
        piece = Piece(whose.statistic, whose.party, timestamp)
        return SynopsisRecord(whose.key, piece, value, is_of_idle)

    def _is_party(self, name: str) -> bool:
        topic, _, partition = name.rpartition("/")
        return (
            topic == self._topology.events_topic
            and _PARTITION.fullmatch(partition) is not None
            and party_name(topic, int(partition)) == name
        )

    def _check_synopsis(self, whose: SynopsisKey, value: bytes, tick: int) -> None:
        if not self._answers.knows(whose.statistic):
            raise RefusedError(Reason.BAD_KEY, f"no statistic is called {whose.statistic!r}")
        self._check_tick(tick)
        try:
            self._answers.check(whose.statistic, value)
        except SynopsisError as error:
            raise RefusedError(Reason.BAD_SYNOPSIS, str(error)) from None

    def _clock(self, value: bytes) -> PartyClock:
        try:
            clock = decode_clock(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RefusedError(Reason.BAD_SYNOPSIS, str(error)) from None
        if clock.parties > _MOST_PARTIES:
            raise RefusedError(Reason.BAD_SYNOPSIS, f"{clock.parties} parties")
        self._check_tick(clock.tick_ms)
        return clock

    def _check_tick(self, tick: int) -> None:
        times = self._topology.times
        if not times.earliest <= tick < times.latest + self._topology.every_ms:
            raise RefusedError(Reason.BAD_TIME, f"{tick} is no tick")


class RefereeProcessor:
    """A processor of a partition of synopses: answers over all parties for its streams."""

    # Each flush writes all that there is, no tick is kept back, no statistic is ever changed; and
    # when the next tick is due depends on all parties.
    unwritten_bytes = unwritten_records = due_in_ms = 0
    has_new_statistics = keeps_ticks = False

    def __init__(
        self,
        referee: Referee,
        _topic: str,
        partition: int,
        store: PartitionStore,
        codec: EmissionWriter | None = None,
        topic_id: str = "",
    ) -> None:
        """Open the partition from its store. The arguments are those of `PartitionProcessor`; an
        answer does not name its topic, so `_topic` is not used.
        """
        topology = referee.of
        self._every_ms = topology.every_ms
        self._partition = partition
        self._meaning = referee.state_meaning
        self._clocks = PartyClocks(referee)
        self._answers = (
            RankingAnswers(referee, partition, self._clocks)
            if topology.rankings
            else RefereeAnswers(referee, partition, codec or JsonCodec())
        )
        stored = store.checkpoint()
        self._has_checkpoint = stored is not None
        self._checkpoint = decode_checkpoint(stored, self._meaning)
        self._mark = stored_mark(stored)
        self._claims_source = self._has_checkpoint and claims(self._checkpoint, topic_id)
        self._checkpoint = of_topic(self._checkpoint, topic_id)
        self._next_offset = self._checkpoint.next_offset
        self._ledger = Ledger(self._checkpoint)
        self._records = PartyRecords(topology, self._answers)
        silence = AnsweredTicks.of(referee)
        self._streams = PartyStreams(silence)
        self._tells_silence = bool(silence.emptied)
        # While parties are idle: up to which tick their silence is answered for.
        self._told = NO_TIME
        self._restore(store)

    @property
    def next_offset(self) -> int:
        """The first offset not yet read."""
        return self._next_offset

    @property
    def has_begun(self) -> bool:
        """Return whether anything was ever read."""
        return self._has_checkpoint or self._next_offset > 0

    @property
    def mark(self) -> LogMark | None:
        """The last record that was read; None if it is not known."""
        return self._mark

    def note(self, mark: LogMark) -> None:
        """Note the last record of the batch that is read."""
        if not mark.is_before(self._mark):
            self._mark = mark

    @property
    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint taken."""
        return self._checkpoint

    @property
    def reached(self) -> Checkpoint:
        """The checkpoint of what has been read."""
        return self._ledger.reached

    @property
    def unread_offset(self) -> int:
        """The first offset that nobody has read yet."""
        return self._next_offset

    def process(self, batch: RecordBatch) -> Effects:
        """Take in a batch; what it leads to is returned or kept for the next snapshot."""
        batch = batch.since(self._next_offset)
        effects = Effects()
        if not len(batch):
            return effects
        if self._next_offset == 0 and batch.offsets[0] > 0:
            self._clocks.begin_amid()
        outcomes = np.full(len(batch), COUNTED, np.uint8)
        max_times = np.empty(len(batch), np.int64)
        for row, (offset, key, value, timestamp) in enumerate(
            zip(
                batch.offsets.tolist(),
                batch.keys,
                batch.values,
                np.asarray(batch.timestamps).tolist(),
                strict=True,
            )
        ):
            try:
                self._take(self._records.read(key, value, timestamp), offset, effects)
            except RefusedError as refused:
                outcomes[row] = DEAD
                refusal = Refusal(row, refused.reason, str(refused))
                effects.dead_letters.append(letter_of(batch, refusal))
            max_times[row] = self._clocks.furthest
        self._ledger.append(batch.offsets, max_times, outcomes)
        self._next_offset = int(batch.offsets[-1]) + 1
        return effects

    @property
    def key_sample(self) -> KeySample:
        """The sample of keys that no other partition may have: empty, as all have the same."""
        return KeySample()

    @property
    def incomplete(self) -> list[AddedStatistic]:
        """The statistics that were added: none."""
        return []

    @property
    def firing(self) -> dict[str, int]:
        """The number of keys for which each alert fires: a referee has no alerts."""
        return {}

    def steps(self, batch: RecordBatch, *, more_follows: bool = False) -> Iterator[Effects]:  # noqa: ARG002  # It keeps nothing back.
        """Take in a batch, in a single step."""
        yield self.process(batch)

    def kept_back(self) -> Iterator[Effects]:
        """Return no ticks that were kept back."""
        return iter(())

    def lose(self, first_offset: int, next_offset: int) -> None:
        """Raise RuntimeError: answers could not say that they lack records."""
        raise RuntimeError(f"a referee cannot lack offsets {first_offset} to {next_offset}")

    def published_ahead(self, _now: int) -> list[Publication | Clock]:
        """Return nothing that it would publish."""
        return []

    def provisional(self, _now: int) -> Iterator[Effects]:
        """Return no emissions: answers to missing parties depend on event time, not on `_now`."""
        return iter(())

    def view(self) -> RefereeView:
        """Return a view of the streams at the newest tick that is answered for."""
        reached = max(self._clocks.settled, self._clocks.answered)
        tick = max(reached // self._every_ms * self._every_ms, NO_TIME)
        present = self._clocks.present(tick, with_idle=tick > self._clocks.settled)
        return RefereeView(self._partition, tick, self._next_offset, self._streams.of, present)

    def snapshot(self, _slots: Iterable[int] = ()) -> Snapshot | None:
        """Return the changes since the last snapshot, or None, as a `PartitionProcessor` does, but
        all of them: a synopsis is written once and for all, and gains nothing by waiting.
        """
        is_known = self._has_checkpoint and self._next_offset <= self._checkpoint.next_offset
        if is_known and not self._claims_source:
            return None
        self._has_checkpoint, self._claims_source = True, False
        self._checkpoint = self._ledger.settle(self._next_offset)
        states = self._clocks.changes() | self._streams.changes()
        encoded = encode_checkpoint(self._checkpoint, self._meaning, mark=self._mark)
        return Snapshot(states, encoded, self._next_offset)

    def written(self) -> None:
        """Note that the last snapshot is durable."""

    def _restore(self, store: PartitionStore) -> None:
        try:
            for row, data in store.scan():
                if row == CLOCKS:
                    self._clocks.restore(data)
                else:
                    self._streams.restore(row, data)
        except msgspec.DecodeError as error:
            raise SlidestatError(
                "A stored synopsis of a party is damaged.", "Delete the worker's data folder."
            ) from error
        # A flush that broke off may have written the clocks, and not that what they settle goes.
        self._streams.forget_all(self._clocks.settled)

    def _take(self, record: ClockRecord | SynopsisRecord, offset: int, effects: Effects) -> None:
        if isinstance(record, SynopsisRecord):
            self._take_synopsis(record)
        elif record.is_of_idle:
            self._take_clock_of_idle(record.party, record.clock)
            self._answer(offset, effects)
        elif self._clocks.take(record.party, record.clock):
            self._streams.drop_of_idle(record.party)
            self._answer(offset, effects)

    def _take_synopsis(self, record: SynopsisRecord) -> None:
        stream, piece, synopsis, is_of_idle = record
        if is_of_idle:
            self._clocks.idle.announce(stream, piece, synopsis)
            return
        self._streams.put(stream, piece, synopsis)
        if piece.tick <= self._clocks.settled:
            self._streams.forget(stream, self._clocks.settled)

    def _take_clock_of_idle(self, party: str, clock: PartyClock) -> None:
        idle = self._clocks.idle
        announced = idle.take(party, clock)
        # A clock that has read less than was published since comes from a worker that has lost the
        # party.
        if self._clocks.is_outdated(party, clock):
            idle.drop(party)
            announced = {}
        self._streams.drop_of_idle(party)
        for (stream, piece), synopsis in announced.items():
            self._streams.put_of_idle(stream, piece, synopsis)

    def _answer(self, offset: int, effects: Effects) -> None:
        """Answer for the ticks that have become due."""
        clocks, streams = self._clocks, self._streams
        settled = clocks.newly_settled()
        newest_of_idle = streams.newest_of_idle() if clocks.idle.reach else NO_TIME
        due = clocks.due(settled, newest_of_idle)
        emissions: list[OutputRecord] = [*effects.emissions]
        if due > clocks.answered:
            self._told = due
        silent = clocks.due_in_silence() if self._tells_silence else NO_TIME
        for after, until, with_idle in (
            (clocks.settled, settled, False),
            (max(settled, clocks.answered), due, True),
            (max(due, clocks.answered, self._told), silent, True),
        ):
            for tick, of_tick in streams.due(after, until, with_idle=with_idle):
                present = clocks.present(tick, with_idle=with_idle)
                emissions += self._answers.at(tick, of_tick, present, offset, provisional=with_idle)
        self._told = max(silent, self._told)
        effects.emissions = emissions
        clocks.answer_up_to(due)
        if clocks.settle_up_to(settled):
            streams.forget_all(settled)
