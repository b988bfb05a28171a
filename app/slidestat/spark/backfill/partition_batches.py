"""The rows that a task is given: whole partitions of history, or of shares, one after another."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.records import RecordBatch

BATCH_RECORDS = 50_000
"""How many records are given to the kernels at once."""


class OpenPartition(Protocol):
    """A partition while its rows come."""

    def take(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows in; what they come to."""

    def close(self) -> Iterator[pa.RecordBatch]:
        """End the partition; yield the rows that are left to be told."""


def one_after_another(
    batches: Iterable[pa.RecordBatch],
    begin: Callable[..., OpenPartition],
    by: Sequence[str] = ("partition",),
) -> Iterator[pa.RecordBatch]:
    """Yield what each partition comes to; `begin` opens one by its number. Where there are several
    parts of one, `by` has the columns of whole numbers that tell them apart.
    """
    place, opened = None, None
    for of, part in _by_place(batches, by):
        if opened is None or of != place:
            if opened is not None:
                yield from opened.close()
            place, opened = of, begin(*of)
        yield from opened.take(part)
    if opened is not None:
        yield from opened.close()


def is_of_files(part: pa.RecordBatch) -> bool:
    """Whether these are rows of files: only what was on a topic has offsets."""
    return "offset" not in part.schema.names


def record_batch(
    topology: Topology, partition: int, part: pa.RecordBatch, next_offset: int
) -> RecordBatch:
    """Rows of history as records; those of files get the offsets from `next_offset` on."""
    if is_of_files(part):
        numbers = np.arange(next_offset, next_offset + len(part), dtype=np.int64)
    else:
        numbers = part["offset"].to_numpy()
    stamps = part["timestamp"].fill_null(-1).to_numpy()
    return RecordBatch(
        topology.events_topic,
        partition,
        numbers,
        BinaryColumn.of(part["key"]),
        BinaryColumn.of(part["value"]),
        stamps,
        int(numbers[0]),
        _headers(part),
    )


def _headers(part: pa.RecordBatch) -> list[list[tuple[str, bytes | None]]] | None:
    """The headers of each record; None where none has any, as in files."""
    if "headers" not in part.schema.names or part["headers"].null_count == len(part):
        return None
    return [
        [(one["key"], bytes.fromhex(one["hex"]) if "hex" in one else None) for one in headers]
        for headers in (json.loads(text or "[]") for text in part["headers"].to_pylist())
    ]


def _by_place(
    batches: Iterable[pa.RecordBatch], by: Sequence[str]
) -> Iterator[tuple[tuple[int, ...], pa.RecordBatch]]:
    """Parts of `BATCH_RECORDS` rows or so, each of one place."""
    for joined in _joined(batches):
        places = np.stack([joined[name].to_numpy() for name in by], axis=1)
        changes = np.flatnonzero(np.any(np.diff(places, axis=0), axis=1)) + 1
        for start, end in pairwise([0, *changes.tolist(), len(places)]):
            yield tuple(places[start].tolist()), joined.slice(start, end - start)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches as large ones: a call of the kernels costs as much for one key as for many."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        rows += len(batch)
        if rows >= BATCH_RECORDS:
            yield pa.concat_batches(held)
            held, rows = [], 0
    if held:
        yield pa.concat_batches(held)
