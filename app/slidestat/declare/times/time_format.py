"""Formats of event times in records.

A format is declared, never guessed. The times of 1980 to 2100 in seconds, milliseconds,
microseconds and nanoseconds are four ranges that do not touch: events in another unit than their
topology's make dead letters. Numbers may have a fraction, and may be written as texts.

A global sequence number is a clock, too: one that advances by one with each event of a stream that
is split over partitions. Then everything about milliseconds applies to numbers: lengths are numbers
of events, and windows are those of the last n of the whole. Numbers lie below all times in
milliseconds, so that wherever one of the two is shown it is plain which it is; they cannot be
distinguished from times in seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TimeFormat:
    """A way to write times: `text` for people, `type` what msgspec reads, beside texts of numbers,
    of which `per_second` are a second; `written` is a millisecond as JSON has it. An event's time
    is from `earliest` on and before `latest`. Where `unit` is events, milliseconds are numbers of a
    sequence; `is_text` is true of times that are no numbers, and `needs_zone` of some of them.
    """

    text: str
    type: object
    written: Callable[[int], object]
    per_second: int = 1_000
    earliest: int = EARLIEST_TIME_MS
    latest: int = LATEST_TIME_MS
    unit: str = "ms"
    is_text: bool = False
    needs_zone: bool = False

    @property
    def is_sequence(self) -> bool:
        """Return whether times are numbers of a global sequence."""
        return self.unit == "events"


def _numbers(text: str, per_second: int) -> TimeFormat:
    # Whole numbers: a limit of a double may be one more.
    least, most = (ms * per_second // 1_000 for ms in (EARLIEST_TIME_MS, LATEST_TIME_MS))
    limits = Meta(ge=least, lt=most)
    kind = Annotated[int, limits] | Annotated[float, limits]
    return TimeFormat(
        text,
        kind,
        (lambda ms: ms / 1_000) if per_second == 1 else lambda ms: ms * (per_second // 1_000),
        per_second,
    )


TIME_FORMATS = {
    "ms": _numbers("milliseconds", 1_000),
    "s": _numbers("seconds", 1),
    "us": _numbers("microseconds", 1_000_000),
    "ns": _numbers("nanoseconds", 1_000_000_000),
    "iso8601": TimeFormat(
        "ISO 8601 text with a time zone",
        str,
        lambda ms: (_EPOCH + timedelta(milliseconds=ms)).isoformat(),
        is_text=True,
        needs_zone=True,
    ),
    "iso8601-utc": TimeFormat(
        "ISO 8601 text, in UTC where it has no time zone",
        str,
        lambda ms: (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None).isoformat(),
        is_text=True,
    ),
    "sequence": TimeFormat(
        "numbers of a global sequence",
        Annotated[int, Meta(ge=0, lt=EARLIEST_TIME_MS)],
        lambda number: number,
        earliest=0,
        latest=EARLIEST_TIME_MS,
        unit="events",
    ),
}
