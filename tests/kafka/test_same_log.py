"""Where two logs part is found by the records of the newer one, whatever was deleted of it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from hypothesis import given, settings, strategies as st

from slidestat.engine.records import UNKNOWN_EPOCH, LogMark
from slidestat.kafka.read import same_log
from slidestat.kafka.read.same_log import first_difference, mark_of

# A record: the epoch of the leader that appended it, and its value; None for one that was deleted.
Log = list[tuple[int, bytes] | None]


def message(offset: int, epoch: int, value: bytes) -> Any:
    return SimpleNamespace(
        offset=lambda: offset,
        leader_epoch=lambda: epoch,
        timestamp=lambda: (1, 7),
        key=lambda: b"k",
        value=lambda: value,
    )


def found(log: Log, low: int, mark: LogMark) -> int | None:
    """What is said of a log whose first offset is `low`."""

    def scanned(_consumer: object, _topic: str, offsets: Any, **_: Any) -> Iterator[Any]:
        ((_, (start, end)),) = offsets.items()
        for offset in range(max(start, low), end):
            if (record := log[offset]) is not None:
                yield message(offset, *record)

    with (
        mock.patch.object(same_log, "open_scanner", return_value=mock.Mock()) as opened,
        mock.patch.object(same_log, "offset_bounds", return_value=(low, len(log))),
        mock.patch.object(same_log, "scan_ranges", scanned),
    ):
        difference = first_difference("nowhere", "t", 0, mark)
        opened.return_value.close.assert_called_once()
    return difference


@st.composite
def logs(draw: st.DrawFn) -> tuple[Log, Log, int]:
    """What was read of a log, what it is now, and the first offset at which they differ. A leader
    that appends after others were lost has a larger epoch than all that were read.
    """
    steps = draw(st.lists(st.integers(0, 1), min_size=1, max_size=30))
    read: Log = [(sum(steps[: at + 1]), b"%d" % at) for at in range(len(steps))]
    kept = draw(st.integers(0, len(read)))
    newer = draw(st.integers(0, 40)) if kept < len(read) else 0
    epoch = sum(steps) + 1
    now: Log = [*read[:kept], *((epoch, b"new %d" % at) for at in range(newer))]
    return read, now, kept


@given(logs(), st.data())
@settings(max_examples=300)
def test_the_first_offset_that_differs_is_found(parted: tuple[Log, Log, int], data: Any) -> None:
    """By the mark of the last record that was read; none if all that was read is there."""
    read, now, kept = parted
    last = read[-1]
    assert last is not None
    mark = mark_of(message(len(read) - 1, *last))
    low = data.draw(st.integers(0, len(now)), label="low")
    expected = None if kept == len(read) or mark.offset < low else max(kept, low)
    assert found(now, low, mark) == expected


@given(logs(), st.data())
@settings(max_examples=200)
def test_what_is_deleted_is_no_difference(parted: tuple[Log, Log, int], data: Any) -> None:
    """Where the marked record was compacted away, nothing is known; else what is told is the first
    offset of another record that is there, or of the gap before it.
    """
    read, now, kept = parted
    gaps = data.draw(st.sets(st.integers(0, max(0, len(now) - 1))), label="deleted")
    holes: Log = [None if at in gaps else record for at, record in enumerate(now)]
    last = read[-1]
    assert last is not None
    mark = mark_of(message(len(read) - 1, *last))
    said = found(holes, 0, mark)
    if kept == len(read) or (mark.offset < len(now) and mark.offset in gaps):
        assert said is None
        return
    assert said is not None
    first = next((at for at in range(kept, len(now)) if at not in gaps), len(now))
    assert gaps.issuperset(range(said, first))


@given(logs())
def test_an_epoch_that_is_not_known_tells_nothing(parted: tuple[Log, Log, int]) -> None:
    """The record at the mark's offset, or the end, is the first that is known to differ."""
    read, now, kept = parted
    last = read[-1]
    assert last is not None
    mark = mark_of(message(len(read) - 1, UNKNOWN_EPOCH, last[1]))
    expected = None if kept == len(read) else min(mark.offset, len(now))
    assert found(now, 0, mark) == expected
