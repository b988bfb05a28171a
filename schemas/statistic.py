"""A statistic: what one window of one key came to, with bounds that hold.

One Kafka record for each (topology, statistic, key, window length, window end). The Kafka key is
those five, so a record that is sent again replaces itself under compaction or an upsert sink; the
Kafka timestamp is the window's end.
"""

from typing import Annotated

import msgspec
from msgspec import Meta


class Statistic(msgspec.Struct, frozen=True):
    """The figure over the events with window_start_ms <= time < window_end_ms.

    lower <= exact <= upper, and |estimate - exact| <= relative_error * exact + absolute_error.
    """

    topology: Annotated[str, Meta(description="name of the topology that computed it")]
    statistic: Annotated[str, Meta(description="what was computed: count, sum")]
    key: Annotated[str, Meta(description="the events' key")]
    window_start_ms: Annotated[int, Meta(description="first millisecond inside the window")]
    window_end_ms: Annotated[int, Meta(description="first millisecond after the window")]
    window_ms: Annotated[int, Meta(description="length n of the window, n <= the span N kept")]
    estimate: Annotated[float, Meta(description="the estimate")]
    lower: Annotated[float, Meta(description="the exact figure is not below this")]
    upper: Annotated[float, Meta(description="the exact figure is not above this")]
    epsilon: Annotated[float, Meta(description="the relative error that was asked for")]
    relative_error: Annotated[float, Meta(description="the relative error promised, <= epsilon")]
    absolute_error: Annotated[
        float, Meta(description="what the rounding to the statistic's decimals may add")
    ]
    source_topic: Annotated[str, Meta(description="topic of the events")]
    source_partition: Annotated[int, Meta(description="partition of the events")]
    source_offset: Annotated[
        int, Meta(description="offset of the record that moved the watermark past the window's end")
    ]


def statistic_key(
    topology: str, statistic: str, key: str, window_ms: int, window_end_ms: int
) -> bytes:
    """The Kafka key of a statistic: a JSON array, so that no name needs escaping by hand."""
    return msgspec.json.encode((topology, statistic, key, window_ms, window_end_ms))
