"""Backfill against what the streaming side writes for the same records: the same bytes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import Row, SparkSession

from slidestat import TopologyDriver
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.statistics import Count, Distinct, Mean, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.emissions.output_records import OutputRecord
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.options import TimeUnit
from slidestat.produce.cells import epoch_ms
from slidestat.produce.events import Columns
from slidestat.produce.produce import produce_file
from slidestat.spark.backfill.backfill import backfill, fill_lake
from slidestat.spark.backfill.history import Files, read_files, read_topic
from slidestat.spark.lake.lake import Lake
from slidestat.testing.records import MemoryStore
from tests.broker.workers import wait_until
from tests.spark.requests_history import NOON, TOPOLOGY, Record, history_of, requests, send_all


def _streamed(records: Sequence[Record], partition: int) -> tuple[list[OutputRecord], MemoryStore]:
    """What a worker emits for the records of a partition, and the states that it then has."""
    store = MemoryStore()
    processor = PartitionProcessor(TOPOLOGY, TOPOLOGY.source, partition, store)
    emissions = []
    for first in range(0, len(records), 173):
        keys, values, stamps = (list(c) for c in zip(*records[first : first + 173], strict=True))
        offsets = np.arange(first, first + len(keys), dtype=np.int64)
        batch = RecordBatch(TOPOLOGY.source, partition, offsets, keys, values, stamps, first)
        emissions += processor.process(batch).emissions
    snapshot = processor.snapshot()
    assert snapshot is not None
    store.write([*snapshot.states.items(), (None, snapshot.checkpoint)])
    return emissions, store


def _bytes(rows: Sequence[Row]) -> list[tuple[bytes, bytes]]:
    return [(bytes(row.key), bytes(row.value)) for row in rows]


def test_emissions_letters_and_synopses_are_those_of_a_worker(spark: SparkSession) -> None:
    """Of three partitions with late, bad and future records: the same emissions in the same order,
    byte for byte, the same letters, and the same synopses of each key.
    """
    parts = [requests(2_000, seed) for seed in range(3)]
    rows = backfill(TOPOLOGY, history_of(spark, parts)).collect()
    for number, records in enumerate(parts):
        of_this = [row for row in rows if row.partition == number]
        emissions, store = _streamed(records, number)
        written = [row for row in of_this if row.topic == TOPOLOGY.output_topic]
        assert _bytes(written) == [(key, value) for key, value, _ in emissions]
        stamps = [round(row.timestamp.timestamp() * 1000) for row in written]
        assert stamps == [timestamp for _, _, timestamp in emissions]
        marks = {(h.key, bytes(h["value"])) for row in written for h in row.headers}
        assert marks == {("declaration", fingerprint_of(TOPOLOGY).encode())}

        driver = TopologyDriver(TOPOLOGY, partitions=3)
        send_all(driver, records, number)
        for topic, letters in (
            (TOPOLOGY.dead_letter_topic, driver.dead_letters),
            (TOPOLOGY.late_topic, driver.late),
        ):
            assert letters
            found = [row for row in of_this if row.topic == topic]
            assert [row.value for row in found] == [letter.value for letter in letters]
            heads = [{h["key"]: bytes(h["value"]) for h in row.headers} for row in found]
            assert [(h["reason"], h["detail"], h["offset"]) for h in heads] == [
                (one.reason.encode(), one.detail.encode(), str(one.offset).encode())
                for one in letters
            ]

        synopses = {
            tuple(msgspec.json.decode(bytes(row.key))): bytes(row.value)
            for row in of_this
            if row.topic == "filled-synopses"
        }
        assert len({key for _, _, key, _ in synopses}) > 10
        states = dict(store.scan())
        for (topology, statistic, key, party), synopsis in synopses.items():
            assert (topology, party) == ("filled", f"requests/{number}")
            assert statistic in TOPOLOGY.labels
            assert synopsis in states[key]  # the state has the bytes of each of its synopses


@pytest.mark.parametrize("publish", [("k1", "k7"), "partition"])
def test_what_partitions_publish_is_that_of_a_worker(
    spark: SparkSession, publish: str | tuple[str, ...]
) -> None:
    """The synopses of each tick and the clocks, byte for byte, each where the referee reads it; and
    no other synopses beside them.
    """
    statistics = (Count(epsilon=0.05), Mean(epsilon=0.1))
    topology = replace(TOPOLOGY, statistics=statistics, publish=publish)
    parts = [requests(1_200, seed) for seed in range(2)]
    driver = TopologyDriver(topology, partitions=2)
    for number, records in enumerate(parts):
        send_all(driver, records, number)
    rows = backfill(topology, history_of(spark, parts), partitions=2).collect()
    written = _synopses(rows)
    assert len(written) > 30
    assert sorted(written) == sorted(tuple(record) for record in driver.published)
    emissions = [bytes(row.value) for row in rows if row.topic == topology.output_topic]
    assert sorted(emissions) == sorted(map(JsonCodec().encode, driver.emissions))


def _synopses(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    return [
        (
            *(row.partition, bytes(row.key), bytes(row.value)),
            round(row.timestamp.timestamp() * 1000),
            [(header.key, bytes(header["value"])) for header in row.headers],
        )
        for row in rows
        if row.topic == "filled-synopses"
    ]


def test_synopses_at_an_interval_are_those_that_would_be_published(spark: SparkSession) -> None:
    """Each key has, tick by tick, the records that a worker of the topology writes, and at the end
    one more; emissions are what they are without.
    """
    plain = replace(TOPOLOGY, statistics=(Count(epsilon=0.05), Mean(epsilon=0.1)))
    topology = replace(plain, synopses=f"{2 * plain.every_ms}ms")
    parts = [requests(1_200, seed) for seed in range(2)]
    published: list[tuple[object, ...]] = []
    for number, records in enumerate(parts):
        # Each has keys of the other: a worker would stop.
        driver = TopologyDriver(topology, partitions=2)
        send_all(driver, records, number)
        published += map(tuple, driver.published)
    history = history_of(spark, parts)
    rows = backfill(topology, history, 2).collect()
    written = _synopses(rows)
    ticks = [it for it in written if it[3] % topology.synopses_ms == 0]
    assert len({it[3] for it in ticks}) >= 3
    assert sorted(ticks) == sorted(published)
    keys = {bytes(row.key) for row in rows if row.topic == "filled-synopses"}
    assert 0 < len(written) - len(ticks) <= len(keys)
    emitted = [row for row in rows if row.topic == "filled-statistics"]
    without = backfill(plain, history, 2).where("topic = 'filled-statistics'").collect()
    assert sorted(_bytes(emitted)) == sorted(_bytes(without))


def _write(file: Path, rows: int) -> tuple[pa.Table, Path]:
    chance = np.random.default_rng(11)
    times = NOON + np.sort(chance.integers(0, 3_600_000, rows))
    table = pa.table(
        {
            "at": pa.array(times, pa.timestamp("ms")),
            "airport": [f"A{n}" for n in chance.integers(0, 40, rows)],
            "delay": chance.integers(-20, 300, rows).astype(np.int16),
            "destination": [f"D{n}" for n in chance.integers(0, 9, rows)],
        }
    )
    if file.suffix == ".csv":
        pa.csv.write_csv(table, file)
    else:
        pq.write_table(table, file)
    return table, file


FLIGHTS = Topology(
    name="flown",
    source="flights",
    span="30m",
    windows=("10m", "30m"),
    every="5m",
    statistics=(Count(), Mean(epsilon=0.1), Distinct(field="destination")),
)
NAMES = {"key": "airport", "time": "at", "value": "delay"}


@pytest.mark.parametrize(
    ("unit", "kind"),
    [("s", pa.float64()), ("ms", pa.float64())]
    + [(unit, kind) for unit in ("us", "ns") for kind in (pa.int64(), pa.float64())],
)
def test_times_between_two_milliseconds_are_those_of_produce(
    unit: str, kind: pa.DataType, spark: SparkSession, tmp_path: Path
) -> None:
    """Rounded down, in doubles as in whole numbers, also where a double has no room for all."""
    in_ns = [
        NOON * 10**6 + step * 999_999_999 - behind for step in range(40) for behind in (1, 256)
    ]
    per_unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    times = pa.array(
        [ns / per_unit if kind == pa.float64() else ns // per_unit for ns in in_ns], kind
    )
    pq.write_table(
        pa.table(
            {
                "key": ["a"] * len(times),
                "time": times,
                "value": [1.0] * len(times),
                "size": [1.0] * len(times),
                "path": ["/"] * len(times),
            }
        ),
        tmp_path / "x.parquet",
    )
    files = Files(str(tmp_path / "x.parquet"), "parquet", time_unit=unit)
    history = read_files(spark, TOPOLOGY, files)
    read = history.read(history.rows.toArrow().to_batches())
    found = [time for _, batch in read for time in batch.timestamps]
    sent = epoch_ms(times, TimeUnit(unit))
    assert found == sorted(sent.to_pylist())


@pytest.mark.long
def test_a_key_of_two_partitions_fills_no_lake(spark: SparkSession, tmp_path: Path) -> None:
    """Each partition would give a part of it for the whole; of one partition, all is written. Where
    partitions publish, a referee has the whole.
    """
    parts = [requests(400, seed, of_all=()) for seed in (1, 2)]
    lake = Lake(str(tmp_path), TOPOLOGY.name)
    with pytest.raises(SlidestatError, match=r"The key 'k0' \(key\) is in partitions 0 and 1"):
        fill_lake(TOPOLOGY, history_of(spark, parts), lake)
    assert not lake.has(spark, "statistics")
    assert not list(tmp_path.rglob("*.parquet"))
    assert fill_lake(TOPOLOGY, history_of(spark, parts[:1]), lake).counts["statistics"] > 0
    publishing = replace(TOPOLOGY, name="whole", statistics=(Count(),), publish="partition")
    whole = Lake(str(tmp_path), publishing.name)
    filled = fill_lake(publishing, history_of(spark, parts), whole, partitions=2)
    assert filled.counts["synopses"] > 0


@pytest.mark.parametrize("name", ["flights.parquet", "flights.csv"])
def test_rows_of_files_become_the_events_that_would_have_been_sent(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """A file's rows, each under its key in the partition where Kafka's clients put it, give the
    emissions that the same events give when they are sent.
    """
    table, file = _write(tmp_path / name, 3_000)
    files = Files(str(file), file.suffix[1:], NAMES, partitions=4)
    rows = backfill(FLIGHTS, read_files(spark, FLIGHTS, files)).collect()
    driver = TopologyDriver(FLIGHTS, partitions=4)
    events = [
        {
            "key": row["airport"],
            "time": int(row["at"].timestamp() * 1000),
            "value": row["delay"],
            "destination": row["destination"],
        }
        for row in table.to_pylist()
    ]
    send_all(
        driver, [(it["key"].encode(), msgspec.json.encode(it), it["time"]) for it in events], None
    )
    assert not driver.dead_letters
    encode = JsonCodec().encode
    written = [bytes(row.value) for row in rows if row.topic == FLIGHTS.output_topic]
    assert len(written) > 400
    assert sorted(written) == sorted(map(encode, driver.emissions))
    assert {row.topic for row in rows} == {"flown-statistics", "flown-synopses"}
    assert len({row.partition for row in rows}) == 4


def test_what_a_worker_passes_over_is_not_filled_in(spark: SparkSession) -> None:
    """Conditions of the topology and of a statistic, byte for byte as in a stream."""
    some = Count(name="small", where="value < 1 and path like '/%'")
    topology = replace(TOPOLOGY, where="path <> '/a'", statistics=(*TOPOLOGY.statistics, some))
    records = requests(2_000, 0)
    rows = backfill(topology, history_of(spark, [records])).collect()
    driver = TopologyDriver(topology)
    send_all(driver, records, 0)
    encode = JsonCodec().encode
    written = [bytes(row.value) for row in rows if row.topic == topology.output_topic]
    assert written == [encode(emission) for emission in driver.emissions]
    late = [row.value for row in rows if row.topic == topology.late_topic]
    assert late == [letter.value for letter in driver.late]
    assert late
    assert not any(b'"/a"' in value for value in late)


def test_a_topic_gives_what_its_records_give(
    spark: SparkSession, bootstrap_servers: str, make_topic, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    """Records that `slidestat produce` sent to three partitions of a real topic; and the letter of
    one that is none has its headers.
    """
    table, file = _write(tmp_path / "flights.parquet", 2_000)
    topology = Topology(
        name="flown",
        source=make_topic(partitions=3),
        span="30m",
        every="5m",
        statistics=(Count(), Sum(field="shifted")),
    )
    shifted = pa.array(table["delay"].to_numpy() + 20)
    pq.write_table(table.append_column("shifted", shifted), file)
    columns = Columns("airport", "at", "delay", more=("shifted",))
    produce_file(file, bootstrap_servers, topology.source, columns=columns)
    headers = [("trace", b"\xff\x00"), ("trace", None), ("größe", b""), ("reason", b"mine")]
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topology.source, b"no JSON", b"k", partition=1, headers=headers)
    assert producer.flush(60) == 0

    rows = backfill(topology, read_topic(spark, topology, bootstrap_servers)).collect()
    driver = TopologyDriver(topology, partitions=3)
    for row in table.append_column("shifted", shifted).to_pylist():
        time = int(row["at"].timestamp() * 1000)
        event = {"key": row["airport"], "time": time, "shifted": row["shifted"]}
        driver.send(event, timestamp=time)
    written = [bytes(row.value) for row in rows if row.topic == topology.output_topic]
    assert sorted(written) == sorted(map(JsonCodec().encode, driver.emissions))
    (letter,) = [row for row in rows if row.topic == topology.dead_letter_topic]
    kept = [(header.key, header["value"]) for header in letter.headers]
    assert kept[:4] == [*headers[:3], ("original_header_reason", b"mine")]


def test_a_lake_is_filled_once(spark: SparkSession, tmp_path: Path) -> None:
    """What a backfill writes is read as a lake that was ingested; a second one is refused."""
    parts = [requests(1_500, 1)]
    lake = Lake(str(tmp_path / "lake"), TOPOLOGY.name)
    counts = fill_lake(TOPOLOGY, history_of(spark, parts), lake).counts
    emissions, _ = _streamed(parts[0], 0)
    assert counts["statistics"] == len(emissions)
    assert min(counts.values()) > 0
    statistics = lake.read(spark, "statistics")
    assert sorted(_bytes(statistics.collect())) == sorted((k, v) for k, v, _ in emissions)
    assert statistics.where("event_key IS NULL OR size(figures) = 0").count() == 0
    with pytest.raises(SlidestatError, match="has records already"):
        fill_lake(TOPOLOGY, history_of(spark, parts), lake)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (Files("no-such-folder"), "no-such-folder"),
        (Files("flights.parquet", columns={"key": "nowhere"}), "no column 'nowhere'"),
        (Files("flights.csv"), "flights.csv cannot be read: .*not a parquet file"),
    ],
)
def test_files_that_will_not_do_are_refused(
    spark: SparkSession, tmp_path: Path, files: Files, told: str
) -> None:
    """A path without files, one with files of another format, and a column that is not there, each
    get one clear error.
    """
    _write(tmp_path / "flights.parquet", 10)
    _write(tmp_path / "flights.csv", 10)
    path = tmp_path / files.path
    with pytest.raises(SlidestatError, match=told) as caught:
        read_files(spark, FLIGHTS, Files(str(path), columns=NAMES | dict(files.columns)))
    assert caught.value.advice


def test_a_cell_of_a_csv_that_is_no_number_is_refused_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Though it makes its whole column one of texts; and so a time that is none."""
    path = tmp_path / "rows.csv"
    values = ["1", " 2.5 ", "abc", "1e1", "4d", "", "NaN", "-1", "+3", ".5"]
    lines = [f"a,{NOON + 1_000 * i},{value},/" for i, value in enumerate(values)]
    path.write_text("\n".join(["key,time,value,path", *lines, "a,soon,1,/", "a,,1,/"]) + "\n")
    topology = replace(TOPOLOGY, statistics=(Sum(decimals=1),), lateness="0s")
    history = read_files(spark, topology, Files(str(path), "csv"))
    counted, refused = [], []
    decoder = EventDecoder(topology)
    for _, batch in history.read(history.rows.toArrow().to_batches()):
        events = decoder.decode(batch.values, batch.keys, batch.timestamps)
        counted += events.numbers[0].tolist()
        refused += [refusal.reason for refusal in events.refusals]
    assert sorted(number for number in counted if number == number) == [0.5, 1.0, 2.5, 3.0, 10.0]
    assert len(refused) == 7


def test_a_topic_that_is_made_anew_while_it_is_read_fills_no_lake(
    spark: SparkSession, bootstrap_servers: str, admin: AdminClient, make_topic, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    """Some of its records may be of the one, and some of the other."""
    topology = replace(TOPOLOGY, source=make_topic())
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, value, _ in requests(100, 0):
        producer.produce(topology.source, value, key)
    assert producer.flush(60) == 0
    history = read_topic(spark, topology, bootstrap_servers)
    admin.delete_topics([topology.source])[topology.source].result()
    wait_until(lambda: topology.source not in admin.list_topics(timeout=5).topics, "gone", 30)
    assert make_topic() == topology.source
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, value, _ in requests(100, 1):
        producer.produce(topology.source, value, key)
    assert producer.flush(60) == 0
    lake = Lake(str(tmp_path), topology.name)
    with pytest.raises(SlidestatError, match="was deleted and made anew while it was read"):
        fill_lake(topology, history, lake)
    assert not lake.has(spark, "statistics")
