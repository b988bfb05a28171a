"""What the framework's bytes have to keep besides: ids that are any 64-bit numbers, far apart."""

from hashlib import sha256

import numpy as np
import pytest

from slidestat.synopses import SynopsisError
from slidestat.synopses.core.errors import WindowTooLargeError
from tests.synopses.celled import ITEMS, MAKERS, SPAN, column, fed
from tests.synopses.hostile import DAMAGES, damaged
from tests.synopses.plain_python import as_plain_python
from tests.synopses.streams import TIMES

FAR = list(ITEMS).index("farthest apart")


@pytest.mark.parametrize("name", MAKERS)
def test_values_and_items_of_any_sort_are_written_and_read(name: str) -> None:
    """One event at a time, read back in the middle, or all at once: the same bytes."""
    rng = np.random.default_rng(5)
    for i, time_name in enumerate(TIMES):
        times = TIMES[time_name](rng, 300).tolist()
        for of in (i, FAR):
            what = column(name, rng, 300, of)
            singles = fed(name, times[:200], what[:200], cuts=range(200))
            singles = type(singles).from_bytes(singles.to_bytes())
            singles.insert(times[200:], what[200:])
            assert singles.to_bytes() == fed(name, times, what).to_bytes()
            singles.check()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["table", "norm of order 1"])
def test_damaged_ids_far_apart_are_refused_or_work(name: str, damage: str) -> None:
    """Differences of ids that do not fit in 64 bits are not believed."""
    rng = np.random.default_rng(6)
    data = fed(name, np.cumsum(rng.integers(0, 9, 60)), column(name, rng, 60, FAR)).to_bytes()
    kind = type(MAKERS[name]())
    for changed in damaged(data, damage, 1_000):
        try:
            synopsis = kind.from_bytes(changed)
        except SynopsisError:
            continue
        synopsis.insert([], [])
        assert synopsis.to_bytes() == changed, "the decoder took what the encoder does not write"
        later = min(synopsis.now + 10, 2**61 - 1)
        try:
            synopsis.insert(np.full(40, later), np.arange(40))
        except WindowTooLargeError:
            continue
        synopsis.query(1)


def digest() -> str:
    """The bytes and answers of items of any sort, as one."""
    seen = sha256()
    rng = np.random.default_rng(9)
    for of in range(len(ITEMS)):
        times = TIMES[list(TIMES)[of % len(TIMES)]](rng, 90)
        for name in MAKERS:
            synopsis = fed(name, times, column(name, rng, 90, of), [50])
            seen.update(synopsis.to_bytes())
            for n in (1, 20, SPAN):
                seen.update(repr(synopsis.query(n)).encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, and answers to the last bit."""
    assert as_plain_python("tests.synopses.norm.test_framework_state") == digest()
