"""Laws of byte strings that lie in one buffer: they are the list that they were made of."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.statistics import Distinct, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.partition import PartitionProcessor
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of
from tests.engine.model import Record

STRINGS = st.lists(st.none() | st.binary(max_size=20), max_size=30)


@settings(derandomize=True, deadline=None)
@given(values=STRINGS, start=st.integers(-3, 33), end=st.integers(-3, 33))
def test_it_is_the_list_that_it_was_made_of(
    values: list[bytes | None], start: int, end: int
) -> None:
    """As a whole, in parts, one by one, parts joined again, and as an Arrow array."""
    column = BinaryColumn.of(values)
    assert list(column) == values
    assert len(column) == len(values)
    assert [column[row] for row in range(len(values))] == values
    assert list(column[start:end]) == values[start:end]
    assert column[start:end].as_arrow().to_pylist() == values[start:end]
    assert column[start:end].as_arrow_view().to_pylist() == values[start:end]
    rows = np.flatnonzero(np.arange(len(values)) % 3 != 1)[::-1]
    assert list(column.take(rows)) == [values[row] for row in rows]
    parts = [column[start:end], column.take(rows), column[:0]]
    assert list(BinaryColumn.joined(parts)) == [it for part in parts for it in part]
    assert list(BinaryColumn.joined([])) == []
    assert BinaryColumn.of(column) is column


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@settings(derandomize=True, deadline=None)
@given(values=STRINGS, start=st.integers(0, 30))
def test_of_arrow_it_is_a_view(values: list[bytes | None], start: int, kind: pa.DataType) -> None:
    """A part of an array too, whose buffers are those of the whole."""
    part = pa.array(values, kind).slice(start)
    column = BinaryColumn.of(part)
    assert list(column) == values[start:]
    assert column.as_arrow().equals(part.cast(pa.large_binary()))
    assert column.as_arrow_view().equals(part.cast(pa.large_binary()))


@pytest.mark.parametrize(
    "fields", [{}, {"key_field": "kafka:key", "time_field": "kafka:timestamp"}], ids=str
)
def test_what_waits_keeps_no_buffer_alive(fields: dict[str, str]) -> None:
    """Neither events that wait, nor suspects, nor letters hold what was fetched with them."""
    topology = Topology(
        name="waits",
        source=SOURCE,
        span="1h",
        every="1m",
        lateness="5m",
        statistics=[Sum(), Distinct(field="user")],
        **fields,
    )
    processor = PartitionProcessor(topology, SOURCE, PARTITION, MemoryStore([]))
    value = b'{"key":"k%d","time":%d,"value":1.5,"user":"u%d"}'
    records = [
        Record(i, b"k%d" % (i % 7), value % (i % 7, time, i), time)
        for i in range(1_000)
        for time in [1_700_000_000_000 + 20 * i + (10**8 if i > 995 else 0)]
    ]
    records[10] = records[10]._replace(value=b"{")
    batch = batch_of(records)
    column = BinaryColumn.of(batch.values)
    buffer = column.buffer.copy()
    batch = replace(batch, values=BinaryColumn(buffer, column.starts, column.ends))
    is_kept = weakref.ref(buffer)
    effects = processor.process(batch)
    assert len(effects.dead_letters) == 1
    assert processor.watermark
    del batch, buffer
    gc.collect()
    assert is_kept() is None
