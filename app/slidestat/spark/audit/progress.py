"""The progress of an audit, so that the next one can continue from there."""

from collections.abc import Iterable, Mapping

import msgspec
from pyspark.sql import Column, functions as f

from slidestat.spark.audit.declaration import Declaration


class Progress(msgspec.Struct, frozen=True):
    """The progress of an audit, each by partition: of the source the last offset that emissions
    rested on (`reached`), the first one that later windows have events of (`needed`), and the tick
    up to which all is judged; of the topic of statistics the last offset that was judged.

    `parts` are the folders that its figures are in. Later windows may go back `reach_ms`.
    """

    parts: int
    sample: float
    reach_ms: int
    reached: dict[int, int]
    needed: dict[int, int]
    until: dict[int, int]
    judged: dict[int, int]


def reach_of(declarations: Iterable[Declaration]) -> int | None:
    """Return the ms before a tick whose events decide what is emitted; None for no limit."""
    reach = 0
    for one in declarations:
        if one.of_events or any(s.is_landmark or s.kind == "age_of_last" for s in one.statistics):
            return None
        # A key is emitted once more at the second tick after a silence, at the latest.
        # No window of the calendar is longer than the span.
        silences = (it for it in one.silences if not isinstance(it, str))
        reach = max(reach, max(one.span, *silences) + 2 * one.every_ms)
    return reach


def per_partition(numbers: Mapping[int, int], partition: Column, otherwise: int) -> Column:
    """Return the number of a partition, as a column; `otherwise` for one that has none."""
    pairs = [f.lit(it) for pair in numbers.items() for it in pair]
    if not pairs:
        return f.lit(otherwise)
    return f.coalesce(f.create_map(*pairs)[partition], f.lit(otherwise))
