"""One partition of a referee's source: synopses and clocks of parties in, answers out.

Pure, as `partition.py` is, and durable in the same way. The result is a function of the records'
order alone:

1. a synopsis is kept, by stream, statistic, party and tick; what is none is a dead letter;
2. a clock that goes on may settle ticks: those that all parties have come to (or that the last of
   them is more than `correctable` behind), which are answered once and for all; then ticks that are
   more than `patience` behind the furthest party are answered without those that have not come;
3. what no later tick needs is forgotten;
4. a party that is idle says what it would publish if nothing came. With that it is present in
   answers that are given without waiting for it, as provisional ones, until its next clock.

The final answers of streams do not depend on how the parties' records mix: a tick's synopses come
before the clock that settles it, and are what they are. Provisional ones do.

What survives a crash. A flush writes the clocks and how far ticks are settled first, in one row,
then synopses, then what is forgotten, then the checkpoint. So in a half-written changelog the first
row may be ahead of the checkpoint: records read again bring their synopses, and clocks that are
known move nothing; those that settle more ticks come after all synopses that these need. What idle
parties would publish is not stored: they say it again at the next tick of the clock on the wall.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from slidestat.declare.referee import Referee
from slidestat.engine.checkpoints.checkpoint import (
    NO_TIME,
    Checkpoint,
    claims,
    decode_checkpoint,
    encode_checkpoint,
    of_topic,
)
from slidestat.engine.checkpoints.ledger import COUNTED, DEAD, Ledger
from slidestat.engine.checkpoints.snapshot import Snapshot
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission import OutputRecord
from slidestat.engine.emissions.emission_codec import EmissionWriter, JsonCodec
from slidestat.engine.intake.letters import Letter
from slidestat.engine.keys.key_cache import PartitionStore
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.referee.idle_parties import IdleParties
from slidestat.referee.live_referee import RefereeView
from slidestat.referee.party_synopses import PartySynopses, Piece
from slidestat.referee.referee_answers import Present, RefereeAnswers
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.sequence import decode_clock, kinds
from slidestat.schemas.synopsis import (
    ClockKey,
    PartyClock,
    ProvisionalKey,
    SynopsisKey,
    decode_key,
    party_name,
)
from slidestat.synopses.core.errors import SynopsisError

_CLOCKS = "clocks"
_MOST_PARTIES = 100_000


class _Clocks(msgspec.Struct):
    """How far each party has come, by `offsets` of its source, and the ticks: `settled` up to one,
    `answered` up to one.
    """

    of: dict[str, int] = msgspec.field(default_factory=dict)
    offsets: dict[str, int] = msgspec.field(default_factory=dict)
    parties: int = 0
    settled: int = NO_TIME
    answered: int = NO_TIME


class _Place(NamedTuple):
    """The row of a synopsis."""

    stream: str
    statistic: str
    party: str
    tick: int


_places = msgspec.json.Decoder(_Place)
_clocks = msgspec.msgpack.Decoder(_Clocks)


class _RefusedError(Exception):
    """A record that is no synopsis and no clock of this referee's topology."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class RefereeProcessor:
    """Answers over all parties, for the streams of one partition of the topic of synopses."""

    def __init__(
        self,
        referee: Referee,
        topic: str,
        partition: int,
        store: PartitionStore,
        codec: EmissionWriter | None = None,
        topic_id: str = "",
    ) -> None:
        """`topic_id` as of a `PartitionProcessor`."""
        self._topology = referee.of
        self._absent_party = kinds(is_sequence=referee.is_sequence).absent_party
        self._topic = topic
        self._partition = partition
        self._patience = referee.patience_ms
        self._correctable = referee.correctable_ms
        self._meaning = referee.state_meaning
        self._answers = RefereeAnswers(referee, partition, codec or JsonCodec())
        stored = store.checkpoint()
        self._has_checkpoint = stored is not None
        self._checkpoint = decode_checkpoint(stored, self._meaning)
        self._claims_source = self._has_checkpoint and claims(self._checkpoint, topic_id)
        self._checkpoint = of_topic(self._checkpoint, topic_id)
        self._next_offset = self._checkpoint.next_offset
        self._ledger = Ledger(self._checkpoint)
        self._clocks = _Clocks()
        self._idle = IdleParties()
        self._streams: dict[str, PartySynopses] = {}
        self._changed: dict[str, bytes | None] = {}
        self._clocks_changed = False
        self._restore(store)

    @property
    def next_offset(self) -> int:
        """The first offset not yet read."""
        return self._next_offset

    @property
    def has_begun(self) -> bool:
        """Whether anything was ever read."""
        return self._has_checkpoint or self._next_offset > 0

    @property
    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint taken."""
        return self._checkpoint

    @property
    def reached(self) -> Checkpoint:
        """Where reading has come."""
        return self._ledger.reached

    @property
    def unwritten_bytes(self) -> int:
        """None that could be written earlier than with the next flush."""
        return 0

    @property
    def unwritten_records(self) -> int:
        """As `unwritten_bytes`."""
        return 0

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
                self._take(key, value, timestamp, offset, effects)
            except _RefusedError as refused:
                outcomes[row] = DEAD
                effects.dead_letters.append(
                    Letter(offset, key, value, timestamp, refused.reason, str(refused))
                )
            max_times[row] = max(self._clocks.of.values(), default=NO_TIME)
        self._ledger.append(batch.offsets, max_times, outcomes)
        self._next_offset = int(batch.offsets[-1]) + 1
        return effects

    def steps(self, batch: RecordBatch) -> Iterator[Effects]:
        """Take in a batch, in a single step."""
        yield self.process(batch)

    def provisional(self, _now: int) -> Iterator[list[OutputRecord]]:
        """None: what is answered before all parties have come goes by event time."""
        return iter(())

    def view(self) -> RefereeView:
        """Its streams, for questions: at the newest tick that is answered for."""
        every = self._topology.every_ms
        tick = max(self._clocks.settled, self._clocks.answered) // every * every
        tick = max(tick, NO_TIME)
        present = self._present(tick, with_idle=tick > self._clocks.settled)
        return RefereeView(self._partition, tick, self._next_offset, self._streams, present)

    def snapshot(self, _slots: Iterable[int] = ()) -> Snapshot | None:
        """Return the changes since the last snapshot, or None, as a `PartitionProcessor` does, but
        all of them: a synopsis is written once and for all, and gains nothing by waiting.
        """
        is_known = self._has_checkpoint and self._next_offset <= self._checkpoint.next_offset
        if is_known and not self._claims_source:
            return None
        self._has_checkpoint, self._claims_source = True, False
        self._checkpoint = self._ledger.settle(self._next_offset)
        states: dict[str, bytes | None] = {}
        if self._clocks_changed:
            states[_CLOCKS] = msgspec.msgpack.encode(self._clocks)
        changed = self._changed.items()
        states |= {place: data for place, data in changed if data is not None}
        states |= {place: None for place, data in changed if data is None}
        self._changed, self._clocks_changed = {}, False
        return Snapshot(
            states, encode_checkpoint(self._checkpoint, self._meaning), self._next_offset
        )

    def written(self) -> None:
        """The last snapshot is durable."""

    def _restore(self, store: PartitionStore) -> None:
        try:
            for place, data in store.scan():
                if place == _CLOCKS:
                    self._clocks = _clocks.decode(data)
                    continue
                at = _places.decode(place)
                self._of(at.stream).put(Piece(at.statistic, at.party, at.tick), data)
        except msgspec.DecodeError as error:
            raise SlidestatError(
                "A stored synopsis of a party is damaged.", "Delete the worker's data folder."
            ) from error
        # A flush that broke off may have written the clocks, and not that what they settle goes.
        for stream in list(self._streams):
            self._forget(stream)

    def _of(self, stream: str) -> PartySynopses:
        found = self._streams.get(stream)
        if found is None:
            topology = self._topology
            found = PartySynopses(topology.every_ms, topology.span_length.length)
            self._streams[stream] = found
        return found

    def _take(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        offset: int,
        effects: Effects,
    ) -> None:
        if key is None or value is None:
            raise _RefusedError(Reason.NULL_RECORD, "the record has no key or no value")
        try:
            whose = decode_key(key)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _RefusedError(Reason.BAD_KEY, str(error)) from None
        is_of_idle = isinstance(whose, ProvisionalKey)
        whose = whose.of if isinstance(whose, ProvisionalKey) else whose
        if whose.topology != self._topology.name:
            raise _RefusedError(Reason.BAD_KEY, f"of the topology {whose.topology!r}")
        if not self._is_party(whose.party):
            raise _RefusedError(Reason.BAD_KEY, f"{whose.party!r} is no partition of the source")
        if isinstance(whose, ClockKey):
            clock = self._clock(value)
            if is_of_idle:
                self._take_clock_of_idle(whose.party, clock)
            elif not self._take_clock(whose.party, clock):
                return
            self._answer(offset, effects)
            return
        self._check_synopsis(whose, value, timestamp)
        piece = Piece(whose.statistic, whose.party, timestamp)
        if is_of_idle:
            self._idle.announce(whose.key, piece, value)
        else:
            self._take_synopsis(whose.key, piece, value)

    def _is_party(self, name: str) -> bool:
        topic, _, partition = name.rpartition("/")
        return (
            topic == self._topology.source
            and partition.isdecimal()
            and party_name(topic, int(partition)) == name
        )

    def _check_synopsis(self, whose: SynopsisKey, value: bytes, tick: int) -> None:
        if not self._answers.knows(whose.statistic):
            raise _RefusedError(Reason.BAD_KEY, f"no statistic is called {whose.statistic!r}")
        self._check_tick(tick)
        try:
            self._answers.check(whose.statistic, value)
        except SynopsisError as error:
            raise _RefusedError(Reason.BAD_SYNOPSIS, str(error)) from None

    def _take_synopsis(self, stream: str, piece: Piece, value: bytes) -> None:
        self._of(stream).put(piece, value)
        self._changed[_row(_Place(stream, *piece))] = value
        if piece.tick <= self._clocks.settled:
            self._forget(stream)

    def _check_tick(self, tick: int) -> None:
        times = self._topology.times
        if not times.earliest <= tick < times.latest + self._topology.every_ms:
            raise _RefusedError(Reason.BAD_TIME, f"{tick} is no tick")

    def _clock(self, value: bytes) -> PartyClock:
        try:
            clock = decode_clock(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _RefusedError(Reason.BAD_SYNOPSIS, str(error)) from None
        if clock.parties > _MOST_PARTIES:
            raise _RefusedError(Reason.BAD_SYNOPSIS, f"{clock.parties} parties")
        self._check_tick(clock.tick_ms)
        return clock

    def _take_clock(self, party: str, clock: PartyClock) -> bool:
        """Whether it goes on."""
        clocks = self._clocks
        if clock.tick_ms <= clocks.of.get(party, NO_TIME):
            return False
        clocks.of[party] = clock.tick_ms
        clocks.offsets[party] = clock.source_offset
        clocks.parties = max(clocks.parties, clock.parties)
        self._clocks_changed = True
        self._idle.drop(party)
        self._drop_of_idle(party)
        return True

    def _take_clock_of_idle(self, party: str, clock: PartyClock) -> None:
        announced = self._idle.take(party, clock)
        # One that has read less than was published since is of a worker that has lost the party.
        if clock.source_offset < self._clocks.offsets.get(party, -1):
            self._idle.drop(party)
            announced = {}
        self._drop_of_idle(party)
        for (stream, piece), synopsis in announced.items():
            self._of(stream).put_of_idle(piece, synopsis)

    def _drop_of_idle(self, party: str) -> None:
        for stream, synopses in list(self._streams.items()):
            synopses.drop_of_idle(party)
            if not synopses:
                del self._streams[stream]

    def _answer(self, offset: int, effects: Effects) -> None:
        """Answer for the ticks that have become due."""
        clocks = self._clocks
        furthest = max(clocks.of.values(), default=NO_TIME)
        nearest = min(
            (clocks.of.get(name, NO_TIME) for name in self._names(clocks.parties)), default=NO_TIME
        )
        settled = max(clocks.settled, nearest, furthest - self._correctable)
        due = max(settled, furthest - self._patience, self._due_with_idle(furthest))
        for tick, streams in self._due(clocks.settled, settled, with_idle=False):
            effects.emissions += self._answers.at(
                tick, streams, self._present(tick, with_idle=False), offset, provisional=False
            )
        for tick, streams in self._due(max(settled, clocks.answered), due, with_idle=True):
            effects.emissions += self._answers.at(
                tick, streams, self._present(tick, with_idle=True), offset, provisional=True
            )
        if due > clocks.answered:
            clocks.answered = due
            self._clocks_changed = True
        if settled > clocks.settled:
            clocks.settled = settled
            for stream in list(self._streams):
                self._forget(stream)

    def _due_with_idle(self, furthest: int) -> int:
        """Up to where every party that is not idle has come, but no further than something was
        published, or would be: only that is sure to be answered for again.
        """
        if not self._idle.reach:
            return NO_TIME
        ahead = (synopses.newest_of_idle() for synopses in self._streams.values())
        newest = max((tick for tick in ahead if tick is not None), default=NO_TIME)
        came = self._came(with_idle=True)
        names = self._names(max(self._clocks.parties, self._idle.parties))
        return min(max(furthest, newest), *(came.get(name, NO_TIME) for name in names))

    def _came(self, *, with_idle: bool) -> dict[str, int]:
        came = self._clocks.of
        if not with_idle:
            return came
        return came | {p: max(tick, came.get(p, NO_TIME)) for p, tick in self._idle.reach.items()}

    def _names(self, parties: int) -> list[str]:
        return [party_name(self._topology.source, number) for number in range(parties)]

    def _due(
        self, after: int, until: int, *, with_idle: bool
    ) -> Iterator[tuple[int, dict[str, PartySynopses]]]:
        """The ticks in (after, until], rising, each with the streams to answer for."""
        if until <= after:
            return
        at: dict[int, dict[str, PartySynopses]] = {}
        for name, synopses in self._streams.items():
            for tick in synopses.ticks(after, until, with_idle=with_idle):
                at.setdefault(tick, {})[name] = synopses
        yield from sorted(at.items(), key=lambda item: item[0])

    def _present(self, tick: int, *, with_idle: bool) -> Present:
        came = self._came(with_idle=with_idle)
        names = self._names(max(self._clocks.parties, self._idle.parties if with_idle else 0))
        return Present(
            [name for name in names if came.get(name, NO_TIME) >= tick],
            [
                self._absent_party(name, came.get(name))
                for name in names
                if came.get(name, NO_TIME) < tick
            ],
        )

    def _forget(self, stream: str) -> None:
        """Drop what no tick that is not settled needs."""
        synopses = self._streams[stream]
        for piece in synopses.settle(self._clocks.settled):
            self._changed[_row(_Place(stream, *piece))] = None
        if not synopses:
            del self._streams[stream]


def _row(place: _Place) -> str:
    return msgspec.json.encode(place).decode()
