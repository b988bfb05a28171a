"""`slidestat seed`: a topology that begins with the history in files, on real topics."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat.admin import state_reset
from slidestat.admin.first_start import prepare_first_start
from slidestat.admin.seed import SeedReport, seed
from slidestat.admin.state_reset import ChangelogWriter
from slidestat.cli.display.lines import report_lines
from slidestat.cli.operations import seed as seed_command
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.engine.checkpoints.checkpoint import (
    BEING_SEEDED,
    CHECKPOINT_KEY,
    Checkpoint,
    encode_checkpoint,
)
from slidestat.errors import SlidestatError
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import Records, Stage, Tables, events, produce, undisturbed

LATENESS = (
    'span="10m", every="20s", windows=("1m", "10m"), lateness="5s",\n'
    "    statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)),\n"
)
PARTITIONER = {"partitioner": "murmur2_random"}
UNTIL = "2023-11-14T22:14:00Z"
UNTIL_MS = 1_700_000_040_000


def write_records(file: Path, records: Records, topic: str | None = None) -> Path:
    """Records of a topic as Spark's Kafka source has them."""
    rows = [(number, record) for number, some in records.items() for record in some]
    table = {
        "partition": pa.array([number for number, _ in rows], pa.int32()),
        "offset": pa.array([it.offset for _, it in rows], pa.int64()),
        "timestamp": pa.array([it.timestamp for _, it in rows], pa.timestamp("ms", "UTC")),
        "key": pa.array([it.key for _, it in rows], pa.binary()),
        "value": pa.array([it.value for _, it in rows], pa.binary()),
    }
    if topic is not None:
        table["topic"] = pa.array([topic] * len(rows))
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(table), file)
    return file


def write_events(file: Path, sent: Sequence[tuple[bytes, bytes]]) -> Path:
    file.write_bytes(b"".join(value + b"\n" for _, value in sent))
    return file


def same_tables(one: Tables, other: Tables) -> None:
    assert one.keys() == other.keys()
    for number, states in one.items():
        assert states.keys() == other[number].keys()
        differing = [key for key, state in states.items() if other[number][key] != state]
        assert not differing


def seed_with(stage: Stage, *paths: Path, until: str | None = None) -> SeedReport:
    return seed(stage.bootstrap, stage.topology, list(map(str, paths)), until, {}, say=str)


def test_records_and_then_the_topic(
    make_stage: MakeStage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files have the records of both partitions up to different offsets, some twice. A seed that is
    killed amid its states lets no worker start, and is completed by running it again; then a worker
    ends as one that has read all, and has written what that one wrote since. A second seed is
    refused.
    """
    stage = make_stage(body=LATENESS)
    source = stage.topology.source
    bad = [(b"k1", b"not JSON"), (b"k2", b'{"key":"k2"}')]
    produce(stage.bootstrap, source, [*events(3_000, late_share=0.01, jitter_ms=9_000), *bad])
    records = stage.read(source)
    history = {number: some[: len(some) - 100 * number - 1] for number, some in records.items()}
    again = {number: some[100:300] for number, some in records.items()}
    write_records(tmp_path / "files" / "b.parquet", history, source)
    write_records(tmp_path / "files" / "a.parquet", again)
    produce(stage.bootstrap, source, events(3_000, start=3_000, late_share=0.01, jitter_ms=9_000))

    class Killed(ChangelogWriter):
        def send(self, partition: int, key: bytes, *record: object) -> None:  # type: ignore[override]
            super().send(partition, key, *record)  # type: ignore[arg-type]
            if partition == 1 and key == b"kk1":
                self.flush()
                raise KeyboardInterrupt

    with monkeypatch.context() as seam:
        seam.setattr(state_reset, "ChangelogWriter", Killed)
        with pytest.raises(KeyboardInterrupt):
            seed_with(stage, tmp_path / "files")
    # As a worker looks at it when it starts, and when it opens a partition.
    assert not prepare_first_start(stage.bootstrap, stage.topology, None)
    with pytest.raises(SlidestatError, match="only partly seeded"):
        stage.checkpoints()

    files = str(tmp_path / "files" / "*.parquet")
    seed_command(str(stage.file), [files], bootstrap=stage.bootstrap)
    said = capsys.readouterr().out
    assert f"Seeded. To go on with the topic: slidestat run {stage.file}" in said
    before = undisturbed(stage.topology, history)
    assert stage.committed() == before.next_offsets
    assert stage.emissions() == {}

    stage.drain()
    source_now = stage.read(source)
    whole = undisturbed(stage.topology, source_now)
    same_tables(stage.tables(), whole.tables)
    assert stage.counters() == whole.counters
    assert stage.emissions() == {
        key: value for key, value in whole.emissions.items() if key not in before.emissions
    }
    with pytest.raises(SlidestatError, match=f"{stage.name} has states already, of 40 keys and"):
        seed_with(stage, tmp_path / "files")


def test_events_up_to_a_time_and_then_the_topic(make_stage: MakeStage, tmp_path: Path) -> None:
    """Files have all events before a time and some after it, in no order; the topic some before it
    and all from it on: each is counted once, and those of the topic from before it are late. The
    worker's transactions follow on what no transaction wrote.
    """
    stage = make_stage(body=BODY + "    exactly_once=True,\n")
    sent = events(6_000)
    file = write_events(tmp_path / "events.jsonl", sent[4_499::-1])
    produce(stage.bootstrap, stage.topology.source, sent[3_500:], **PARTITIONER)
    report = seed_with(stage, file, until=UNTIL)
    assert (report.read, report.left, report.counters.counted) == (4_500, 500, 4_000)
    lines = list(report_lines(report, "t.py"))
    assert lines[0] == "read        4,500 rows; 500 from --until on are left to the topic"
    assert "goes on at offset 0" in lines[1]

    stage.drain()
    assert sum(map(len, stage.late().values())) == 500
    counters = stage.counters()
    assert (counters.counted, counters.late) == (6_000, 500)
    # What a worker has that read the events of files and then those of the topic from then on.
    everything: Records = {}
    for number, records in stage.read(stage.topology.source).items():
        new = [it for it in records if json.loads(it.value or b"")["time"] >= UNTIL_MS]
        keys = {it.key for it in records}
        old = [new[0]._replace(key=key, value=value) for key, value in sent[:4_000] if key in keys]
        everything[number] = [it._replace(offset=place) for place, it in enumerate([*old, *new])]
    whole = undisturbed(stage.topology, everything)
    same_tables(stage.tables(), whole.tables)


def test_alerts_that_fire_are_written(make_stage: MakeStage, tmp_path: Path) -> None:
    """On the partition of their key, with all that a worker gives such a record."""
    fires = (
        '    alerts=[Alert(name="seen", when="count > 5", window="10m")],\n'
        '    alert_headers="cloudevents",\n'
    )
    stage = make_stage(body=LATENESS + fires)
    source, topic = stage.topology.source, stage.topology.alert_topic
    assert topic is not None
    produce(stage.bootstrap, source, events(3_000))
    history = stage.read(source)
    report = seed_with(stage, write_records(tmp_path / "records.parquet", history))
    expected = [
        (part.partition, it.key, it.value, it.timestamp)
        for part in report.partitions
        for it in part.firing
    ]
    assert len(expected) > 10
    found = stage.read(topic)
    assert expected == [
        (number, it.key, it.value, it.timestamp)
        for number, records in sorted(found.items())
        for it in records
    ]
    mark = fingerprint_of(stage.topology).encode()
    for records in found.values():
        for it in records:
            assert it.headers["declaration"] == mark
            assert it.headers["ce_type"].endswith(b"firing")


def refusal(stage: Stage, *paths: Path, until: str | None = None) -> str:
    with pytest.raises(SlidestatError) as error:
        seed_with(stage, *paths, until=until)
    assert error.value.advice
    assert stage.checkpoints() == {}
    assert stage.tables() in ({}, {0: {}})
    return error.value.message


def test_what_is_refused(
    make_stage: MakeStage, tmp_path: Path, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told before anything is written."""
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(100))
    records = stage.read(source)[0]
    file = write_events(tmp_path / "events.jsonl", events(100))
    with pytest.raises(SlidestatError, match="has no files"):
        seed_with(stage, tmp_path / "*.csv")
    with pytest.raises(SlidestatError, match="--until is 'noon'"):
        seed_with(stage, file, until="noon")
    with pytest.raises(SlidestatError, match="not in the past"):
        seed_with(stage, file, until="2090-01-01T00:00:00Z")
    with pytest.raises(SlidestatError, match="no records of a topic"):
        seed_with(stage, file)

    def of(name: str, some: list, topic: str | None = None, partition: int = 0) -> Path:
        return write_records(tmp_path / name, {partition: some}, topic)

    all_of_it = of("all.parquet", records)
    changed = of("changed.parquet", [records[50]._replace(value=b"{}")])
    assert "two different records of partition 0, offset 50" in refusal(stage, all_of_it, changed)
    assert "topic 'others'" in refusal(stage, of("others.parquet", records, "others"))
    assert "of partition 3" in refusal(stage, of("more.parquet", records, partition=3))
    other = [it._replace(value=records[0].value) for it in records]
    assert "another record of partition 0, offset 99" in refusal(stage, of("o.parquet", other))
    beyond = [records[0]._replace(offset=100)]
    assert "another record of partition 0, offset 100" in refusal(stage, of("b.parquet", beyond))
    assert "None of 100 rows is counted; 100 are from --until on" in refusal(
        stage, file, until="2023-11-14T22:13:20Z"
    )
    not_events = [(key, b'{"key":"k"}') for key, _ in events(100)]
    lacking = write_events(tmp_path / "lacking.jsonl", not_events)
    assert "missing-field" in refusal(stage, lacking, until=UNTIL)

    place = TopicPartition(source, 0, 60)
    admin.delete_records([place])[place].result(30)
    assert "the broker has deleted what lies before 60" in refusal(
        stage, of("early.parquet", records[:50])
    )
    assert "The broker has deleted the first 60 records" in refusal(stage, file, until=UNTIL)
    enough = of("enough.parquet", records[:60])
    later = make_stage(partitions=1, name="later", source=source)

    def begin(_: str) -> None:
        sender = ChangelogWriter(later.bootstrap, later.changelog)
        sender.send(0, CHECKPOINT_KEY, encode_checkpoint(Checkpoint(7), later.topology.state_label))
        sender.flush()

    with pytest.raises(SlidestatError, match="has states already"):
        seed(later.bootstrap, later.topology, [str(enough)], None, {}, say=begin)
    assert later.checkpoints()[0].next_offset == 7

    class Beside(ChangelogWriter):
        """Another seed leaves its marks behind those of this one."""

        def flush(self) -> None:
            super().flush()
            monkeypatch.undo()
            other = ChangelogWriter(stage.bootstrap, stage.changelog)
            other.send(0, CHECKPOINT_KEY, encode_checkpoint(Checkpoint(0), BEING_SEEDED))
            other.flush()

    monkeypatch.setattr(state_reset, "ChangelogWriter", Beside)
    with pytest.raises(SlidestatError, match="Others wrote to"):
        seed_with(stage, enough)
    with pytest.raises(SlidestatError, match="only partly seeded"):
        stage.checkpoints()
    assert seed_with(stage, enough).counters.counted == 60


def test_another_partitioner_is_refused(make_stage: MakeStage, tmp_path: Path) -> None:
    """Rows of files would be counted on other partitions than their keys' records."""
    stage = make_stage(partitions=3)
    produce(stage.bootstrap, stage.topology.source, events(400), partitioner="consistent")
    file = write_events(tmp_path / "events.jsonl", events(100))
    with pytest.raises(SlidestatError, match="where its rows in files"):
        seed_with(stage, file, until=UNTIL)
    assert stage.tables() == {0: {}, 1: {}, 2: {}}


def test_records_that_were_not_committed_are_refused(make_stage: MakeStage, tmp_path: Path) -> None:
    """Spark's source reads them by default, and a worker does not."""
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(5))
    sender = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": source})
    sender.init_transactions(30)
    sender.begin_transaction()
    key, value = events(1)[0]
    sender.produce(source, value, key, partition=0)
    sender.flush(30)
    sender.abort_transaction(30)
    produce(stage.bootstrap, source, events(5, start=5))
    committed = stage.read(source)[0]
    assert [it.offset for it in committed] == [*range(5), *range(7, 12)]
    aborted = committed[0]._replace(offset=5)
    file = write_records(tmp_path / "all.parquet", {0: [*committed, aborted]})
    assert "a record of partition 0, offset 5. Workers, which read committed" in refusal(
        stage, file
    )
    file = write_records(tmp_path / "all.parquet", {0: committed})
    assert seed_with(stage, file).counters.read == 10
