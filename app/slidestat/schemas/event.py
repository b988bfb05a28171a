"""An event: one JSON object a Kafka record, with a key, an event time and what statistics read.

    {"key": "ATL", "time": 978307200000, "value": 1587}

This is the plainest one. The fields, whether they lie in nested objects, and how times are written
are a topology's choice; fields that it does not read are ignored.
"""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from slidestat.schemas import doc

# 1980-01-01 and 2100-01-01, in milliseconds since the epoch. Every date of that range written in
# seconds lies below it when read as milliseconds, and every one in microseconds above it: a
# producer with the wrong unit is found out at once instead of moving the watermark by centuries.
EARLIEST_TIME_MS = 315_532_800_000
LATEST_TIME_MS = 4_102_444_800_000


def is_in_seconds(time_ms: int) -> bool:
    """Return whether a time is one of 1970 in milliseconds, and from 1980 to 2100 in seconds."""
    return 0 < time_ms < EARLIEST_TIME_MS <= 1_000 * time_ms < LATEST_TIME_MS


def remark_on_seconds(time_ms: int) -> str:
    """Return a remark on a time in milliseconds that seems to be in seconds; "" for any other."""
    if not is_in_seconds(time_ms):
        return ""
    return f", {_utc(time_ms / 1_000)}: it seems to be in seconds, {_utc(time_ms)}"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


# Characters. Keys travel in every output record and name the state: a bound keeps both small.
MAX_KEY_LENGTH = 256


class Event(msgspec.Struct, frozen=True):
    """One event, under the default field names, with its time in the default format."""

    key: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY_LENGTH)]
        | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
        doc("what the statistics are kept for; a whole number is the text of its digits"),
    ]
    time: Annotated[
        int,
        msgspec.Meta(
            ge=EARLIEST_TIME_MS,
            lt=LATEST_TIME_MS,
            description="event time, milliseconds since 1970-01-01T00:00:00Z; "
            "from 1980-01-01 (inclusive) to 2100-01-01 (exclusive)",
        ),
    ]
    value: Annotated[float, doc("what is summed; not negative for a sum")]
