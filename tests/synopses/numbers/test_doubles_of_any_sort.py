"""Values that are no decimals, and zeros of both signs: no split shows, and bytes are read back."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses.blocks.columns import (
    column_limit,
    doubles,
    get_column,
    ordered,
    put_column,
)
from tests.engine.cases import laws
from tests.synopses.streams import TIMES
from tests.synopses.valued import MAKERS, SIGNED, fed


@pytest.mark.parametrize("name", MAKERS)
def test_no_split_of_doubles_shows(name: str) -> None:
    """Each of the named values, on all of the named times in turn, one by one or all at once."""
    names = list(TIMES)
    for i, value_name in enumerate(SIGNED):
        rng = np.random.default_rng(i)
        times = TIMES[names[i % len(names)]](rng, 300).tolist()
        values = SIGNED[value_name](rng, 300).tolist()
        singles = fed(name, times, values, cuts=range(300))
        singles.check()
        assert singles.to_bytes() == fed(name, times, values).to_bytes()
        again = type(singles).from_bytes(singles.to_bytes())
        assert (again.to_bytes(), again.now) == (singles.to_bytes(), singles.now)


_SORTS = (0.1, 2.0**-10, 1 / 3, 16_777_217.0, 2.0**53, 1e15, 0.25, -7.5, 3.0, 2.0**-140, 1e300)


@settings(laws, max_examples=300)
@given(st.lists(st.sampled_from(_SORTS) | st.floats(width=32, allow_nan=False), max_size=8))
def test_columns_of_any_sorts_keep_every_value(values: list[float]) -> None:
    """Also where a decimal comes before a value that is none, but single precision."""
    written = ordered(np.array([value + 0.0 for value in values if abs(value) < np.inf]))
    data = np.zeros(column_limit(len(written)), np.uint8)
    end = put_column(data, 0, written, True)
    read = np.empty_like(written)
    assert get_column(data, 0, end, read, True) == end
    assert doubles(read).tolist() == doubles(written).tolist()
