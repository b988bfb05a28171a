"""Ingest: topics as Parquet, each record once, whatever happens."""

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import msgspec
import pyarrow.dataset as ds
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from slidestat.engine.emissions.avro_codec import AvroCodec
from slidestat.errors import SlidestatError
from slidestat.schemas.alert import AlertChange, AlertState, Certainty
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.sequence import SequenceAlertChange
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.ingest import Ingest, Ingested
from slidestat.spark.lake.lake import Dataset, Lake
from tests.registry.stand_in import stand_in
from tests.spark.lake_topics import DAY_MS, NOON_MS, Topics, emission, killed_ingest, make_topics

_KILL_WITHIN_S = 120.0


@pytest.fixture
def topics(make_topic: Callable[..., str], bootstrap_servers: str) -> Topics:
    return make_topics(make_topic, bootstrap_servers)


@pytest.fixture
def lake(tmp_path: Path, topics: Topics) -> Lake:
    return Lake(str(tmp_path / "lake"), topics.name)


def an_ingest(
    spark: SparkSession,
    topics: Topics,
    lake: Lake,
    only: Dataset | None = None,
    topic: str = "",
    *,
    allow_loss: bool = False,
    said: list[str] | None = None,
) -> Ingest:
    wanted = {
        dataset: topic or f"{topics.name}-{dataset}"
        for dataset in Dataset
        if only is None or dataset is only
    }
    say = (said if said is not None else []).append
    return Ingest(spark, topics.bootstrap, lake, wanted, 1_000, allow_loss, say)


def places(lake: Lake, dataset: Dataset) -> Counter[tuple[int, int]]:
    """Partition and offset of each row, as any reader of Parquet files sees them."""
    files = ds.dataset(lake.data(dataset), partitioning="hive", exclude_invalid_files=False)
    if not files.files:  # Spark has made the folder, and nothing in it yet.
        return Counter()
    table = files.to_table(columns=["record_partition", "record_offset"])
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_every_kind_of_record_has_its_columns(
    spark: SparkSession, topics: Topics, lake: Lake, make_topic: Callable[..., str]
) -> None:
    """Emissions and alerts as their schemas' columns, letters with their headers' facts, synopses
    as they are; a record that is none of these keeps its bytes, and breaks nothing; a topic without
    records is none that fails; without topics of synopses and alerts there are none.
    """
    e = emission(topics.name, "k", NOON_MS, 7)
    topics.emit([e, b"no JSON", b'{"topology": 5}'])
    topics.refuse("dead-letters", Reason.NOT_JSON, 3, b"\xff")
    topics.foreign("dead-letters", [("reason", b"a"), ("reason", b"b"), ("offset", b"many")])
    found = an_ingest(spark, topics, lake).take_what_is_there()
    assert found == [
        Ingested(Dataset.STATISTICS, f"{topics.name}-statistics", 3, 2, 1),
        Ingested(Dataset.LATE, f"{topics.name}-late", 0, 0, 0),  # Nothing is shuffled.
        Ingested(Dataset.DEAD_LETTERS, f"{topics.name}-dead-letters", 2, 1, 1),
    ]
    rows = lake.read(spark, Dataset.STATISTICS).orderBy("record_offset").collect()
    assert bytes(rows[0].value) == msgspec.json.encode(e)
    assert (rows[0].topology, rows[0].event_key, rows[0].source_offset) == (topics.name, "k", 7)
    assert rows[0].figures[0].asDict()["relative_error"] == 0.2
    assert str(rows[0].date) == "2025-11-25"
    assert [bytes(row.value) for row in rows[1:]] == [b"no JSON", b'{"topology": 5}']
    letters = lake.read(spark, Dataset.DEAD_LETTERS).orderBy("record_offset").collect()
    assert (letters[0].reason, letters[0].topic, letters[0].offset) == (
        "not-json",
        topics.source,
        3,
    )
    assert (bytes(letters[0].value), letters[1].offset) == (b"\xff", None)
    with pytest.raises(SlidestatError, match=r"late has no records.*spark ingest"):
        lake.read(spark, Dataset.LATE)
    with pytest.raises(SlidestatError, match=r"synopses has no records.*publish.*spark backfill"):
        lake.read(spark, Dataset.SYNOPSES)

    for kind in ("synopses", "alerts"):
        make_topic(f"t-{kind}")
    synopses, alerts = (
        Topics(topics.bootstrap, topics.name, f"{topics.name}-{kind}")
        for kind in ("synopses", "alerts")
    )
    synopses.event(b"\x00synopsis")
    place = ("events", 0, 7)
    change = AlertChange(
        *(topics.name, "busy", "k", NOON_MS, AlertState.FIRING, Certainty.LIKELY, NOON_MS - 1),
        *(e.figures, *place),
        provisional=True,
    )
    numbered = SequenceAlertChange(
        *(topics.name, "busy", "k", 90, AlertState.RESOLVED, Certainty.CERTAIN, 30, [], *place)
    )
    alerts.event(msgspec.json.encode(change), msgspec.json.encode(numbered), b"no alert")
    found = an_ingest(spark, topics, lake).take_what_is_there()
    assert found[-1] == Ingested(Dataset.ALERTS, f"{topics.name}-alerts", 3, 1, 1)
    (row,) = lake.read(spark, Dataset.SYNOPSES).collect()
    assert (bytes(row.key), bytes(row.value)) == (b"k", b"\x00synopsis")
    rows = lake.read(spark, Dataset.ALERTS).orderBy("record_offset").collect()
    fields = ("alert", "event_key", "state", "certainty", "since_ms", "provisional")
    assert [tuple(row[field] for field in fields) for row in rows[:2]] == [
        ("busy", "k", "firing", "likely", NOON_MS - 1, True),
        ("busy", "k", "resolved", "certain", 30, None),
    ]
    assert rows[0].figures[0].estimate == 5.0
    assert bytes(rows[2].value) == b"no alert"


def test_statistics_in_avro_are_json_in_the_lake(
    spark: SparkSession, topics: Topics, lake: Lake
) -> None:
    """Under the topic's keys and offsets, each with the columns of its schema; what is no emission
    keeps its bytes; without an answer of the registry nothing is brought, and nothing lost.
    """
    e = emission(topics.name, "k", NOON_MS, 7)
    ingest = an_ingest(spark, topics, lake, Dataset.STATISTICS)
    unknown_schema = b"\0\0\0\0\x09?"
    with stand_in() as registry:
        codec = AvroCodec(f"{topics.name}-statistics", registry.url)
        topics.emit([codec.encode(e), unknown_schema, b"no JSON", e])
        with pytest.raises(SlidestatError, match="No schema registry answers at http://127"):
            replace(ingest, registry="http://127.0.0.1:9").take_what_is_there()
        assert not lake.has(spark, Dataset.STATISTICS)
        (found,) = replace(ingest, registry=registry.url).take_what_is_there()
    assert (found.records, found.unreadable) == (4, 2)
    rows = lake.read(spark, Dataset.STATISTICS).orderBy("record_offset").collect()
    values = [bytes(row.value) for row in rows]
    as_json = msgspec.json.encode(e)
    assert values == [as_json, unknown_schema, b"no JSON", as_json]
    read = [name for name in rows[0].asDict() if not name.startswith("record_")]
    read.remove("key")
    assert [rows[0][name] for name in read] == [rows[3][name] for name in read]


def test_a_second_run_brings_what_is_new(spark: SparkSession, topics: Topics, lake: Lake) -> None:
    """Nothing comes twice, and what later versions write is read beside the older files: a column
    that those lack is null there; fields that this version does not know stay in the bytes.
    """
    ingest = an_ingest(spark, topics, lake, Dataset.STATISTICS)
    topics.emit([emission(topics.name, "k", NOON_MS)])
    ingest.take_what_is_there()
    # As a version wrote it that knew nothing of provisional emissions.
    old = spark.read.parquet(lake.data(Dataset.STATISTICS)).drop("provisional").localCheckpoint()
    shutil.rmtree(lake.data(Dataset.STATISTICS))
    old.write.partitionBy("date", "batch").parquet(lake.data(Dataset.STATISTICS))

    newer = msgspec.json.encode(emission(topics.name, "k", NOON_MS + DAY_MS))
    newer = newer[:-1] + b',"provisional":true,"new":[1]}'
    topics.emit([newer])
    (found,) = ingest.take_what_is_there()
    assert found.records == 1
    rows = lake.read(spark, Dataset.STATISTICS).orderBy("record_offset").collect()
    assert [(row.record_offset, row.provisional) for row in rows] == [(0, None), (1, True)]
    assert bytes(rows[1].value) == newer
    (nothing,) = ingest.take_what_is_there()
    assert nothing.records == 0


def test_it_follows_what_comes(spark: SparkSession, topics: Topics, lake: Lake) -> None:
    """With an interval it brings what is there, and what comes, until it is stopped."""
    ingest = an_ingest(spark, topics, lake, Dataset.STATISTICS)
    following = Thread(target=ingest.follow, args=(200,))
    following.start()
    for count in (1, 2):
        topics.emit([emission(topics.name, "k", NOON_MS)])
        deadline = time.monotonic() + _KILL_WITHIN_S
        while not lake.has(spark, Dataset.STATISTICS) or (
            len(places(lake, Dataset.STATISTICS)) < count
        ):
            assert following.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.2)
    for query in spark.streams.active:
        query.stop()
    following.join(_KILL_WITHIN_S)
    assert not following.is_alive()


def test_killed_in_the_middle_of_a_batch_it_brings_each_record_once(
    spark: SparkSession, topics: Topics, lake: Lake, tmp_path: Path
) -> None:
    """SIGKILL while a batch's files are written; the run after it ends with all records, none of
    them twice, for readers that know nothing of Spark's logs.
    """
    count = 6_000
    topics.emit([emission(topics.name, f"k{i % 50}", NOON_MS + i * 60_000) for i in range(count)])
    file = tmp_path / "topology.py"
    file.write_text(
        "from slidestat.declare.topology import Topology\n"
        f"topology = Topology(name={topics.name!r}, source='events', span='1m', every='1m')\n"
    )
    with killed_ingest(topics, file, lake.root) as (run, log):
        _await_half_a_batch(Path(lake.data(Dataset.STATISTICS)), run, log)
    interrupted = places(lake, Dataset.STATISTICS)
    assert len(interrupted) < count

    an_ingest(spark, topics, lake, Dataset.STATISTICS).take_what_is_there()
    assert places(lake, Dataset.STATISTICS) == Counter((0, offset) for offset in range(count))
    assert not list(Path(lake.data(Dataset.STATISTICS)).glob(".spark-staging-*"))


def _await_half_a_batch(folder: Path, run: subprocess.Popen[bytes], log: Path) -> None:
    """Return while a batch after the second is being written."""
    deadline = time.monotonic() + _KILL_WITHIN_S
    while True:
        assert run.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        if len(list(folder.glob("date=*/batch=1"))) and list(
            folder.glob(".spark-staging-*/date=*/batch=*/*.parquet")
        ):
            return
        time.sleep(0.002)


def test_offsets_that_retention_took(
    spark: SparkSession, topics: Topics, lake: Lake, admin: AdminClient
) -> None:
    """Lost before they were read: the error names the range, and it goes on only if told to; what
    was deleted before the lake began is said, and no error.
    """
    statistics = f"{topics.name}-statistics"

    def emit_and_delete(first: int, count: int, keep_from: int) -> None:
        topics.emit([emission(topics.name, "k", NOON_MS + i) for i in range(first, first + count)])
        where = TopicPartition(statistics, 0, keep_from)
        admin.delete_records([where])[where].result()

    said: list[str] = []
    emit_and_delete(0, 4, keep_from=1)
    an_ingest(spark, topics, lake, Dataset.STATISTICS, said=said).take_what_is_there()
    assert said == [
        f"{statistics} no longer has partition 0 offsets 0 to 0: deleted before this lake began."
    ]
    emit_and_delete(4, 6, keep_from=8)
    with pytest.raises(SlidestatError, match=r"partition 0 offsets 4 to 7: the broker") as caught:
        an_ingest(spark, topics, lake, Dataset.STATISTICS).take_what_is_there()
    assert "--allow-loss" in caught.value.advice
    assert places(lake, Dataset.STATISTICS).keys() == {(0, 1), (0, 2), (0, 3)}

    ingest = an_ingest(spark, topics, lake, Dataset.STATISTICS, allow_loss=True, said=said)
    ingest.take_what_is_there()
    assert said[1] == f"{statistics} no longer has partition 0 offsets 4 to 7: left out."
    assert sorted(places(lake, Dataset.STATISTICS)) == [(0, o) for o in (1, 2, 3, 8, 9)]


def test_a_checkpoint_of_something_else(
    spark: SparkSession, topics: Topics, lake: Lake, make_topic: Callable[..., str]
) -> None:
    """Another topic's, another program's, one that is gone, a damaged one, no topic: each is told,
    and nothing is written.
    """
    topics.emit([emission(topics.name, "k", NOON_MS)])
    an_ingest(spark, topics, lake, Dataset.STATISTICS).take_what_is_there()
    before = places(lake, Dataset.STATISTICS)

    def refused(because: str, topic: str = "") -> None:
        with pytest.raises(SlidestatError, match=because) as caught:
            an_ingest(spark, topics, lake, Dataset.STATISTICS, topic).take_what_is_there()
        assert caught.value.advice
        assert places(lake, Dataset.STATISTICS) == before

    other = make_topic("other")
    refused("the checkpoint of another job: ingest of .*-statistics, not ingest of .*-other", other)
    refused("There is no topic", f"{other}-nowhere")
    files, owner = LakeFiles(spark), f"{lake.checkpoint(Dataset.STATISTICS)}/slidestat.json"
    right = files.read(owner)
    files.write(owner, right.replace('"topic_identity": "', '"topic_identity": "x'))
    refused("of another topic .*: that one was deleted")
    files.write(owner, "{}")
    refused("is damaged")
    Path(owner).write_text("half")
    refused("cannot be used: .*ChecksumException")
    files.remove(owner)
    refused("the checkpoint of another program")
    shutil.rmtree(lake.checkpoint(Dataset.STATISTICS))
    refused("their checkpoint .* is gone")
    files.write(lake.backfilled, "{}")
    refused("was filled by a backfill")
