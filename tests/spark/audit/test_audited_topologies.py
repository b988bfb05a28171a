"""Audits of topologies whose records are moved by key, some of whose keys are published, or whose
event times are numbers of a sequence.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import typer
from confluent_kafka import Producer

from slidestat import TopologyDriver
from slidestat.cli.spark import audit, ingest
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.spark.figures import read_statistics
from tests.spark.lake_topics import NOON_MS, make_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATISTICS = (
    '[[statistics]]\nkind = "mean"\nfield = "seconds"\n[[statistics]]\nkind = "count"\n'
    '[[statistics]]\nkind = "sum_histogram"\nfield = "seconds"\nby = "value"\nedges = [2, 5]\n'
)


def _records() -> list[bytes]:
    """Half an hour of three keys."""
    return [
        msgspec.json.encode({"name": f"K{i % 3}", "time": NOON_MS + 6_000 * i, "value": i % 7})
        for i in range(300)
    ]


def _move(bootstrap: str, topic: str, records: list[bytes]) -> int:
    """Write records as a mover does, behind a transaction that was aborted; the first offset."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    for written, ends in ((records[:5], producer.abort_transaction), (records, None)):
        producer.begin_transaction()
        for record in written:
            producer.produce(topic, record, b"k", partition=0)
        producer.flush(60)
        (ends or producer.commit_transaction)(60)
    return 5 + 1


@pytest.mark.long
@pytest.mark.usefixtures("jobs_in_one_session")
@pytest.mark.parametrize("how", ["repartition = true", 'publish = ["k1"]'])
def test_every_key_that_is_emitted_is_audited(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    how: str,
) -> None:
    """By computed keys and values: of moved records those that were committed count, and of a
    topology that publishes a key the others are due.
    """
    topics = make_topics(make_topic, bootstrap_servers)
    file, lake = tmp_path / "topology.toml", str(tmp_path / "lake")
    file.write_text(
        f'name = "{topics.name}"\nsource = "{topics.source}"\nspan = "10m"\nevery = "1m"\n'
        f'windows = ["2m", "10m"]\nlateness = "1s"\n{how}\nkey_field = "who"\n'
        'computed = ["lower(name) as who", "value / 1000 as seconds"]\n' + STATISTICS
    )
    topology = load_topology(str(file))
    driver = TopologyDriver(topology)
    driver.send_bytes(*_records())
    first = 0
    if topology.repartition:
        first = _move(bootstrap_servers, make_topic("t-repartition", 1), _records())
    else:
        topics.event(*_records())
    emitted = [
        msgspec.structs.replace(one, source_offset=one.source_offset + first)
        for one in driver.emissions
    ]
    published = set(topology.publish)
    assert {one.key for one in emitted} == {"k0", "k1", "k2"} - published
    topics.emit(emitted, fingerprint_of(topology))
    ingest(str(file), lake, bootstrap=bootstrap_servers)
    audit(str(file), lake, bootstrap=bootstrap_servers)
    said = capsys.readouterr().out
    assert f"in {len(emitted):,} emissions audited: every promise kept" in said
    assert ("published, so audited with the referee that answers for them: k1" in said) == bool(
        published
    )
    assert "unaccounted" not in said


@pytest.mark.usefixtures("jobs_in_one_session")
def test_windows_from_before_a_seed_fail_and_it_is_named(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The topic lacks their events, and the worker's figures have them; windows behind it hold."""
    topics = make_topics(make_topic, bootstrap_servers)
    file, lake = tmp_path / "topology.toml", str(tmp_path / "lake")
    file.write_text(
        f'name = "{topics.name}"\nsource = "{topics.source}"\nspan = "2m"\nevery = "1m"\n'
        'key_field = "name"\n[[statistics]]\nkind = "count"\n'
    )
    topology, records = load_topology(str(file)), _records()
    driver = TopologyDriver(topology)
    driver.send_bytes(*records)
    seeded = 150
    topics.event(*records[seeded:])
    emitted = [
        msgspec.structs.replace(one, source_offset=one.source_offset - seeded)
        for one in driver.emissions
        if one.source_offset > seeded
    ]
    topics.emit(emitted, fingerprint_of(topology))
    ingest(str(file), lake, bootstrap=bootstrap_servers)
    with pytest.raises(typer.Exit) as ended:
        audit(str(file), lake, bootstrap=bootstrap_servers)
    said = capsys.readouterr().out
    assert ended.value.exit_code == 1
    assert "windows that begin before a `slidestat seed` fail, too" in said
    first = NOON_MS + 6_000 * seeded
    spans = [one.window_end_ms - 120_000 for one in emitted]
    assert 0 < sum(start < first for start in spans) < len(spans)
    assert f"{sum(start < first for start in spans)} " in said


@pytest.mark.long
@pytest.mark.usefixtures("jobs_in_one_session")
@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_sequence_is_audited(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spark: "SparkSession",
    is_wrong: bool,
) -> None:
    """By numbers of events, in records of version 2; a wrong count is found, and figures are read
    with their numbers in place of times.
    """
    topics = make_topics(make_topic, bootstrap_servers)
    file, lake = tmp_path / "topology.toml", str(tmp_path / "lake")
    file.write_text(
        f'name = "{topics.name}"\nsource = "{topics.source}"\nspan = "100 events"\n'
        'every = "10 events"\nwindows = ["20 events", "100 events"]\nlateness = "5 events"\n'
        'time_format = "sequence"\ntime_field = "n"\nkey_field = "name"\n'
        '[[statistics]]\nkind = "count"\n[[statistics]]\nkind = "mean"\nfield = "value"\n'
    )
    topology = load_topology(str(file))
    driver = TopologyDriver(topology)
    records = [
        msgspec.json.encode({"name": f"K{i % 3}", "n": i, "value": i % 7})
        for i in (*range(50), 55, *range(51, 55), *range(56, 300))
    ]
    driver.send_bytes(*records)
    topics.event(*records)
    emitted = driver.emissions
    if is_wrong:
        first, *others = emitted[-1].figures
        wrong = msgspec.structs.replace(first, estimate=90.0, lower=90.0, upper=90.0)
        emitted[-1] = msgspec.structs.replace(emitted[-1], figures=[wrong, *others])
    topics.emit(emitted, fingerprint_of(topology))
    ingest(str(file), lake, bootstrap=bootstrap_servers)
    with pytest.raises(typer.Exit) if is_wrong else nullcontext():
        audit(str(file), lake, bootstrap=bootstrap_servers)
    said = capsys.readouterr().out
    promised = f"in {len(emitted):,} emissions audited: every promise kept"
    assert (promised in said) == (not is_wrong)
    assert "unaccounted" not in said
    figures = read_statistics(spark, lake, topology.name).collect()
    assert {row.window_end_seq for row in figures} == {one.window_end_ms for one in emitted}
    assert {row.window_end for row in figures} == {None}
