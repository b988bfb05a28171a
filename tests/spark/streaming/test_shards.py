"""Shards of a stream: the bytes of a partition that took all records at once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from random import Random

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import Count, LandmarkSum
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.spark.streaming.shard import Shard, ShardPlace, StoredState
from tests.engine.cases import BY_FIGURES, EMITTED, TOPOLOGIES, Case, cases, laws, topology
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Output,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Record
from tests.spark.requests_history import TOPOLOGY, requests

SHARDED = [name for name, it in {**TOPOLOGIES, **EMITTED, **BY_FIGURES}.items() if not it.publish]


class Table:
    """A shard's table in memory, which counts what is read and written."""

    def __init__(self) -> None:
        self.kept_head: bytes | None = None
        self.states: dict[str, StoredState] = {}
        self.blocks: dict[int, bytes] = {}
        self.calls: Counter[str] = Counter()

    def head(self) -> bytes | None:
        return self.kept_head

    def put_head(self, head: bytes) -> None:
        self.kept_head = head

    def state(self, key: str) -> StoredState | None:
        self.calls["state"] += 1
        return self.states.get(key)

    def put_state(self, key: str, stored: StoredState) -> None:
        self.calls["put_state"] += 1
        self.states[key] = stored

    def delete_state(self, key: str) -> None:
        del self.states[key]

    def block(self, number: int) -> bytes:
        return self.blocks[number]

    def put_block(self, number: int, block: bytes) -> None:
        assert number not in self.blocks
        self.blocks[number] = block

    def delete_block(self, number: int) -> None:
        del self.blocks[number]


def cut(records: Sequence[Record], random: Random) -> Iterator[Sequence[Record]]:
    """Cut records into up to 20 batches of any sizes."""
    count = random.randint(0, min(20, len(records)) - 1)
    cuts = sorted(random.sample(range(1, len(records)), count))
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        yield records[start:end]


def of_shard(
    decoder: EventDecoder,
    topology: Topology,
    table: Table,
    records: Sequence[Record],
    random: Random,
    expected: Sequence[str] = (),
) -> list[Output]:
    """Process one batch, in one or more fetches."""
    place = ShardPlace(PARTITION, 0, expected)
    shard = Shard(topology, place, table, decoder, JsonCodec())
    fetches = [
        batch_of(it) for it in ([records] if random.random() < 0.7 else cut(records, random))
    ]
    return [output for step in shard.process(fetches) for output in outputs_of(step)]


def by_kind(outputs: Sequence[Output]) -> dict[str, list[Output]]:
    """Return the outputs of each kind in their order: those of one kind have a topic."""
    ordered = sorted(outputs, key=itemgetter(0))
    return {kind: list(of_kind) for kind, of_kind in groupby(ordered, key=itemgetter(0))}


def same(case: Case, expected: Sequence[str] = ()) -> Table:
    """Compare all that is written, and the synopses in the end."""
    store, table = MemoryStore(), Table()
    decoder = EventDecoder(case.topology)
    whole = PartitionProcessor(
        case.topology,
        SOURCE,
        PARTITION,
        store,
        decoder,
        expected=dict.fromkeys(expected, PARTITION),
    )
    wanted = outputs_of(whole.process(batch_of(case.records)))
    snapshot = whole.snapshot()
    if snapshot is not None:
        store.write(rows_of(snapshot))
    found: list[Output] = []
    for part in cut(case.records, case.random):
        found += of_shard(decoder, case.topology, table, part, case.random, expected)
    assert by_kind(found) == by_kind(wanted)
    head = msgspec.msgpack.decode(table.kept_head)
    states = {key: it.state for key, it in table.states.items()}
    kept = MemoryStore([*states.items(), (None, head[2])])
    assert kept.synopses(case.topology) == store.synopses(case.topology)
    assert kept.newest_checkpoint(case.topology) == store.newest_checkpoint(case.topology)
    return table


@settings(laws, max_examples=30)
@given(cases(max_size=120, topologies=SHARDED))
def test_batches_that_each_begin_with_the_table_leave_no_trace(case: Case) -> None:
    """Emissions, alerts and letters are those of a partition that took all records at once, each
    one once: of any topology, with any disorder.
    """
    same(case)


@settings(laws, max_examples=15)
@given(cases(max_size=100, topologies=["no lateness"]), st.booleans())
def test_expected_keys_are_silent_from_the_first_tick(case: Case, is_late: bool) -> None:
    """With alerts that fire for keys that never came."""
    watched = topology(
        statistics=(Count(),),
        lateness="150ms" if is_late else "0s",
        alerts=(Alert(name="silent", when="count = 0", window="330ms", for_=2),),
    )
    names = ("k1", "never")
    same(replace(case, topology=replace(watched, expected=names)), names)


def events_of(keys: Sequence[str], time: int, first: int) -> list[Record]:
    """An event of each key, at one time, with offsets from `first` on."""
    value = '{"key": "%s", "time": %d, "value": 1}'
    return [
        Record(first + place, key.encode(), (value % (key, time)).encode(), time)
        for place, key in enumerate(keys)
    ]


NOON = 1_764_072_000_000
LONG = topology(
    span="10m",
    every="1s",
    windows=("1m", "10m"),
    emit="windows",
    statistics=(Count(), LandmarkSum()),
    forget_after="30d",
)
DECODER = EventDecoder(LONG)


def test_a_batch_reads_and_writes_the_keys_that_are_in_it_or_due() -> None:
    """Of 3,000 keys that are kept for 30 days, those with events, and each of the others at a few
    times in all: at the ticks at which it is emitted, and where its time was rounded down.
    """
    random, table = Random(1), Table()
    many = [f"key-{number}" for number in range(3_000)]
    of_shard(DECODER, LONG, table, events_of(many, NOON, 0), random)
    offset, batches = 3_000, 150
    table.calls.clear()
    emitted = 0
    for batch in range(1, batches + 1):
        busy = events_of(["busy"] * 20, NOON + 5_000 * batch, offset)
        offset += len(busy)
        before = table.calls["state"]
        outputs = of_shard(DECODER, LONG, table, busy, random)
        emitted += sum(kind == "emission" for kind, *_ in outputs)
        if batch == 5:  # Long after the first tick, and long before a window has emptied.
            assert table.calls["state"] - before <= 2
    assert emitted > 3 * 3_000
    assert table.calls["state"] < 6 * 3_000
    assert table.calls["put_state"] < 6 * 3_000
    assert len(table.blocks) < 200


def test_a_head_of_another_spread_or_of_a_newer_version_is_refused() -> None:
    """Keys would be in other shards than their states."""
    table = Table()
    of_shard(DECODER, LONG, table, events_of(["k"], NOON, 0), Random(1))
    decoder, codec = EventDecoder(LONG), JsonCodec()
    with pytest.raises(SlidestatError, match="spread as in Kafka partitions, and are now over 4"):
        Shard(LONG, ShardPlace(PARTITION, 4), table, decoder, codec)
    table.kept_head = b"\x91\x02"
    with pytest.raises(SlidestatError, match="written by a newer version"):
        Shard(LONG, ShardPlace(PARTITION, 0), table, decoder, codec)


def test_a_table_of_another_topology_is_refused() -> None:
    """As a worker refuses it, with what has changed, and what to do where there is no worker."""
    table = Table()
    of_shard(DECODER, LONG, table, events_of(["k"], NOON, 0), Random(1))
    other = replace(LONG, statistics=(Count(epsilon=0.5), LandmarkSum()))
    changed = "made with another topology: statistics are changed"
    with pytest.raises(SlidestatError, match=changed) as caught:
        of_shard(DECODER, other, table, events_of(["k"], NOON, 1), Random(1))
    assert "another checkpoint location" in caught.value.advice
    assert "--change-statistics" not in caught.value.advice


def test_sums_in_ranges_of_another_field_are_those_of_a_worker() -> None:
    """Each event of a stream has the field that its value is parted by."""
    parted = replace(TOPOLOGY, source=SOURCE)
    records = [Record(place, *it) for place, it in enumerate(requests(400, seed=3))]
    for seed in range(3):
        table = same(Case(parted, records, Random(seed)))
        assert len(table.states) > 5
