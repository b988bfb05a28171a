"""Take the parts of several partitions, or of shares of them, one after another."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from slidestat.engine.records import RecordBatch
from slidestat.produce.ordered_pieces import BATCH_RECORDS, equal_runs, gathered

Place = tuple[int, ...]
Part = TypeVar("Part", contravariant=True)


class OpenPartition(Protocol[Part]):
    """A partition while its parts come."""

    def take(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Process one part; yield its rows."""

    def close(self) -> Iterator[pa.RecordBatch]:
        """End the partition; yield the rows that are left."""


def one_after_another(
    parts: Iterable[tuple[Place, Part]], begin: Callable[..., OpenPartition[Part]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each place, whose parts are neighbours; `begin` opens one."""
    place, opened = None, None
    for of, part in parts:
        if opened is None or of != place:
            if opened is not None:
                yield from opened.close()
            place, opened = of, begin(*of)
        yield from opened.take(part)
    if opened is not None:
        yield from opened.close()


def by_number(parts: Iterable[tuple[int, RecordBatch]]) -> Iterator[tuple[Place, RecordBatch]]:
    """Yield parts of partitions, each under a place that is its partition's number alone."""
    return (((number,), part) for number, part in parts)


def by_place(
    batches: Iterable[pa.RecordBatch], by: Sequence[str]
) -> Iterator[tuple[Place, pa.RecordBatch]]:
    """Yield parts of about `BATCH_RECORDS` rows, each of one place: whole numbers `by`."""
    for joined in gathered(batches, BATCH_RECORDS):
        numbers = [joined[name].to_numpy() for name in by]
        for start, end in equal_runs(*numbers):
            place = tuple(int(column[start]) for column in numbers)
            yield place, joined.slice(start, end - start)
