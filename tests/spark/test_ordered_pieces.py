"""The law of pieces: a partition's rows come in order of time, ties as they were gathered."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.spark.backfill.reading import ordered_pieces
from slidestat.spark.backfill.reading.ordered_pieces import PIECE_ORDER, in_order, in_pieces
from slidestat.spark.kafka.key_partition import partitions_of

SCHEMA = pa.schema([("timestamp", pa.int64()), ("key", pa.binary()), ("number", pa.int64())])
PARTITIONS = 3


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_pieces, "_GATHERED_ROWS", 300)
    monkeypatch.setattr(ordered_pieces, "_PIECE_ROWS", 40)
    monkeypatch.setattr(ordered_pieces, "BATCH_RECORDS", 100)


def handed_out(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The pieces of one task in the order in which Spark would hand them to another."""
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


def test_pieces_in_order_are_held_one_or_two_at_a_time() -> None:
    """So the memory of a task does not grow with a history that is in order of time."""
    pieces = handed_out(rows_of(list(range(20_000)), Random(1)))
    most = max(len(part) for _, part in in_order([pieces], SCHEMA))
    assert most <= 100 + 2 * 40


def test_rows_of_another_sort_are_refused() -> None:
    rows = pa.record_batch([["noon"], [b"k"], [1]], ["timestamp", "key", "number"])
    with pytest.raises(pa.ArrowInvalid):
        list(in_pieces(SCHEMA, 1, [rows]))
