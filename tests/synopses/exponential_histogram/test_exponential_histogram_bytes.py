"""The bytes of a histogram: one form for each state, and a checksum that others can make."""

import numpy as np
import pytest

from slidestat.synopses import CountParameters, ExponentialHistogram, SumParameters, SynopsisError
from tests.synopses.hostile import sealed

PARAMETERS = {
    "count": CountParameters(0.1, 1_000),
    "sum": SumParameters(0.1, 1_000),
    "inexact": SumParameters(0.1, 1_000),
}


def sample(name: str) -> bytes:
    rng = np.random.default_rng(6)
    histogram = ExponentialHistogram.create(PARAMETERS[name])
    times = np.cumsum(rng.integers(0, 9, 300))
    values = None if name == "count" else np.round(rng.uniform(0, 9, 300), 3)
    histogram.insert(times, values)
    if name == "inexact":
        histogram.insert(times[-1:], [1 / 3])
    return histogram.to_bytes()


def refused(data: bytes) -> None:
    with pytest.raises(SynopsisError):
        ExponentialHistogram.from_bytes(data)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_checksum_is_adler_32(name: str) -> None:
    """Another reader can check it with a common library; also of states longer than one block."""
    data = sample(name)
    assert sealed(data) == data
    long = ExponentialHistogram.create(CountParameters(1e-6, 2**50))
    long.insert(np.cumsum(np.random.default_rng(0).integers(2**14, 2**21, 450_000)))
    assert len(long.to_bytes()) > 2**20
    assert sealed(long.to_bytes()) == long.to_bytes()


def test_a_length_that_lies_allocates_nothing() -> None:
    """A few bytes that promise millions of buckets are refused for the bytes that are not there."""
    histogram = ExponentialHistogram.create(SumParameters(1e-6, 1_000, 0))
    histogram.insert([1], [2.0**53])
    data = histogram.to_bytes()
    assert len(data) < 50
    assert len(sealed(data[:-6])) < 50
    refused(sealed(data[:-6]))
    assert histogram.query(1_000).upper >= 2.0**53


def test_a_state_has_one_form_only() -> None:
    """Longer ways to write the same numbers, and buckets that the total has not, are refused."""
    histogram = ExponentialHistogram.create(CountParameters(0.1, 1_000))
    histogram.insert([7, 7, 7])
    data = histogram.to_bytes()
    head, total, now, live = data[:-6], b"\3", b"\x10", b"\3"
    assert data == sealed(head + total + now + live + b"\0" + b"\0\2")
    refused(sealed(head + total + now + live + b"\0" + b"\0\1\0\1"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\x82\0"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\0"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\3"))
    refused(sealed(head + b"\2" + now + live + b"\0" + b"\0\2"))
    refused(sealed(head + b"\x83\0" + now + live + b"\0" + b"\0\2"))
    refused(sealed(head + total + now + b"\2" + b"\0" + b"\0\2"))
    refused(sealed(head + total + now + live + b"\0" + b"\0\1"))
    refused(sealed(head + total + now + live + b"\0" + b"\xe8\7" + b"\0\1"))


def test_a_carried_part_is_less_than_one_unit() -> None:
    """The fixed point of the part carried ends at one unit, and the flag is 0 or 1."""
    histogram = ExponentialHistogram.create(SumParameters(0.1, 100, 0))
    histogram.insert([0], [0.5])
    data = histogram.to_bytes()
    end = b"\2\0"  # now 1, no bucket
    flag_and_part = b"\1" + (2**61).to_bytes(8, "little")
    assert data.endswith(flag_and_part + end)
    head = data[: -len(flag_and_part + end)]
    refused(sealed(head + b"\1" + (2**62).to_bytes(8, "little") + end))
    refused(sealed(head + b"\2" + flag_and_part[1:] + end))
    assert sealed(head + flag_and_part + end) == data
