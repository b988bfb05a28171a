"""What a worker lets go of at a rebalance is the machine's again."""

import sys

import psutil
import pytest

from slidestat.faust.worker.memory import give_back_memory


@pytest.mark.skipif(sys.platform != "linux", reason="it is GNU's library that keeps memory")
def test_what_lies_between_things_in_use_is_given_back() -> None:
    """Of a hundred megabytes nine tenths, though each tenth block stays: without a trim all of it
    stays.
    """
    process = psutil.Process()
    blocks = [bytes(20_000) for _ in range(5_000)]
    full = process.memory_info().rss
    del blocks[1::2], blocks[2::2], blocks[3::2]
    kept = sum(map(len, blocks))
    give_back_memory()
    assert full - process.memory_info().rss > 0.8 * (5_000 * 20_000 - kept)
