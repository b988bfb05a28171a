"""Laws of byte strings that lie in one buffer: they are the list that they were made of."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.engine.decoding.binary_column import BinaryColumn

STRINGS = st.lists(st.none() | st.binary(max_size=20), max_size=30)


@settings(derandomize=True, deadline=None)
@given(values=STRINGS, start=st.integers(-3, 33), end=st.integers(-3, 33))
def test_it_is_the_list_that_it_was_made_of(
    values: list[bytes | None], start: int, end: int
) -> None:
    """As a whole, in parts, one by one, and as an Arrow array."""
    column = BinaryColumn.of(values)
    assert list(column) == values
    assert len(column) == len(values)
    assert [column[row] for row in range(len(values))] == values
    assert list(column[start:end]) == values[start:end]
    assert column[start:end].as_arrow().to_pylist() == values[start:end]
    rows = np.flatnonzero(np.arange(len(values)) % 3 != 1)[::-1]
    assert list(column.take(rows)) == [values[row] for row in rows]
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


def test_a_string_that_was_asked_for_keeps_no_buffer_alive() -> None:
    """A dead letter of a record must not hold what was fetched with it."""
    column = BinaryColumn.of([b"a" * 10, None, b"b"])
    assert [type(value) for value in (*column, column[0])] == [bytes, type(None), bytes, bytes]
    array = column[:1].as_arrow()
    assert sum(buffer.size for buffer in array.buffers() if buffer is not None) <= 10 + 2 * 8
