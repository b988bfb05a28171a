"""Compiled or not, a partition sends and stores the same; what it holds are numbers of Python."""

import hashlib
from random import Random

import pytest

from slidestat import Alert
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.ticks.ticker import Pace
from tests.engine.cases import topology
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, outputs_of, rows_of
from tests.engine.streams import confirmed, records
from tests.synopses.plain_python import as_plain_python

DECLARED = topology(
    lateness="150ms", alerts=(Alert(name="many", when="count >= 3", window="330ms"),)
)


def digest() -> str:
    """All that a partition sends and stores over three lives, as one text.

    A silent key's state has the watermark up to which it was looked at. That depends on slices, and
    these on how quick the machine is: here they stay as large as they begin.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Pace, "took", lambda *_: None)
        return _digest()


def _digest() -> str:
    seen = hashlib.sha256()
    store = MemoryStore()
    rows = records(
        Random(4), 90, keys="awkward", values="prices", times="jitter", bad=0.1, holes=False
    )
    last = rows[-1]
    rows += confirmed(last.offset + 1, last.timestamp + 10**6)
    offset = 0
    for upto in (40, 70, len(rows)):
        processor = PartitionProcessor(DECLARED, SOURCE, PARTITION, store)
        for first in range(offset, upto, 10):
            batch = batch_of(rows[first : min(first + 10, upto)])
            seen.update(repr(outputs_of(processor.process(batch))).encode())
        snapshot = processor.snapshot()
        assert snapshot is not None
        written = rows_of(snapshot)
        seen.update(repr(written).encode())
        store.write(written)
        offset = store.newest_checkpoint(DECLARED).next_offset
    return seen.hexdigest()


def test_a_partition_as_plain_python_sends_and_stores_the_same() -> None:
    assert as_plain_python("tests.engine.partition.test_partition_as_plain_python") == digest()
