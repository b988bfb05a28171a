"""`slidestat spark stream` from a real broker."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from slidestat.admin.topics import create_topic, retention_config
from slidestat.errors import SlidestatError
from slidestat.options import StreamSource
from slidestat.spark.backfill.backfill import by_partition
from slidestat.spark.backfill.history import read_topic
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.streaming.job import StreamIntoLake, origin
from slidestat.spark.streaming.operator import PROVIDER
from tests.spark.requests_history import TOPOLOGY, requests

PARTITIONS = 2


def send(bootstrap: str, seed: int) -> None:
    """Send records to each partition of the source."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(PARTITIONS):
        for key, value, timestamp in requests(300, 10 * seed + number):
            producer.produce(
                TOPOLOGY.source, value, key, partition=number, timestamp=timestamp + 100_000 * seed
            )
    assert producer.flush(60) == 0


def test_several_topics_are_refused() -> None:
    """The advice names the one that a stream can read."""
    topology = replace(TOPOLOGY, source="", sources=["eu", "us-*"], lateness="5s")
    with pytest.raises(SlidestatError, match=r"the sources eu, us-\*, and a stream") as raised:
        origin(cast(SparkSession, None), topology, StreamSource.KAFKA, None, "")
    assert f"{TOPOLOGY.name}-repartition" in raised.value.advice


@pytest.mark.long
def test_a_topic_is_counted_by_partition_and_offset(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """In two runs, each to the end of the topic: the records that a worker writes, to the byte."""
    create_topic(bootstrap_servers, TOPOLOGY.source, PARTITIONS, retention_config("forever"))
    lake = Lake(str(tmp_path / "lake"), TOPOLOGY.name)
    try:
        for seed in range(2):
            send(bootstrap_servers, seed)
            rows = origin(spark, TOPOLOGY, StreamSource.KAFKA, None, bootstrap_servers)
            StreamIntoLake(spark, TOPOLOGY, rows, lake, say=lambda _: None).run()
    finally:
        spark.conf.unset(PROVIDER)
    history = read_topic(spark, TOPOLOGY, bootstrap_servers)
    wanted = by_partition(TOPOLOGY, history, PARTITIONS).collect()
    topics = {
        Dataset.STATISTICS: TOPOLOGY.output_topic,
        Dataset.LATE: TOPOLOGY.late_topic,
        Dataset.DEAD_LETTERS: TOPOLOGY.dead_letter_topic,
    }
    for dataset, topic in topics.items():
        found = lake.read(spark, dataset).select("record_partition", "key", "value").collect()
        of_topic = [(it.partition, it.key, it.value) for it in wanted if it.topic == topic]
        assert sorted(map(repr, map(tuple, found))) == sorted(map(repr, of_topic))
        assert found
