"""Rows of Spark that come out of history: records as its Kafka source has them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from slidestat.declare.topology import Topology
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.output_records import AlertRecord, OutputRecord, OutputRecords
from slidestat.engine.intake.letters import Letter
from slidestat.faust.alert_headers import headers_of_alert
from slidestat.kafka.letter_record import letter_record

_ROWS_OUT = 10_000
# A bad record may have any timestamp, and a column of dates ends with the year 9999.
_LAST_DAY_MS = 253_402_214_400_000

RECORD_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""Columns of what comes out: those of Spark's Kafka source. There is no `offset`: Kafka would have
given it."""

RECORD_SCHEMA = from_arrow_schema(RECORD_ARROW)
"""The same for Spark."""

Out = tuple[str, int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""topic, partition, timestamp in milliseconds, key, value, headers."""


def letter_rows(
    dead: Iterable[Letter], late: Iterable[Letter], topology: Topology, partition: int
) -> list[Out]:
    """Return the rows of letters, each on its topic."""
    rows: list[Out] = []
    for topic, letters in ((topology.dead_letter_topic, dead), (topology.late_topic, late)):
        for letter in letters:
            record = letter_record(letter, topology.name, topology.events_topic, partition)
            stamp = min(record.timestamp, _LAST_DAY_MS)
            rows.append((topic, partition, stamp, record.key, record.value, record.headers))
    return rows


def emitted(
    topic: str, partition: int, headers: list[tuple[str, bytes]], emissions: Sequence[OutputRecord]
) -> pa.RecordBatch:
    """Return emissions as rows: they are most of what comes out, and go by columns."""
    columns = OutputRecords.of(emissions)
    count = len(columns)
    return pa.record_batch(
        [
            pa.repeat(pa.scalar(topic, pa.string()), count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            pa.nulls(count, pa.int64()),
            pa.array(columns.ends * 1_000).cast(RECORD_ARROW.field("timestamp").type),
            columns.keys.as_arrow_view().cast(pa.binary()),
            columns.values.as_arrow_view().cast(pa.binary()),
            pa.repeat(pa.scalar(headers, RECORD_ARROW.field("headers").type), count),
        ],
        schema=RECORD_ARROW,
    )


def rows_of_effects(
    effects: Effects, topology: Topology, partition: int, headers: list[tuple[str, bytes]]
) -> Iterator[pa.RecordBatch]:
    """Yield the emissions, changes of alerts and letters of a step as rows; `headers` are those of
    all but the letters.
    """
    if effects.emissions:
        yield _timed(topology, topology.output_topic, partition, headers, effects.emissions)
    yield from _changed_alerts(topology, partition, headers, effects.alerts)
    yield from arrow_rows(letter_rows(effects.dead_letters, effects.late, topology, partition))


def _timed(
    topology: Topology,
    topic: str,
    partition: int,
    headers: list[tuple[str, bytes]],
    records: Sequence[OutputRecord],
) -> pa.RecordBatch:
    """Return records of any topology as rows: the numbers of a sequence are no times."""
    columns = OutputRecords.of(records)
    if topology.is_sequence:
        columns = columns.at(np.zeros_like(columns.ends))
    return emitted(topic, partition, headers, columns)


def _changed_alerts(
    topology: Topology,
    partition: int,
    headers: list[tuple[str, bytes]],
    alerts: Sequence[AlertRecord],
) -> Iterator[pa.RecordBatch]:
    """Yield changes of alerts as rows; of a topology with `alert_headers` each has its own."""
    topic = topology.alert_topic
    if topic is None or not alerts:
        return
    if not topology.alert_headers:
        yield _timed(topology, topic, partition, headers, alerts)
        return
    for alert in alerts:
        own = [*headers, *headers_of_alert(alert, topology)]
        yield _timed(topology, topic, partition, own, [alert])


def arrow_rows(rows: Iterable[Out]) -> Iterator[pa.RecordBatch]:
    for chunk in _chunks(rows):
        topics, partitions, stamps, keys, values, headers = zip(*chunk, strict=True)
        yield pa.record_batch(
            [
                pa.array(topics, pa.string()),
                pa.array(partitions, pa.int32()),
                pa.nulls(len(chunk), pa.int64()),
                pa.array(stamps, pa.timestamp("ms", "UTC")).cast(
                    RECORD_ARROW.field("timestamp").type
                ),
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array(headers, RECORD_ARROW.field("headers").type),
            ],
            schema=RECORD_ARROW,
        )


def _chunks(rows: Iterable[Out]) -> Iterator[list[Out]]:
    rest = iter(rows)
    while chunk := list(islice(rest, _ROWS_OUT)):
        yield chunk
