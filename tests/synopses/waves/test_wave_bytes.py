"""Bytes of waves, averages and approximate counts that only their own form makes possible."""

import numpy as np
import pytest

from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.waves.approximate_count import ApproximateCount, ApproximateCountParameters
from slidestat.synopses.waves.average_wave import AverageWave
from slidestat.synopses.waves.parameters import AverageParameters
from slidestat.synopses.waves.waves import CountWave, PositionWave, StoredWave, SumWave
from tests.synopses.hostile import sealed

WAVES: dict[int, type[StoredWave]] = {3: CountWave, 4: SumWave, 5: PositionWave}


def average() -> AverageWave:
    rng = np.random.default_rng(6)
    made = AverageWave.create(AverageParameters(0.2, 700))
    made.insert(np.cumsum(rng.integers(0, 9, 300)), rng.integers(0, 99, 300))
    return made


@pytest.mark.parametrize("tail", [b"\0", b"\1", b"\x80"])
def test_what_follows_a_state_inside_of_another_is_refused(tail: bytes) -> None:
    """Right lengths and checksums: the count and the sum of an average, a count's histogram."""
    data = average().to_bytes()
    first, second = data.index(b"\xa7S\1\3", 8), data.index(b"\xa7S\1\4", 8)
    count, total = data[first:second], data[second:]
    for parts in ((count + tail, total), (count, total + tail)):
        length = len(parts[0])
        coded = bytes([length & 127 | 128, length >> 7])
        with pytest.raises(SynopsisError):
            AverageWave.from_bytes(sealed(data[:8] + coded + parts[0] + parts[1]))
    counted = ApproximateCount.create(ApproximateCountParameters(700, 0.2))
    counted.insert(np.arange(1_000) % 3 == 0)
    with pytest.raises(SynopsisError):
        ApproximateCount.from_bytes(sealed(counted.to_bytes() + tail))


@pytest.mark.parametrize("kind", WAVES)
def test_a_length_that_lies_allocates_nothing(kind: int) -> None:
    """A few bytes that promise millions of items are refused for the bytes that are not there."""
    head = b"\xa7S\1" + bytes([kind]) + bytes(4)
    million = b"\xc0\x84\x3d"
    body = million + million[:2] + b"\1" + million + million + b"\2" + million
    for lie in (body, million * 6):
        with pytest.raises(SynopsisError):
            WAVES[kind].from_bytes(sealed(head + lie))
