"""Keys of last events and of totals that are forgotten after a silence; the laws of a partition try
them in any batches and crashes (cases.py).
"""

from dataclasses import replace

import msgspec
import pytest

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.statistics import Count, LandmarkCount
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.schemas.emission import Emission
from tests.engine.cases import topology
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, rows_of
from tests.engine.model import Record
from tests.engine.streams import encode

BEGIN = 1_600_000_000_000
FORGETTING = {
    "last events": topology(
        span="5 events", windows=(), statistics=(Count(),), forget_after="1s", every="100ms"
    ),
    "totals": topology(
        span="300ms", windows=(), statistics=(LandmarkCount(),), forget_after="1s", every="100ms"
    ),
}


class Worker:
    """One partition that is fed event by event, each flush whole."""

    def __init__(self, declared: Topology, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.processor = PartitionProcessor(declared, SOURCE, PARTITION, self.store)
        self.tombstones: set[str] = set()
        self.declared = declared

    def feed(self, key: str, *at_ms: int) -> list[tuple[str, int, float]]:
        """Take in events of a key; (key, tick since the beginning, count) of what is emitted."""
        records = []
        for at in at_ms:
            offset = self.processor.next_offset + len(records)
            records.append(Record(offset, b"", encode(key, BEGIN + at, 1), BEGIN + at))
        emitted = self.processor.process(batch_of(records)).emissions
        self.flush()
        found = [msgspec.json.decode(value, type=Emission) for _, value, _ in emitted]
        return [(e.key, e.window_end_ms - BEGIN, e.figures[0].estimate or 0.0) for e in found]

    def flush(self) -> None:
        """Make all durable."""
        snapshot = self.processor.snapshot()
        if snapshot is not None:
            self.tombstones |= {key for key, state in snapshot.states.items() if state is None}
            self.store.write(rows_of(snapshot))
            self.processor.written()


@pytest.mark.parametrize("name", FORGETTING)
def test_a_silent_key_is_emitted_once_more_and_deleted(name: str) -> None:
    """At the first tick that lies more than `forget_after` after its last event; its tombstone goes
    to the changelog, questions find it no more, and it starts anew.
    """
    worker, question = Worker(FORGETTING[name]), LiveQuery(FORGETTING[name])
    worker.feed("gone", 10, 20)
    worker.feed("busy", 500, 900, 1_000)
    assert question.answer(worker.processor.view(), "gone") is not None
    emitted = [e for at in range(1_000, 1_301, 50) for e in worker.feed("busy", at)]
    assert [e for e in emitted if e[0] == "gone"] == [("gone", 1_100, 2.0)]
    assert question.answer(worker.processor.view(), "gone") is None
    assert worker.tombstones == {"gone"}
    assert worker.store.keys() == {"busy"}
    emitted = worker.feed("gone", 1_350) + worker.feed("busy", 1_400, 1_500)
    assert [e for e in emitted if e[0] == "gone"] == [("gone", 1_400, 1.0)]


@pytest.mark.parametrize(
    ("after", "advice"), [("299ms", "Lengthen forget_after"), ("0s", '"7d"'), ("2 events", '"90s"')]
)
def test_what_cannot_be(after: str, advice: str) -> None:
    """Not shorter than the windows of time, and a length of time."""
    with pytest.raises(SlidestatError, match="forget_after is") as refused:
        replace(FORGETTING["totals"], forget_after=after)
    assert advice in refused.value.advice


@pytest.mark.parametrize("name", FORGETTING)
def test_a_key_without_forget_after_is_kept(name: str) -> None:
    """As before there was any, also in its name for what figures mean."""
    kept = replace(FORGETTING[name], forget_after="")
    worker = Worker(kept)
    worker.feed("quiet", 10, 20)
    worker.feed("busy", *range(100, 90_000, 100))
    assert worker.store.keys() == {"quiet", "busy"}
    assert fingerprint_of(kept) != fingerprint_of(FORGETTING[name])


@pytest.mark.parametrize("name", FORGETTING)
def test_a_topology_that_runs_may_begin_to_forget(name: str) -> None:
    """Its states are taken up: who has been silent for so long already goes without an emission,
    the others go on.
    """
    before = Worker(replace(FORGETTING[name], forget_after=""))
    before.feed("gone", 10)
    before.feed("going", 8_500)
    before.feed("busy", *range(8_600, 9_200, 100))
    after = Worker(FORGETTING[name], before.store)
    emitted = [e for at in range(9_200, 9_901, 100) for e in after.feed("busy", at)]
    assert [e for e in emitted if e[0] != "busy"] == [("going", 9_600, 1.0)]
    assert after.store.keys() == {"busy"}
    assert after.tombstones == {"gone", "going"}
