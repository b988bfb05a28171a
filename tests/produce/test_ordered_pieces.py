"""The law of pieces: a partition's rows come in order of time, ties as they were gathered."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.kafka.partitioner import partitions_of
from slidestat.produce import ordered_pieces
from slidestat.produce.ordered_pieces import (
    PIECE_ORDER,
    in_order,
    in_pieces,
)

SCHEMA = pa.schema([("timestamp", pa.int64()), ("key", pa.binary()), ("number", pa.int64())])
PARTITIONS = 3


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_pieces, "_GATHERED_ROWS", 300)
    monkeypatch.setattr(ordered_pieces, "_LEAST_ROWS", 40)
    monkeypatch.setattr(ordered_pieces, "_MOST_ROWS", 40)
    monkeypatch.setattr(ordered_pieces, "BATCH_RECORDS", 100)


def handed_out(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The pieces of one task in the order in which Spark would hand them to another."""
    return handed_out_of([(0, batch) for batch in batches])


def handed_out_of(batches: Sequence[tuple[int, pa.RecordBatch]]) -> pa.RecordBatch:
    """The same of rows with places."""
    pieces = pa.Table.from_batches(list(in_pieces(SCHEMA, PARTITIONS, batches)))
    order = [(name, "ascending", "at_start") for name in PIECE_ORDER]
    return pieces.sort_by(order).combine_chunks().to_batches()[0]


def rows_of(times: Sequence[int | None], chance: Random) -> list[pa.RecordBatch]:
    """Rows of some keys, in batches of any size."""
    keys = [chance.choice([b"a", b"b", b"cc", b"", None]) for _ in times]
    columns = [
        pa.array(times, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(range(len(times))),
    ]
    table = pa.table(columns, schema=SCHEMA)
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=chance.randrange(1, 200))
    return batches


@pytest.mark.parametrize("order", ["sorted", "nearly", "none", "ties"])
def test_rows_come_as_a_stable_sort_has_them(order: str) -> None:
    """However much they were in order before; those without a time first."""
    for seed in range(30):
        chance = Random(seed)
        times: list[int | None] = []
        for i in range(chance.randrange(1, 2_000)):
            match order:
                case "sorted":
                    times.append(10 * i)
                case "nearly":
                    times.append(10 * i + chance.randrange(500))
                case "none":
                    times.append(chance.choice([None, chance.randrange(-(2**62), 2**62)]))
                case _:
                    times.append(chance.randrange(4))
        batches = rows_of(times, chance)
        table = pa.Table.from_batches(batches)
        partitions = partitions_of(BinaryColumn.of(table["key"].combine_chunks()), PARTITIONS)
        found: dict[int, list[int]] = {}
        for partition, part in in_order([handed_out(batches)], SCHEMA):
            found.setdefault(partition, []).extend(part["number"].to_pylist())
        for partition in set(partitions.tolist()):
            rows = np.flatnonzero(partitions == partition).tolist()
            wanted = sorted(rows, key=lambda row: (times[row] is not None, times[row] or 0))
            assert found.pop(partition) == wanted, (seed, partition)
        assert not found


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [2, 0, 3, 1], [2**61, 5, 2**42, 4]])
def test_ties_come_in_the_order_of_places(places: list[int]) -> None:
    """Whichever was read first; those of one place as they came."""
    chance = Random(len(places))
    times: list[int | None] = [chance.choice([None, 1, 2, 3]) for _ in range(4_000)]
    table = pa.Table.from_batches(rows_of(times, chance))
    batches = [
        (place, batch)
        for number, place in enumerate(places)
        for batch in table.slice(number * 1_000, 1_000).to_batches(max_chunksize=170)
    ]
    found: dict[int, list[tuple[int, int, int]]] = {}
    for partition, part in in_order([handed_out_of(batches)], SCHEMA):
        for number in part["number"].to_pylist():
            row = (times[number] or 0, places[number // 1_000], number)
            found.setdefault(partition, []).append(row)
    assert sum(map(len, found.values())) == 4_000
    for rows in found.values():
        assert rows == sorted(rows)


@pytest.mark.parametrize("gathered", [300, 7])
def test_bytes_are_gathered_as_rows_are(monkeypatch: pytest.MonkeyPatch, gathered: int) -> None:
    """Where rows are large, few are gathered."""
    monkeypatch.setattr(ordered_pieces, "_GATHERED_BYTES", gathered * 24)
    chance = Random(gathered)
    times: list[int | None] = [chance.randrange(50) for _ in range(1_000)]
    batches = rows_of(times, chance)
    found = [part["timestamp"].to_pylist() for _, part in in_order([handed_out(batches)], SCHEMA)]
    assert sorted(chain(*found)) == sorted(time for time in times if time is not None)


@pytest.mark.parametrize(
    "time_of",
    [lambda i: i, lambda i: i // 5_000, lambda _: 7, lambda _: None],
    ids=["rising", "days", "one time", "no time"],
)
def test_what_is_told_is_held_no_longer(
    monkeypatch: pytest.MonkeyPatch, time_of: Callable[[int], int | None]
) -> None:
    """So the memory of a task does not grow with its history, also where rows share a time."""
    most = 0
    merge = ordered_pieces._Merge
    add = merge.add

    def measured(self: Any, *given: Any) -> Iterator[pa.RecordBatch]:
        nonlocal most
        most = max(most, sum(map(len, self.held.values())))
        return add(self, *given)

    monkeypatch.setattr(merge, "add", measured)
    pieces = handed_out(rows_of([time_of(i) for i in range(20_000)], Random(1)))
    parts = [len(part) for _, part in in_order([pieces], SCHEMA)]
    assert sum(parts) == 20_000
    assert max(parts) <= 100
    # What was gathered at once overlaps, as partitions share it.
    assert most <= 100 + 300


def test_large_rows_are_cut_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces, and what is told at once."""
    monkeypatch.setattr(ordered_pieces, "_PIECE_BYTES", 5_000)
    monkeypatch.setattr(ordered_pieces, "_BATCH_BYTES", 20_000)
    columns = [pa.array(range(400)), pa.array([b"k" * 1_000] * 400), pa.array(range(400))]
    pieces = handed_out([pa.record_batch(columns, schema=SCHEMA)])
    assert max(map(len, pieces["rows"].to_pylist())) <= 5_000 + 1_000
    parts = [part for _, part in in_order([pieces], SCHEMA)]
    assert sum(map(len, parts)) == 400
    assert max(map(len, parts)) <= 20


def test_many_partitions_share_what_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its rows in some pieces, however few it has of them."""
    monkeypatch.undo()
    times = list(range(1_000_000))
    Random(1).shuffle(times)
    keys = [b"%d" % (i % 100_000) for i in range(1_000_000)]
    rows = pa.record_batch([pa.array(times), pa.array(keys), pa.array(times)], schema=SCHEMA)
    pieces = pa.Table.from_batches(list(in_pieces(SCHEMA, 48, [(0, rows)])))
    counts = np.unique(pieces["partition"].to_numpy(), return_counts=True)[1]
    assert len(counts) == 48
    assert counts.min() >= 16


def test_rows_of_another_sort_are_refused() -> None:
    rows = pa.record_batch([["noon"], [b"k"], [1]], ["timestamp", "key", "number"])
    with pytest.raises(pa.ArrowInvalid):
        list(in_pieces(SCHEMA, 1, [(0, rows)]))
