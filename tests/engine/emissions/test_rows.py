"""Rows say what emissions say: a record for each window, a column for each number."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from slidestat import Count, Maximum, Quantiles, SlidestatError, TopologyDriver
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.formats.protobuf import ProtobufSchema
from slidestat.engine.decoding.formats.source_schemas import HEADER, framed
from slidestat.engine.emissions.output_codec import emission_writer
from slidestat.engine.emissions.protobuf_rows import row_proto
from slidestat.engine.partition import PartitionProcessor
from slidestat.schemas.emission import Emission
from tests.engine.cases import EVERY_STATISTIC, TOPOLOGIES, topology
from tests.engine.memory import MemoryStore, batch_of
from tests.engine.streams import records
from tests.registry.stand_in import stand_in

WRITTEN = {
    "every statistic": topology(
        statistics=tuple(s for s in EVERY_STATISTIC if s.kind != "top"), lateness="150ms"
    ),
    "one window": topology(windows=("330ms",)),
    **{
        name: TOPOLOGIES[name]
        for name in ("landmarks", "last events, late", "chosen of none")
        if name in TOPOLOGIES
    },
}


def written(
    declared: Topology, output_format: str, registry: str = ""
) -> tuple[list[Emission], list[Any]]:
    """The emissions of a stream with losses, and the records that are its rows."""
    rows = replace(declared, output_shape="rows", output_format=output_format)
    found = records(
        Random(5), 300, keys="awkward", values="prices", times="jitter", bad=0.05, holes=True
    )
    outputs = []
    for one, writer in ((declared, None), (rows, emission_writer(rows, registry))):
        processor = PartitionProcessor(one, "events", 3, MemoryStore(), codec=writer)
        sent = []
        for start in range(0, len(found), 50):
            if start == 150:
                processor.lose(processor.next_offset, found[start + 50].offset)
                continue
            sent += processor.process(batch_of(found[start : start + 50])).emissions
        for some in processor.provisional(found[-1].timestamp + 10_000):
            sent += some.emissions
        outputs.append(sent)
    emissions = [msgspec.json.decode(value, type=Emission) for _, value, _ in outputs[0]]
    return emissions, outputs[1]


@pytest.mark.parametrize("name", WRITTEN)
def test_rows_are_the_emissions(name: str) -> None:
    """Window by window, number by number, in the same order, with all that an emission says of
    itself; a key's rows of one window have one Kafka key.
    """
    declared = WRITTEN[name]
    emissions, rows = written(declared, "json")
    windows = declared.window_lengths
    assert len(rows) == len(emissions) * len(windows) > 50
    at = iter(rows)
    for emission in emissions:
        for window in windows:
            kafka_key, value, timestamp = next(at)
            row = json.loads(value)
            assert timestamp == row.pop("window_end_ms") == emission.window_end_ms
            assert row.pop("key") == emission.key
            length = "window_events" if declared.windows_of_events else "window_ms"
            assert row.pop(length) == window
            text = emission.key if len(windows) == 1 else f"{emission.key}/{window}"
            assert kafka_key.decode() == text
            assert row.pop("provisional") == emission.provisional
            assert row.pop("lost_records") == (emission.lost.records if emission.lost else 0)
            assert row.pop("source_partition") == emission.source_partition
            assert row.pop("source_offset") == emission.source_offset
            own = [
                f for f in emission.figures if (f.window_ms or f.window_events or window) == window
            ]
            assert list(row.values()) == [n for f in own for n in (f.estimate, f.lower, f.upper)]
            for place, figure in enumerate(own):
                names = list(row)[3 * place : 3 * place + 3]
                assert names == [names[0], f"{names[0]}_lower", f"{names[0]}_upper"]
                if figure.statistic == "count":
                    assert names[0] == "count"


def test_rows_in_avro() -> None:
    """The same rows, as whoever has the registry alone reads them, by the one schema there is."""
    declared = WRITTEN["every statistic"]
    _, plain = written(declared, "json")
    with stand_in() as registry:
        _, others = written(declared, "avro", registry.url)
        client = SchemaRegistryClient.new_client({"url": registry.url})
        assert len(registry.schemas) == 1
        assert "POST subjects/law-statistics-value/versions" in registry.asked
        read = AvroDeserializer(client)
        assert [(key, json.loads(value), end) for key, value, end in plain] == [
            (key, read(value), end) for key, value, end in others
        ]


def test_rows_in_protobuf() -> None:
    """The same rows, read by the one schema in the registry; a column keeps its number whatever
    other statistics there are.
    """
    declared = WRITTEN["every statistic"]
    _, plain = written(declared, "json")
    with stand_in() as registry:
        _, others = written(declared, "protobuf", registry.url)
        assert "POST subjects/law-statistics-value/versions" in registry.asked
        (known,) = registry.schemas
    assert known["schemaType"] == "PROTOBUF"
    schema = ProtobufSchema.registered(str(known["schema"]))
    assert len(plain) == len(others)
    for (key, value, end), (other_key, other, other_end) in zip(plain, others, strict=True):
        assert (other_key, other_end) == (key, end)
        assert other.startswith(framed(1, b""))
        row = json.loads(value)
        exists = {name: number for name, number in row.items() if number is not None}
        assert json.loads(schema.json(other, HEADER)) == exists
    fewer = replace(declared, statistics=declared.statistics[-2:])
    lines = set(row_proto("law-statistics", declared.row_columns).splitlines())
    assert set(row_proto("law-statistics", fewer.row_columns).splitlines()) <= lines
    with pytest.raises(SlidestatError, match="the output is no rows"):
        replace(declared, output_format="protobuf")


def test_columns_that_protobuf_takes_for_one_are_refused() -> None:
    """protoc compares the names that fields would have in JSON by default: p99 for p9_9, too."""
    declared = topology(statistics=(Quantiles(quantiles=(0.099, 0.99)),))
    with pytest.raises(SlidestatError, match="'p9_9' and 'p99' have one name in Protobuf"):
        row_proto("law-statistics", declared.row_columns)


def test_rows_with_the_schema_that_connect_asks_for() -> None:
    """The same rows; each has just the columns of the schema, and only figures can be null."""
    declared = WRITTEN["every statistic"]
    _, plain = written(declared, "json")
    _, others = written(declared, "connect-json")
    types = {"string": str, "int64": int, "double": float, "boolean": bool}
    for (key, value, end), (other_key, other, other_end) in zip(plain, others, strict=True):
        assert (other_key, other_end) == (key, end)
        row, envelope = json.loads(value), json.loads(other)
        assert envelope["payload"] == row
        fields = {field["field"]: field for field in envelope["schema"]["fields"]}
        assert list(fields) == list(row)
        for name, field in fields.items():
            if row[name] is None:
                assert field["optional"]
            else:
                assert type(row[name]) is types[field["type"]]


def test_the_driver_has_rows() -> None:
    """Those that a worker would write; emissions and figures are there as ever."""
    declared = topology(windows=("1s",), statistics=(Count(), Maximum(field="a.b", epsilon=0)))
    driver = TopologyDriver(replace(declared, output_shape="rows"))
    driver.send({"key": "a", "time": 1_600_000_000_000, "a": {"b": 7}})
    driver.close_windows()
    first, last = driver.rows
    assert list(first)[:4] == ["key", "window_ms", "window_end_ms", "count"]
    assert (first["count"], first["maximum_a_b"], last["maximum_a_b_upper"]) == (1, 7, None)
    assert driver.figure("a", "count", "1s").estimate == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"statistics": EVERY_STATISTIC}, "top has a figure for each item"),
        ({"statistics": (Count(), Count(name="a.b"), Count(name="a_b"))}, "'a_b'"),
        ({"statistics": (Count(name="key"),)}, "'key'"),
        ({"statistics": (Count(), Count(name="count_lower"))}, "'count_lower'"),
        ({"output_shape": "row"}, "output_shape is 'row'"),
        ({"output_shape": "emissions", "output_format": "connect-json"}, "is no rows"),
    ],
)
def test_what_has_no_columns_is_refused(changes: dict[str, Any], error: str) -> None:
    """With what to do instead."""
    with pytest.raises(SlidestatError, match=error) as refused:
        replace(topology(), **{"output_shape": "rows", **changes})
    assert refused.value.advice
