"""Rows of a stream as shards' records, in order, and what shards write as rows."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from slidestat import TopologyDriver
from slidestat.declare.alerts import Alert
from slidestat.declare.statistics import Count, Mean
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.errors import SlidestatError
from slidestat.schemas.sequence import decode_alert_change
from slidestat.spark.streaming.blocks import (
    RowReader,
    Source,
    blocks_of_effects,
    in_order,
    rows_of_blocks,
)
from slidestat.spark.streaming.shard import Shard, ShardPlace
from tests.spark.requests_history import NOON
from tests.spark.streaming.test_shards import Table

TOPOLOGY = Topology(
    name="blocks",
    source="events",
    span="2m",
    windows=("20s", "2m"),
    every="10s",
    statistics=(Count(), Mean(epsilon=0.1)),
    alerts=(Alert(name="often", when="count >= 5", window="20s"),),
)
PARTITIONS = 3


def batches_of_events(random: Random) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of events in order of time, the events of each batch in no order."""
    for batch in range(3):
        start = NOON + 200_000 * batch
        yield [
            {
                "key": random.choice("abcdefg"),
                "time": start + 500 * at + random.randrange(500),
                "value": random.choice([0.5, 7.0, -1.5]),
            }
            for at in random.sample(range(400), 400)
        ]


def table_of(events: list[dict[str, Any]], source: Source) -> pa.Table:
    """Return events as columns, as a session in Newfoundland has them; or as records."""
    if source is Source.EVENTS:
        fields = {name: [event[name] for event in events] for name in ("key", "time", "value")}
        times = pa.array(fields["time"], pa.timestamp("ms")).cast(pa.timestamp("us"))
        local = times.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "America/St_Johns"))
        return pa.table(fields | {"time": local, "other": ["x"] * len(events)})
    values = [msgspec.json.encode(event) for event in events]
    values += [b"no JSON", b'{"key": "a", "time": "soon"}']
    return pa.table({"key": pa.nulls(len(values), pa.binary()), "value": pa.array(values)})


@pytest.mark.parametrize("source", [Source.EVENTS, Source.RECORDS])
def test_rows_are_counted_as_a_worker_counts_events_in_order_of_time(source: Source) -> None:
    """Under keys that are spread as Kafka's clients do; what is no event is a dead letter."""
    driver, random = TopologyDriver(TOPOLOGY, PARTITIONS), Random(3)
    tables: dict[int, Table] = defaultdict(Table)
    decoder, written = EventDecoder(TOPOLOGY), []
    for events in batches_of_events(random):
        driver.send(*sorted(events, key=lambda event: event["time"]))
        blocks = defaultdict(list)
        table = table_of(events, source)
        for block in RowReader(TOPOLOGY, source, PARTITIONS)(table.to_batches(max_chunksize=150)):
            blocks[block["shard"][0].as_py()].append(block["block"][0].as_py())
        for number, of_shard in blocks.items():
            place = ShardPlace(number, PARTITIONS)
            shard = Shard(TOPOLOGY, place, tables[number], decoder, JsonCodec())
            records = in_order(TOPOLOGY, number, of_shard, shard.next_offset)
            found = blocks_of_effects(shard.process(records), TOPOLOGY, number)
            rows = rows_of_blocks(pa.record_batch([[it]], ["block"]) for it in found)
            written += [row for batch in rows for row in batch.to_pylist()]
    values = defaultdict(list)
    for row in written:
        values[row["topic"]].append(row["value"])
    dead = values.pop("blocks-dead-letters", [])
    assert len(dead) == (0 if source is Source.EVENTS else 3 * 2)
    assert values.keys() == {"blocks-statistics", "blocks-alerts"}
    # Records that are no events take offsets, too.
    emissions = [without_offset(JsonCodec().decode(it)) for it in values["blocks-statistics"]]
    assert Counter(map(repr, emissions)) == Counter(
        repr(without_offset(it)) for it in driver.emissions
    )
    alerts = [without_offset(decode_alert_change(it)) for it in values["blocks-alerts"]]
    assert Counter(map(repr, alerts)) == Counter(repr(without_offset(it)) for it in driver.alerts)


def without_offset(record: Any) -> Any:
    return msgspec.structs.replace(record, source_offset=0)


def placed(offsets: list[int], topic: str = "events") -> pa.RecordBatch:
    """Return records of one partition of Kafka."""
    count = len(offsets)
    return pa.record_batch(
        {
            "key": pa.array([b"k"] * count),
            "value": pa.array([b"%d" % it for it in offsets]),
            "partition": pa.array([1] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([NOON] * count, pa.timestamp("ms", "UTC")),
            "topic": pa.array([topic] * count),
        }
    )


def test_records_with_offsets_come_once_in_their_order(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever Spark has read twice, or was read before: how many those are is said."""
    reader = RowReader(TOPOLOGY, Source.PLACED, 0)
    blocks = [it["block"][0].as_py() for it in reader([placed([7, 3, 5]), placed([4, 7, 9])])]
    (batch,) = in_order(TOPOLOGY, 1, blocks, 4)
    assert batch.offsets.tolist() == [4, 5, 7, 9]
    assert [*batch.values] == [b"4", b"5", b"7", b"9"]
    assert batch.timestamps.tolist() == [NOON] * 4
    assert "partition 1: 1 record with offsets from 3 on" in caplog.text
    assert in_order(TOPOLOGY, 1, blocks, 10) == []
    assert "5 records with offsets from 3 on that are not above" in caplog.text


def test_records_of_another_topic_are_refused() -> None:
    """Their partitions have the same numbers."""
    with pytest.raises(SlidestatError, match="records of the topic 'others', and the source of"):
        [*RowReader(TOPOLOGY, Source.PLACED, 0)([placed([1], "others")])]


def test_repartitioned_records_go_by_the_key_of_the_topology() -> None:
    """Wherever they are in Kafka."""
    topology = replace(TOPOLOGY, repartition=True, lateness="10s")
    events = next(batches_of_events(Random(1)))
    blocks = RowReader(topology, Source.RECORDS, PARTITIONS)(
        table_of(events, Source.RECORDS).to_batches()
    )
    assert len({it["shard"][0].as_py() for it in blocks}) == PARTITIONS
