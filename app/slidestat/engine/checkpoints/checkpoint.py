"""The checkpoint from which a partition continues after a restart as if nothing had happened.

Whether a record is late, and at which record the watermark passed a tick, must not depend on where
a crash fell. So in addition to the key states the table keeps, for each partition, its clock at the
position from which it continues. It is written after the states and records of all that lies before
that position: when reading starts further back, because the commit that should have followed did
not happen, what lies between is settled and is passed over.

An offset belongs to a topic, which is identified by its id, as another may have the same name. Ids,
lost records and the clock's recent times came with version 2, what the topology passed over and
statistics left out with version 3, the places of statistics that were added later with version 4,
each of which is written where there is such; all are read for ever. A version passes over fields at
the end that it does not know: the position of emissions, and the mark of the last record read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple, replace

from slidestat.engine.records import NO_TIME, LogMark
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import LostRecords

# The places of synopses in a key's state, once statistics were added or removed while states were
# kept.
#
# States are written key by key, so those from before a change stay as they are until their keys
# have events. A synopsis keeps its place for ever: what is added comes behind the others, and what
# is removed leaves its place empty. So a state from before has the first places, and needs no
# rewriting.
#
# A statistic that was added takes in the events from `start` on, in records from `first_offset` on:
# every state had absorbed only what lies before, and no record before was judged by it.

_MOST = 255
_SEPARATOR = "; "


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """A synopsis's place: its meaning, "" if it is no longer kept; and of one that was added, from
    which time and which offset on.
    """

    meaning: str
    start: int | None = None
    first_offset: int = 0


Slots = tuple[Slot, ...]


def slots_of(meanings: Iterable[str]) -> Slots:
    """Return the slots of states that have had each synopsis from the beginning."""
    return tuple(map(Slot, meanings))


def split_meanings(text: str, known: Collection[str]) -> list[str]:
    """Split what was joined, where those that are `known` may have the separator in them."""
    found = []
    while text:
        fitting = (it for it in known if text == it or text.startswith(it + _SEPARATOR))
        meaning = max(fitting, key=len, default=text.partition(_SEPARATOR)[0])
        found.append(meaning)
        text = text[len(meaning) + len(_SEPARATOR) :]
    return found


def changed(before: Slots, meanings: Sequence[str], start: int, first_offset: int) -> Slots:
    """Return the slots when these meanings are kept from now on; `start` and `first_offset` are of
    the added ones.

    Raises SlidestatError where a state would have more than 255.
    """
    kept = [slot if slot.meaning in meanings else Slot("") for slot in before]
    there = {slot.meaning for slot in before}
    added = [Slot(it, start, first_offset) for it in meanings if it not in there]
    if len(kept) + len(added) > _MOST:
        raise SlidestatError(
            "Statistics of this topology were changed so often that a state has no place for more.",
            "Give the changed topology a new name, which counts from the start of its source.",
        )
    return *kept, *added


# Windows that may lack records which were gone before they were read.
#
# Such records lay between the last record that was read and the first one that is there again;
# nothing else is known of them. An event among them that would have been counted has a time of
#
#   first   the watermark before them: an older event would have been late;
#   last    the lateness, and as far as any record may jump, after the largest of: the clock so far,
#           the time of the first record behind them that is on time, and that record's timestamp +
#           `ahead`.
#
# For a record is refused whose event lies more than `ahead` after its timestamp, and timestamps do
# not run back by more than the lateness: never, where brokers give them; where producers do, as far
# as the declared lateness is right. Without a usable timestamp: a single event that lies further
# ahead of steady ones is refused (`clock.py`), and most of several would have made the first one
# behind them late. Late records do not count: they may be old ones that were sent again. Until one
# on time comes, `last` is not known, and every window that ends behind `first` may lack them.
#
# So the window [end - n, end) may lack them if end > first and end - n <= last. A window of a key's
# last events, and a total since its first, may reach back over any time: from then on it always
# may.


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """A number of records, with events from `first` to `last`, that were gone before reading."""

    records: int
    first: int
    last: int
    # Whether nothing has come since that was on time.
    is_open: bool = True

    def closed(self, last: int) -> "Loss":
        """Return the loss, closed by a record after it: no lost one is later than `last`."""
        return replace(self, last=max(self.last, last), is_open=False)

    def concerns(self, ends: npt.NDArray[np.int64], longest: int | None) -> npt.NDArray[np.bool_]:
        """Return bool[n]: whether windows of up to `longest`, None for any length, that end at
        these times may lack some of the records.
        """
        found: npt.NDArray[np.bool_] = ends > self.first
        if longest is not None and not self.is_open:
            found &= ends - longest <= self.last
        return found

    def as_record(self, record: type[LostRecords] = LostRecords) -> LostRecords:
        """Return the loss as emissions and answers have it, in the version `record`."""
        return record(self.records, self.first, None if self.is_open else self.last)


def joined(
    before: Loss | None, records: int, first: int, watermark: int, longest: int | None
) -> Loss:
    """Return a loss of `records` with events from `first` on; joined with the one `before` it, if a
    window of up to `longest` that ends after the watermark may still lack records of that one.
    """
    if before is None:
        return Loss(records, first, first)
    next_end = np.array([watermark + 1])
    if not before.concerns(next_end, longest)[0]:
        return Loss(records, first, first)
    return Loss(before.records + records, min(before.first, first), max(before.last, first))


# Version 1 has the largest event time, and the counters without `lost`; version 2 those up to it.
_WITHOUT_SLOTS, _VERSION = 3, 4
_LENGTH_2 = 5
# Version, checkpoint and meaning.
_SHORTEST = 3

# The key of a partition's checkpoint, in its table and in its changelog.
CHECKPOINT_KEY = b"p"

# The values of fields that an older declaration does not have.
_MEANT_IF_NOT_SAID = {"where": "none"}

# Fields that may be changed over an existing state, if the user asks for it.
_OF_STATISTICS = ("statistics", "computed")
# Entry of a stored meaning: the states in which one window alone, the whole span, is kept.
ONE_WINDOW = "one window"

# Replaces a topology's meaning while a replay resets its states, or a seed writes them.
BEING_RESET = {"reset": "under way"}
BEING_SEEDED = {"seed": "under way"}


class Counters(msgspec.Struct, frozen=True, array_like=True):
    """Records read and their outcomes, read = counted + dead + late + passed over by the topology's
    condition; those that were gone before they were read; and, of the counted ones, those that each
    statistic left out, by its label, as they lack a field that it reads.
    """

    read: int = 0
    counted: int = 0
    dead: int = 0
    late: int = 0
    lost: int = 0
    passed_over: int = 0
    left_out: dict[str, int] = {}

    def since(self, before: "Counters") -> "Counters":
        """Return the counts since `before`."""
        return self._with(before, -1)

    def __add__(self, other: "Counters") -> "Counters":
        return self._with(other, 1)

    def at_least(self, least: "Counters") -> "Counters":
        """Return the counts, none of them below that of `least`."""
        pairs = zip(astuple(self)[:-1], astuple(least)[:-1], strict=True)
        _, counted, dead, late, lost, passed_over = (max(pair) for pair in pairs)
        left_out = {
            label: max(self.left_out.get(label, 0), least.left_out.get(label, 0))
            for label in self.left_out | least.left_out
        }
        read = counted + dead + late + passed_over
        return Counters(read, counted, dead, late, lost, passed_over, left_out)

    def _with(self, other: "Counters", sign: int) -> "Counters":
        pairs = zip(astuple(self)[:-1], astuple(other)[:-1], strict=True)
        read, counted, dead, late, lost, passed_over = (own + sign * more for own, more in pairs)
        left_out = with_counts(self.left_out, other.left_out, sign)
        return Counters(read, counted, dead, late, lost, passed_over, left_out)


def with_counts(
    counts: Mapping[str, int], more: Mapping[str, int], sign: int = 1
) -> dict[str, int]:
    """Return counts by name with `more` added, or subtracted if `sign` is -1, without zeros."""
    sums = {name: counts.get(name, 0) + sign * more.get(name, 0) for name in (*counts, *more)}
    return {name: count for name, count in sums.items() if count}


class Recent(msgspec.Struct, frozen=True, array_like=True):
    """The state of a partition's clock (`clock.py`): its front, and of the last readable
    records, oldest first, their times and how far each brought the front on.
    """

    front: int = NO_TIME
    times: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """A partition just before the record at `next_offset`.

    Every record before it is settled: in its key's state, a dead letter, late, or lost. `max_time`
    is the event time reached by then; `topic_id` is that of the source, "" where it is not known;
    `loss` the newest that windows may lack; `recent` are the recent times of the clock, from which
    it continues.
    """

    next_offset: int
    max_time: int = NO_TIME
    counters: Counters = Counters()
    topic_id: str = ""
    loss: Loss | None = None
    recent: Recent = Recent()


def claims(checkpoint: Checkpoint, topic_id: str) -> bool:
    """Return whether a checkpoint names no topic and would take this id for its own."""
    return bool(topic_id) and not checkpoint.topic_id


def of_topic(checkpoint: Checkpoint, topic_id: str) -> Checkpoint:
    """Return the checkpoint, with this topic id if it names none."""
    return replace(checkpoint, topic_id=topic_id) if claims(checkpoint, topic_id) else checkpoint


class _Versioned(msgspec.Struct, array_like=True):
    version: int


class _Stored(msgspec.Struct, array_like=True):
    version: int
    checkpoint: Checkpoint
    meaning: dict[str, str]


class _StoredWhole(_Stored, array_like=True):
    """A stored checkpoint of any version. It may have the position up to which a partition has
    emitted, if that is beyond its states (a version that does not know it reads the rest, and emits
    some records again), the places of statistics, where some were added or removed, and the mark of
    the last record read (a version that does not know it compares nothing).
    """

    emitted: Checkpoint | None = None
    slots: Slots = ()
    mark: LogMark | None = None


_version_of = msgspec.msgpack.Decoder(_Versioned)
_decoder = msgspec.msgpack.Decoder(_Stored)
_whole_decoder = msgspec.msgpack.Decoder(_StoredWhole)
_GARBAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode_checkpoint(
    checkpoint: Checkpoint,
    meaning: dict[str, str],
    emitted: Checkpoint | None = None,
    slots: Slots = (),
    mark: LogMark | None = None,
) -> bytes:
    """Return the bytes that the table and the changelog keep. `meaning` is a topology's
    `state_label`, `emitted` the position up to which everything has been emitted, if it is beyond
    the checkpoint, `slots` the places of synopses in states, if any was changed, and `mark` that of
    the last record read, if it is known.
    """
    stored = _stored_fields(checkpoint, meaning, emitted, slots)
    if mark is not None:
        stored += [None, ()][len(stored) - _SHORTEST :]
        stored.append(mark)
    return msgspec.msgpack.encode(stored)


def _stored_fields(
    checkpoint: Checkpoint, meaning: dict[str, str], emitted: Checkpoint | None, slots: Slots
) -> list[Any]:
    """Return what is stored without a mark, in the first version that knows all of it."""
    positions = [checkpoint]
    if emitted is not None and emitted.next_offset > checkpoint.next_offset:
        positions.append(emitted)
    if slots:
        ahead = positions[1] if len(positions) > 1 else None
        return [_VERSION, checkpoint, meaning, ahead, slots]
    if any(p.counters.left_out or p.counters.passed_over for p in positions):
        return [_WITHOUT_SLOTS, positions[0], meaning, *positions[1:]]
    first, *others = map(_in_version_2, positions)
    return [2, first, meaning, *others]


def _in_version_2(checkpoint: Checkpoint) -> list[Any]:
    """Return the checkpoint in version 2, for versions of the code that know no later one."""
    position: list[Any] = list(astuple(checkpoint))
    place = Checkpoint.__struct_fields__.index("counters")
    position[place] = astuple(checkpoint.counters)[:_LENGTH_2]
    return position


def decode_emitted(stored: bytes | None, checkpoint: Checkpoint) -> Checkpoint:
    """Return up to where the partition of a `checkpoint` has emitted, and sent dead letters."""
    emitted = None if stored is None else _decoded(stored).emitted
    return emitted or checkpoint


def stored_counters(stored: bytes) -> Counters | None:
    """Return what became of the records up to where a partition has emitted, by its stored
    checkpoint, whatever its states mean; None if it cannot be read.
    """
    try:
        found = _whole_decoder.decode(stored)
    except _GARBAGE:
        return None
    return (found.emitted or found.checkpoint).counters


def stored_meaning(stored: bytes) -> dict[str, str]:
    """Return the meaning of states that a stored checkpoint names; empty if it cannot be read."""
    try:
        return _decoder.decode(stored).meaning
    except _GARBAGE:
        return {}


def stored_slots(stored: bytes | None) -> Slots:
    """Return the places of synopses in the states of a checkpoint; () if none ever changed."""
    return () if stored is None else _decoded(stored).slots


def stored_mark(stored: bytes | None) -> LogMark | None:
    """Return the mark of the last record read in a stored checkpoint; None where it has none."""
    return None if stored is None else _decoded(stored).mark


def _decoded(stored: bytes) -> _StoredWhole:
    """Read a stored checkpoint; raises SlidestatError for bytes that are not one."""
    try:
        version = _version_of.decode(stored).version
        if version > _VERSION:
            raise SlidestatError(
                f"A stored partition checkpoint has version {version}.",
                "Run the version that wrote it, or reset the topology's state.",
            )
        return _whole_decoder.decode(stored)
    except _GARBAGE as error:
        raise SlidestatError(
            "A stored partition checkpoint is damaged.",
            "Delete the worker's data folder; it is restored from the changelog.",
        ) from error


def decode_checkpoint(
    stored: bytes | None, meaning: dict[str, str], *, statistics_change: bool = False
) -> Checkpoint:
    """Return the stored checkpoint; that of a partition never seen if there is none.

    Raises SlidestatError for bytes that are not one, and for one of states with another meaning,
    but for that of statistics where they may change.
    """
    if stored is None:
        return Checkpoint(next_offset=0)
    decoded = _decoded(stored)
    if decoded.meaning == BEING_RESET:
        raise SlidestatError(
            "The stored state is only partly reset: a replay was interrupted.",
            "Run the same `slidestat replay` again.",
        )
    if decoded.meaning == BEING_SEEDED:
        raise SlidestatError(
            "The stored state is only partly seeded: a seed was interrupted, or is under way.",
            "Wait for it, or run the same `slidestat seed` again.",
        )
    before_all = {**_MEANT_IF_NOT_SAID, **decoded.meaning}
    kept_for_one = before_all.get(ONE_WINDOW, "")
    if kept_for_one and kept_for_one != meaning.get(ONE_WINDOW):
        raise SlidestatError(
            f"The stored {kept_for_one} are kept for one window, the whole span, and the topology"
            " now has more windows or other fields.",
            "Go back to one window as long as the span, and to statistics that all read this"
            " field, or give the changed topology a new name, which counts from the start of its"
            " source.",
        )
    for name, now in {**_MEANT_IF_NOT_SAID, **meaning}.items():
        if name == ONE_WINDOW:
            continue  # States of all windows continue as those of one.
        before = before_all.get(name)
        if before != now and not (statistics_change and name in _OF_STATISTICS):
            raise SlidestatError(
                "The stored state was made with another topology:"
                f" {_difference(name, before or '', now)}.",
                _advice_on(name, before or "", now),
            )
    return decoded.checkpoint


def _difference(field: str, before: str, now: str) -> str:
    """Return what has changed: of statistics, which were added and which were removed."""
    if field == "statistics" and before:
        were, are = before.split("; "), now.split("; ")
        lists = {
            "added": [text for text in are if text not in were],
            "removed": [text for text in were if text not in are],
        }
        parts = [f"{what} {' and '.join(texts)}" for what, texts in lists.items() if texts]
        if parts:
            return f"{field} are changed: {'; '.join(parts)}"
    return f"{field} was {before or 'not there'}, and is {now}"


def _advice_on(field: str, before: str, now: str) -> str:
    rename = "Give the changed topology a new name, which counts from the start of its source"
    if "quantiles, epsilon" in before and "quantiles by value" in now:
        # Before 0.1.0 the kind `quantile` meant today's `rank_quantile`.
        return f'{rename}, or go on by rank: kind = "rank_quantile", name = "quantile".'
    if "frequent items, epsilon" in before and "frequent items in pairs" in now:
        # Before 0.1.0 the items of `top` were kept in blocks.
        return f"{rename}: top items are kept in a tenth of the bytes now."
    if field in _OF_STATISTICS:
        return (
            f"{rename}; or change it back. A worker, but no referee and none that publishes for"
            " one, may go on with --change-statistics: statistics that are new begin now, and say"
            " since when they are counted."
        )
    return (
        f"{rename}, or change it back. To count a topology anew under its name, stop its"
        " workers and run `slidestat replay` with it."
    )


# The states and the checkpoint that a flush makes durable.


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The states that must be durable before reading may start again at `next_offset`.

    The state of a key is None where it is to be deleted, as is what is noted in `told` of the
    provisional alerts of a key.
    """

    states: dict[str, bytes | None]
    checkpoint: bytes
    next_offset: int
    told: Mapping[str, bytes | None] = field(default_factory=dict)
