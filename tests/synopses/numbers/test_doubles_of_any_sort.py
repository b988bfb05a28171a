"""Values that are no decimals, and zeros of both signs: no split shows, and bytes are read back."""

import numpy as np
import pytest

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
