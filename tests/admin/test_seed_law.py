"""The law of seeds: history from files and then the topic are one reading of both, to the byte."""

import weakref
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from slidestat.admin import seed
from slidestat.admin.seed import Seeded, SeededPartition, seeded_rows
from slidestat.admin.seed_files import EventFiles, RecordFiles
from slidestat.declare.topology import Topology
from slidestat.engine.clock import RECORDS
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.tick_records import TickDecoder, ticks_at
from slidestat.engine.keys.key_state import (
    KeyState,
    decode_key_state,
    encode_key_state,
    with_nothing_written,
)
from slidestat.engine.keys.stored_keys import NoStates
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import NO_TIME
from slidestat.errors import SlidestatError
from slidestat.faust.local_states import LocalStates
from slidestat.options import TIME_UNIT
from slidestat.produce.file_records import FileRecords
from slidestat.produce.files import event_file, files_of
from slidestat.schemas.alert import AlertState
from slidestat.schemas.sequence import decode_alert_change
from slidestat.testing.records import Row
from tests.engine.cases import BY_FIGURES, EMITTED, TOPOLOGIES, Case, cases, laws
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Output,
    Partition,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Record

ALL = TOPOLOGIES | EMITTED | BY_FIGURES
SEEDABLE = [name for name, topology in ALL.items() if not topology.publish]


def seeded(
    case: Case, records: list[Record], cut: tuple[int, int] | None
) -> tuple[Seeded, list[Row]]:
    """A seed of these records, in any batches, and the rows of its changelog."""
    with TemporaryDirectory() as folder, closing(LocalStates()) as states:
        engine = SeededPartition(case.topology, PARTITION, "", {}, Path(folder), states)
        while records:
            size = case.random.choice([1, 5, 40, 1_000])
            engine.read([batch_of(records[:size])])
            records = records[size:]
        found = engine.end() if cut is None else engine.end_at(*cut)
        states.put_away()
        rows: list[Row] = [
            (key[1:].decode(), state) for key, state in seeded_rows(states, found.moved_by)
        ]
        return found, [*rows, (None, found.checkpoint)]


def synopses(store: MemoryStore, topology: Topology) -> dict[str, tuple[int, tuple[bytes, ...]]]:
    return {key: (it[0], it[1]) for key, it in store.synopses(topology).items()}


def emitted(outputs: list[Output]) -> dict[object, object]:
    """What was sent, but for alerts."""
    return {(kind, key): rest for kind, key, rest in outputs if kind != "alert"}


def alerts_of(outputs: list[Output]) -> dict[object, object]:
    """The changes of alerts that a worker has told."""
    return {key: rest for kind, key, rest in outputs if kind == "alert"}


def firing(outputs: list[Output]) -> dict[tuple[str, str], bytes]:
    """What was told last of the alerts that fire in the end."""
    found = {}
    for kind, _, rest in outputs:
        if kind == "alert":
            change = decode_alert_change(rest[0])
            found.pop((change.alert, change.key), None)
            if change.state is AlertState.FIRING:
                found[change.alert, change.key] = rest[0]
    return found


def run(case: Case, records: list[Record]) -> Partition:
    """A worker that reads these records from the first one on."""
    partition = Partition(case.topology, records, Random(1))
    partition.live()
    return partition


@settings(laws, max_examples=8)
@given(cases(topologies=SEEDABLE), st.floats(0, 1))
def test_records_and_then_the_topic(case: Case, share: float) -> None:
    """Cut at any record: states, counters and clock in the end are those of a worker that read all,
    and what it writes, alerts included, is what that one wrote after the cut. Of the alerts that
    fire there, the seed has the record that it wrote last.
    """
    until = int(share * (len(case.records) + 1))
    before, whole = case.records[:until], run(case, case.records)
    history = run(case, before)
    found, rows = seeded(case, before, None)
    assert found.next_offset == (history.committed or 0)
    partition = Partition(case.topology, case.records, case.random)
    partition.changelog, partition.committed = rows, found.next_offset
    partition.live()
    topology = case.topology
    assert synopses(partition.store(), topology) == synopses(whole.store(), topology)
    wanted = whole.store().newest_checkpoint(topology)
    assert partition.store().newest_checkpoint(topology) == wanted
    told = alerts_of(history.outputs)
    expected = {key: it for key, it in alerts_of(whole.outputs).items() if key not in told}
    assert alerts_of(partition.outputs) == expected
    assert sorted(it.value for it in found.firing) == sorted(firing(history.outputs).values())
    if not topology.chooses:
        out = emitted(history.outputs)
        expected = {key: it for key, it in emitted(whole.outputs).items() if key not in out}
        assert emitted(partition.outputs) == expected


def times_of(topology: Topology, records: list[Record]) -> list[int]:
    """The times of records, NO_TIME of those that have none."""
    values, keys = [it.value for it in records], [it.key for it in records]
    columns = EventDecoder(topology).decode(values, keys, [it.timestamp for it in records])
    times = np.full(len(records), NO_TIME)
    times[columns.rows] = columns.times
    times[columns.passed_over] = columns.passed_over_times
    found: list[int] = times.tolist()
    return found


def numbered(records: list[Record], start: int) -> list[Record]:
    return [record._replace(offset=start + place) for place, record in enumerate(records)]


def read_on(
    processor: PartitionProcessor, records: list[Record], random: Random
) -> tuple[list[Output], list[Row]]:
    """What a processor writes of records in any batches, and its changelog."""
    outputs: list[Output] = []
    rows: list[Row] = []
    while records:
        size = random.choice([1, 7, 300])
        outputs += outputs_of(processor.process(batch_of(records[:size])))
        records = records[size:]
        if random.random() < 0.3 and (snapshot := processor.snapshot()) is not None:
            rows += rows_of(snapshot)
            processor.written()
    if (snapshot := processor.snapshot()) is not None:
        rows += rows_of(snapshot)
    return outputs, rows


def counted_states(store: MemoryStore) -> dict[str, KeyState]:
    """The states of keys but for where they were counted last: that depends on batches, so two
    workers differ in it, too.
    """
    states = {key: decode_key_state(state) for key, state in store.scan()}
    return {key: it._replace(watermark=NO_TIME, offset=-1) for key, it in states.items()}


# The first one moves event time past a tick. Read alone, both are counted then; with more behind
# them, that waits for more.
FIRST = [
    Record(offset, None, b'{"key":"a","time":1600000000037,"value":1}', -1) for offset in range(2)
]


@settings(laws, max_examples=8)
@given(cases(topologies=SEEDABLE), st.floats(0, 1), st.sampled_from([0, 1, 10**6, -3]))
@example(Case(TOPOLOGIES["landmarks"], FIRST, Random(5)), 0.0, 0)
def test_events_up_to_a_time_and_then_the_topic(case: Case, share: float, moved_by: int) -> None:
    """A worker that has read the events of files in order of time, and whose watermark is at the
    cut then, goes on as one that was seeded with them. Where the topic's offsets are not those that
    follow on, states are the same but for these.
    """
    topology, random = case.topology, case.random
    times = times_of(topology, case.records)
    known = sorted(time for time in times if time != NO_TIME) or [1_600_000_000_000]
    cut = known[int(share * (len(known) - 1))] + random.choice([0, 1, 50])
    pairs = sorted(zip(times, range(len(times)), strict=True))
    history = numbered([case.records[at] for time, at in pairs if time < cut], 0)
    # Some from before the cut lie in the topic, too: they are late.
    tail = [
        record
        for time, record in zip(times, case.records, strict=True)
        if time >= cut or random.random() < 0.1
    ]
    end = len(history) + RECORDS
    start = max(0, end + moved_by)

    decoder = TickDecoder(topology)
    whole = PartitionProcessor(topology, SOURCE, PARTITION, NoStates(), decoder)
    told = outputs_of(whole.process(batch_of(history))) if history else []
    ticks = ticks_at(cut + topology.lateness_ms, SOURCE, PARTITION, len(history))
    told += outputs_of(whole.process(ticks))
    snapshot = whole.snapshot()
    assert snapshot is not None
    before, first = whole.checkpoint, rows_of(snapshot)
    whole.written()
    wanted, expected = read_on(whole, numbered(tail, end), random)

    found, rows = seeded(case, history, (cut, start))
    assert found.next_offset == start
    assert found.counters.counted == before.counters.counted
    assert found.counters.read == len(history)
    fires = firing(told)
    if start == end:
        assert sorted(it.value for it in found.firing) == sorted(fires.values())
    else:
        changes = [decode_alert_change(it.value) for it in found.firing]
        assert {(it.alert, it.key) for it in changes} == fires.keys()
        assert all(it.source_offset < start for it in changes)
    after = PartitionProcessor(topology, SOURCE, PARTITION, MemoryStore(rows))
    got, written = read_on(after, numbered(tail, start), random)

    one, other = MemoryStore([*rows, *written]), MemoryStore([*first, *expected])
    assert synopses(one, topology) == synopses(other, topology)
    if start == end and not topology.chooses:
        assert emitted(got) == emitted(wanted)
        assert alerts_of(got) == alerts_of(wanted)
        states = [counted_states(it) for it in (one, other)]
        if not topology.alerts and topology.forget_ms is None:
            assert states[0] == states[1]
        standing = [{key: it.alerts for key, it in of.items()} for of in states]
        assert {key: it for key, it in standing[0].items() if it} == {
            key: it for key, it in standing[1].items() if it
        }


def test_an_event_of_the_time_of_the_cut_is_counted() -> None:
    """It lies at an offset that rows of files have had, too, and is taken for none of these."""
    records = [
        Record(0, b"a", b'{"key":"a","time":%d,"value":1}' % (1_600_000_000_000 + more), -1)
        for more in (0, 10, 20)
    ]
    case = Case(TOPOLOGIES["no lateness"], records, Random(1))
    history = numbered(records[:2], 0)
    _, rows = seeded(case, history, (1_600_000_000_020, 0))
    processor = PartitionProcessor(case.topology, SOURCE, PARTITION, MemoryStore(rows))
    _, written = read_on(processor, records[2:], Random(1))
    assert synopses(MemoryStore([*rows, *written]), case.topology)["a"][0] == 3


def test_offsets_of_a_state_are_moved_and_nothing_was_written() -> None:
    """Those of the quota as well: a record that it refuses is refused when it is read again."""
    used = np.array([[5, 7, 100], [6, 8, 102]], "<i8")
    state = encode_key_state(1, 103, 2, 3, (b"one", b"two"), used.tobytes(), b"a", b"w")
    found = decode_key_state(with_nothing_written(state, -104))
    used[:, 2] -= 104
    assert found == KeyState(1, -1, 2, 3, (b"one", b"two"), used.tobytes(), b"a")


def test_one_engine_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That of a partition is gone when it has ended, and so is its database: what is left of it
    lies on the disk.
    """
    engines: list[weakref.ref[PartitionProcessor]] = []

    class Watched(PartitionProcessor):
        def __init__(self, *given: Any, **named: Any) -> None:
            assert not any(engine() for engine in engines)
            super().__init__(*given, **named)
            engines.append(weakref.ref(self))

    monkeypatch.setattr(seed, "PartitionProcessor", Watched)
    topology = TOPOLOGIES["no lateness"]
    first = 1_600_000_000_000
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f'{{"key":"k{n}","time":{first + n},"value":1}}\n' for n in range(300)))
    records = FileRecords.of(topology, {}, TIME_UNIT)
    source = EventFiles(records, [event_file(file)], first + 300)
    places = [seed._Place(0, 0, 0)] * 3
    with ExitStack() as on_disk:
        states = [on_disk.enter_context(closing(LocalStates())) for _ in places]
        found = seed._counted(topology, "", source, first + 300, places, states, str)
        assert len(engines) == 3
        assert not any(engine() for engine in engines)
        assert not any(it._opened for it in states)
        keys = [
            sum(1 for _ in seeded_rows(it, end.moved_by))
            for it, end in zip(states, found, strict=True)
        ]
    assert keys == [it.counters.counted for it in found]
    assert sum(keys) == 300


def test_the_newest_offsets_of_records_are_kept() -> None:
    """Of what was read, each once: they are compared with the topic's."""
    topology = TOPOLOGIES["no lateness"]
    files = RecordFiles(topology, [], None)

    def part(offsets: range) -> pa.RecordBatch:
        columns = [offsets, [b"k"] * len(offsets), [b"v"] * len(offsets)]
        columns += [[0] * len(offsets)] * 2
        arrays = [
            pa.array(column, kind.type)
            for column, kind in zip(columns, RecordFiles.schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=RecordFiles.schema)

    parts = [part(range(3)), part(range(2, 9_000)), part(range(9_500, 12_000))]
    batches = list(files.partition(topology, 1, parts))
    offsets = np.concatenate([it.offsets for it in batches])
    assert offsets.tolist() == [*range(9_000), *range(9_500, 12_000)]
    assert files.newest[1].tolist() == offsets[-10_000:].tolist()


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"partition": [-1, 0]}, "records without an offset or a partition"),
        ({"offset": [-1, 0]}, "records without an offset or a partition"),
        ({"offset": [None, 0]}, "records without an offset or a partition"),
        ({"topic": ["events", "others"]}, "records of the topic 'others'"),
        ({"offset": [0.5, 1]}, "records with other types"),
    ],
)
def test_records_of_no_place_are_refused(
    tmp_path: Path, cells: dict[str, list[Any]], told: str
) -> None:
    """They would be in none of the partitions that are counted."""
    topology = replace(TOPOLOGIES["no lateness"], source="events")
    columns: dict[str, list[Any]] = {"partition": [0, 0], "offset": [0, 1], "timestamp": [1, 2]}
    columns |= {"key": [b"k", b"k"], "value": [b"{}", b"{}"], "topic": [None, "events"]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    (_, rows), *_ = RecordFiles(topology, files_of([str(tmp_path)]), None).batches()
    assert len(rows) == 2
    pq.write_table(pa.table(columns | cells), tmp_path / "a.parquet")
    with pytest.raises(SlidestatError, match=told):
        list(RecordFiles(topology, files_of([str(tmp_path)]), None).batches())
