"""Alerts and rankings of history: the bytes of a worker, and of a referee."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest
from pyspark.sql import Row, SparkSession

from slidestat import Alert, Ranking, Referee, RefereeDriver
from slidestat.declare.slos import Slo
from slidestat.declare.statistics import Count, Mean, Quantiles
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.alert_headers import headers_of_alert
from slidestat.kafka.partitioner import expected_places
from slidestat.schemas.emission import Emission
from slidestat.schemas.ranking import Ranking as DecodedRanking, decode_ranking
from slidestat.spark.backfill.backfill import by_partition, fill_lake
from slidestat.spark.backfill.by_key import spread_by_key, spreads_keys
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.testing.records import MemoryStore
from tests.spark.requests_history import NOON, TOPOLOGY, Record, history_of, send_all

ALERTING = replace(
    TOPOLOGY,
    span="10m",
    windows=("1m", "10m"),
    every="20s",
    statistics=(Count(), Mean(), Quantiles(quantiles=(0.9,))),
    alerts=(
        Alert(name="busy", window="1m", when="count > 25", resolve="count < 15"),
        Alert(name="slow", when="mean_1m > 1.3 * mean_10m", for_="1m"),
        Alert(name="silent", window="1m", when="count = 0"),
        Alert(name="fell", when="count_1m < ago(count_1m, '5m') / 2"),
        Alert(name="moved", change="mean", window="10m", delta=0.01),
    ),
    slos=(Slo(name="up", good="value < 60", objective=0.9, alerts=["2 over 10m and 1m as page"]),),
)


def _waves(seed: int, keys: Sequence[str], seconds: int = 3_600) -> list[Record]:
    """Records whose pace and values go up and down, with silences and late ones."""
    chance, found = Random(seed), []
    for second in range(seconds):
        phase = second // 400 % 3
        for key in keys:
            if chance.random() < (0.1, 0.9, 0.02)[phase]:
                value = chance.uniform(0.5, 1.5) * (20 if second < seconds // 2 else 60)
                event = {
                    "key": key,
                    "time": NOON + 1_000 * second - chance.choice([0, 0, 2_500, 9_000]),
                    "value": value,
                }
                found.append((key.encode(), msgspec.json.encode(event), NOON + 1_000 * second))
    return found


Written = list[tuple[bytes, bytes, int, list[tuple[str, bytes]]]]


def _of_worker(topology: Topology, records: Sequence[Record], number: int, count: int) -> Written:
    places = expected_places(topology.expected, count)
    processor = PartitionProcessor(
        topology, topology.source, number, MemoryStore(), expected=places
    )
    alerts = []
    for first in range(0, len(records), 173):
        keys, values, stamps = (list(c) for c in zip(*records[first : first + 173], strict=True))
        offsets = np.arange(first, first + len(keys), dtype=np.int64)
        batch = RecordBatch(topology.source, number, offsets, keys, values, stamps, first)
        alerts += processor.process(batch).alerts
    return [
        (*it, headers_of_alert(it, topology) if topology.alert_headers else []) for it in alerts
    ]


def _alerts_of(rows: Sequence[Row], topology: Topology, number: int) -> Written:
    return [
        (
            *(bytes(row.key), bytes(row.value), round(row.timestamp.timestamp() * 1000)),
            [(it.key, bytes(it["value"])) for it in row.headers if it.key != "declaration"],
        )
        for row in rows
        if (row.topic, row.partition) == (topology.alert_topic, number)
    ]


@pytest.mark.parametrize("headers", ["", "cloudevents"])
def test_alerts_are_those_of_a_worker(spark: SparkSession, headers: str) -> None:
    """Of every kind, byte for byte and in its order; by key the same ones."""
    topology = replace(ALERTING, alert_headers=headers)
    parts = [_waves(seed, [f"{seed}{name}" for name in "abc"]) for seed in range(2)]
    history = history_of(spark, parts)
    rows = by_partition(topology, history, 2).collect()
    for number, records in enumerate(parts):
        wanted = _of_worker(topology, records, number, 2)
        assert len(wanted) > 30
        names = {msgspec.json.decode(value)["alert"] for _, value, _, _ in wanted}
        assert names == {"busy", "slow", "silent", "fell", "moved", "up_page_10m"}
        assert _alerts_of(rows, topology, number) == wanted
    assert spreads_keys(topology, cores=3, partitions=2)
    with spread_by_key(topology, history, 3, 2) as found:
        spread = found.written.collect()
    for number in range(2):
        there = _alerts_of(spread, topology, number)
        assert sorted(there) == sorted(_alerts_of(rows, topology, number))


def test_a_lake_has_the_alerts_of_history(spark: SparkSession, tmp_path: Path) -> None:
    """Those of expected keys that never came as well; and a key is not split."""
    topology = replace(ALERTING, name="alerting", expected=("0a", "never"))
    assert not spreads_keys(topology, cores=3, partitions=1)
    records = _waves(0, ["0a", "0b"])
    lake = Lake(str(tmp_path), topology.name)
    history = history_of(spark, [records])
    with pytest.raises(SlidestatError, match="alerting has alerts, which go on from one tick"):
        fill_lake(topology, history, lake, split_hot_keys=True)
    filled = fill_lake(topology, history, lake)
    wanted = _of_worker(topology, records, 0, 1)
    found = lake.read(spark, Dataset.ALERTS).collect()
    assert filled.counts["alerts"] == len(wanted)
    assert sorted((bytes(it.key), bytes(it.value)) for it in found) == sorted(
        (key, value) for key, value, _, _ in wanted
    )
    assert {it.event_key for it in found} == {"0a", "0b", "never"}
    with pytest.raises(SlidestatError, match="has records already"):
        fill_lake(topology, history, lake)


RANKED = replace(
    TOPOLOGY,
    span="10m",
    windows=("1m", "10m"),
    every="20s",
    statistics=(Count(), Quantiles(quantiles=(0.5,))),
    rankings=(
        Ranking(name="slowest", by="p50_10m", largest=3, having="count_10m >= 4"),
        Ranking(name="quietest", by="count_1m", smallest=2),
    ),
)


def test_rankings_are_those_of_a_referee(spark: SparkSession, tmp_path: Path) -> None:
    """Final ones byte for byte, but for the place of a record on a topic that is not there; and in
    the same lake what its audit needs.
    """
    referee = Referee(of=RANKED, patience="2m")
    names = [[f"{seed}{name}" for name in "abcd"] for seed in range(3)]
    parts = [_waves(seed, keys, seconds=1_300) for seed, keys in enumerate(names)]
    driver = RefereeDriver(referee, 3)
    # As records of a topic would come: of each partition those of some seconds, then of the next.
    for first in range(0, 1_300, 5):
        come = range(NOON + 1_000 * first, NOON + 1_000 * (first + 5))
        for number, records in enumerate(parts):
            if stretch := [it for it in records if it[2] in come]:
                send_all(driver.parties, stretch, number)
    driver.send()
    lake = Lake(str(tmp_path), referee.name)
    filled = fill_lake(referee, history_of(spark, parts), lake, 3)
    assert filled.refusals.total == len(driver.parties.late) > 0

    rows = lake.read(spark, Dataset.RANKINGS).collect()
    found = [decode_ranking(bytes(row.value)) for row in rows]
    assert len(found) == filled.counts["rankings"]
    keys = {bytes(row.key) for row in rows}
    assert len(keys) == len(found)
    wanted = [it for it in driver.rankings if not it.provisional]
    assert len(wanted) > 100
    assert len(driver.rankings) > len(wanted)
    assert _without_places(it for it in found if not it.provisional) == _without_places(wanted)
    published = lake.read(spark, Dataset.SYNOPSES).collect()
    assert sorted((bytes(it.key), bytes(it.value)) for it in published) == sorted(
        (it.key, it.value) for it in driver.parties.published
    )


def _without_places(rankings: Iterable[DecodedRanking]) -> list[DecodedRanking]:
    found = [msgspec.structs.replace(it, source_offset=0) for it in rankings]
    return sorted(found, key=lambda it: (it.ranking, it.window_end_ms))


def test_a_party_that_ends_early_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Rankings that come after the patience are provisional, as where a worker has stopped; also
    of a partition without a record.
    """
    referee = Referee(of=RANKED, patience="2m")
    lake = Lake(str(tmp_path), referee.name)
    parts = [_waves(0, ["a"], seconds=1_200), _waves(1, ["b"], seconds=600), []]
    filled = fill_lake(referee, history_of(spark, parts), lake, 3)
    rows = lake.read(spark, Dataset.RANKINGS).collect()
    found = [decode_ranking(bytes(row.value)) for row in rows]
    assert len(found) == filled.counts["rankings"]
    assert all(it.provisional for it in found)
    absent = {tuple(party.party for party in it.absent or ()) for it in found}
    assert absent == {("requests/2",), ("requests/1", "requests/2")}


def test_a_referee_of_figures_answers_for_history(spark: SparkSession, tmp_path: Path) -> None:
    """As its own answers are: over all partitions, byte for byte."""
    of = replace(TOPOLOGY, statistics=(Count(), Mean()), publish="partition")
    referee = Referee(of=of, patience="2m")
    parts = [_waves(seed, ["a", "b"], seconds=900) for seed in range(2)]
    driver = RefereeDriver(referee, 2)
    for number, records in enumerate(parts):
        send_all(driver.parties, records, number)
    driver.send()
    lake = Lake(str(tmp_path), referee.name)
    fill_lake(referee, history_of(spark, parts), lake, 2)
    rows = lake.read(spark, Dataset.STATISTICS).collect()
    final = [it for it in driver.emissions if not it.provisional]
    found = [JsonCodec().decode(bytes(it.value)) for it in rows]
    found = [it for it in found if not it.provisional]
    assert len(final) > 50

    def told(emissions: Iterable[Emission]) -> list[Emission]:
        plain = [msgspec.structs.replace(it, source_offset=0) for it in emissions]
        return sorted(plain, key=lambda it: (it.key, it.window_end_ms))

    assert told(found) == told(final)
