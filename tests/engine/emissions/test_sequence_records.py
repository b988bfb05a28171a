"""What topologies of a sequence write says numbers where it has numbers; both versions are read."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from fastavro.schema import parse_schema
from jsonschema import Draft202012Validator
from prometheus_client import generate_latest

from slidestat import Alert, RefereeDriver, TopItems
from slidestat.cli.display.lines import schema_lines
from slidestat.cli.display.topology import topology_object
from slidestat.cli.display.watch import Latest
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Quantiles
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.output_codec import AnyFormat, emission_codec, emission_writer
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.schemas.alert import AlertChange, AlertState, Certainty
from slidestat.schemas.avro import emission_schema
from slidestat.schemas.emission import AbsentParty, Emission, Figure, LostRecords
from slidestat.schemas.publish import json_schema
from slidestat.schemas.query import KeyAlert, KeyAnswer
from slidestat.schemas.sequence import (
    SequenceAbsentParty,
    SequenceAlertChange,
    SequenceEmission,
    SequenceKeyAlert,
    SequenceKeyAnswer,
    SequenceLostRecords,
    SequencePartyClock,
    decode_alert_change,
    decode_clock,
    decode_emission,
    decode_key_answer,
)
from slidestat.schemas.synopsis import PartyClock
from slidestat.testing.records import MemoryStore
from slidestat.web.answers.keys import FigureGauges
from tests.engine.cases import EVERY_STATISTIC
from tests.engine.memory import batch_of
from tests.engine.model import Record
from tests.registry.stand_in import stand_in

FIGURE = Figure("count", 5.0, 4.0, 6.0, window_events=300)

_FIGURES = (
    b'"figures":[{"statistic":"count","estimate":5.0,"lower":4.0,"upper":6.0,"window_events":300}],'
    b'"source_topic":"events","source_partition":3,'
)
_OF_KEY = ("law", "k", 840, [FIGURE], "events", 3)

# Of each record, as both versions write it: byte for byte what is on topics, to be changed never.
EMISSIONS = (
    Emission(
        *(*_OF_KEY, 17, True, ["events/0"]),
        absent=[AbsentParty("events/1", 700)],
        lost=LostRecords(30, 500, None),
    ),
    b'{"topology":"law","key":"k","window_end_ms":840,' + _FIGURES + b'"source_offset":17,'
    b'"provisional":true,"parties":["events/0"],"absent":[{"party":"events/1","since_ms":700}],'
    b'"lost":{"records":30,"from_ms":500,"until_ms":null}}',
    SequenceEmission(
        *(*_OF_KEY, 17, True, ["events/0"]),
        absent=[SequenceAbsentParty("events/1", 700)],
        lost=SequenceLostRecords(30, 500, None),
    ),
    b'{"topology":"law","key":"k","window_end_seq":840,' + _FIGURES + b'"source_offset":17,'
    b'"provisional":true,"parties":["events/0"],"absent":[{"party":"events/1","since_seq":700}],'
    b'"lost":{"records":30,"from_seq":500,"until_seq":null}}',
    decode_emission,
)
_CHANGE = (AlertState.FIRING, Certainty.CERTAIN, 800, [FIGURE], "events", 3, 17)
CHANGES = (
    AlertChange("law", "many", "k", 840, *_CHANGE),
    b'{"topology":"law","alert":"many","key":"k","window_end_ms":840,"state":"firing",'
    b'"certainty":"certain","since_ms":800,' + _FIGURES + b'"source_offset":17}',
    SequenceAlertChange("law", "many", "k", 840, *_CHANGE),
    b'{"topology":"law","alert":"many","key":"k","window_end_seq":840,"state":"firing",'
    b'"certainty":"certain","since_seq":800,' + _FIGURES + b'"source_offset":17}',
    decode_alert_change,
)
CLOCKS = (
    PartyClock(840, 3, 17, 1),
    b'{"tick_ms":840,"parties":3,"source_offset":17,"announced":1}',
    SequencePartyClock(840, 3, 17, 1),
    b'{"tick_seq":840,"parties":3,"source_offset":17,"announced":1}',
    decode_clock,
)
ANSWERS = (
    KeyAnswer(*_OF_KEY, 18, alerts=[KeyAlert("many", "firing", Certainty.LIKELY, 800)]),
    b'{"topology":"law","key":"k","window_end_ms":840,' + _FIGURES + b'"next_offset":18,'
    b'"alerts":[{"alert":"many","state":"firing","certainty":"likely","since_ms":800}]}',
    SequenceKeyAnswer(
        *(*_OF_KEY, 18), alerts=[SequenceKeyAlert("many", "firing", Certainty.LIKELY, 800)]
    ),
    b'{"topology":"law","key":"k","window_end_seq":840,' + _FIGURES + b'"next_offset":18,'
    b'"alerts":[{"alert":"many","state":"firing","certainty":"likely","since_seq":800}]}',
    decode_key_answer,
)


@pytest.mark.parametrize(
    ("of_times", "first", "of_sequences", "second", "decode"),
    [EMISSIONS, CHANGES, CLOCKS, ANSWERS],
    ids=["emission", "alert", "clock", "answer"],
)
def test_both_versions_are_written_and_read(
    of_times: Any, first: bytes, of_sequences: Any, second: bytes, decode: Any
) -> None:
    """The bytes of each are frozen; whoever reads one has the same attributes as of the other."""
    assert msgspec.json.encode(of_times) == first
    assert msgspec.json.encode(of_sequences) == second
    assert decode(first) == of_times
    assert decode(second) == of_sequences
    assert decode(first).__struct_fields__ == decode(second).__struct_fields__
    assert second == first.replace(b"_ms", b"_seq")
    with pytest.raises(msgspec.ValidationError, match="missing required"):
        decode(b"{}")


def declared(**fields: Any) -> Topology:
    return Topology(
        **{
            "name": "law",
            "source": "events",
            "span": "300 events",
            "every": "40 events",
            "windows": ("50 events", "300 events"),
            "time_field": "number",
            "time_format": "sequence",
            "statistics": (Count(),),
            **fields,
        }
    )


def written(topology: Topology, codec: Any = None) -> tuple[PartitionProcessor, list[Any], Any]:
    """A partition, and what it sent and told of some events, 40 of which were lost."""
    values = [
        msgspec.json.encode({"key": "ab"[n % 2], "number": n, "value": n % 7, "took": n % 5})
        for n in range(600)
    ]
    records = [Record(n, None, value, 5_000) for n, value in enumerate(values)]
    processor = PartitionProcessor(topology, "events", 3, MemoryStore(), codec=codec)
    emissions = []
    alerts = []
    for start in range(0, 600, 40):
        if start == 200:
            processor.lose(200, 240)
            continue
        effects = processor.process(batch_of(records[start : start + 40]))
        emissions += effects.emissions
        alerts += effects.alerts
    return processor, emissions, alerts


def names(record: Any) -> Iterator[str]:
    """The names of a JSON value's fields, and of those in them."""
    if isinstance(record, dict):
        for name, value in record.items():
            yield name
            yield from names(value)
    elif isinstance(record, list):
        for value in record:
            yield from names(value)


ALERT = Alert(name="many", when="count > 10", window="300 events")


@pytest.mark.parametrize(
    "statistics",
    [
        tuple(s for s in EVERY_STATISTIC if not s.needs_time and s.kind != "top"),
        (Count(), TopItems(field="took")),
    ],
    ids=["numbers", "lists"],
)
def test_nothing_that_is_written_of_a_sequence_is_in_milliseconds(statistics: Any) -> None:
    """Emissions, also those that are joined from pieces, changes of alerts, and live answers: each
    is valid by version 2, and no field of theirs ends in `_ms`.
    """
    topology = declared(statistics=statistics, alerts=(ALERT,))
    processor, emissions, alerts = written(topology)
    assert alerts
    answer = LiveQuery(topology).answer(processor.view(), "a")
    lost = 0
    by_version_2 = Draft202012Validator(json_schema(SequenceEmission, 2))
    for value in [value for _, value, _ in emissions]:
        record = json.loads(value)
        by_version_2.validate(record)
        assert not [name for name in names(record) if name.endswith("_ms")]
        emission = decode_emission(value)
        assert isinstance(emission, SequenceEmission)
        assert msgspec.json.encode(emission) == value
        lost += emission.lost is not None
    assert lost
    for change in alerts:
        record = json.loads(change.value)
        Draft202012Validator(json_schema(SequenceAlertChange, 2)).validate(record)
        assert not [name for name in names(record) if name.endswith("_ms")]
    told = json.loads(msgspec.json.encode(answer))
    assert told["alerts"]
    assert not [name for name in names(told) if name.endswith("_ms")]


def test_a_referee_of_a_sequence_names_numbers() -> None:
    """In its answers, and those who are absent; clocks of both versions move it alike."""
    topology = declared(publish="partition")
    referee = Referee(of=topology, patience="80 events", correctable="100000 events")
    driver = RefereeDriver(referee, 3)
    for number in range(600):
        driver.send({"key": "k", "number": number, "value": 1}, partition=number % 2)
    assert driver.emissions
    for emission in driver.emissions:
        assert isinstance(emission, SequenceEmission)
        assert [party.party for party in emission.absent or ()] == ["events/2"]
        record = json.loads(msgspec.json.encode(emission))
        assert not [name for name in names(record) if name.endswith("_ms")]
    clocks = [record.value for record in driver.parties.published if not record.headers]
    assert all(b'"tick_seq":' in clock for clock in clocks)


def test_rows_of_a_sequence_name_numbers() -> None:
    """In JSON and in Avro, where the older name is an alias: a registry takes the new schema for
    one that reads the older rows.
    """
    for output_format in ("json", "connect-json", "avro"):
        topology = declared(output_shape="rows", output_format=output_format)
        columns = [column.name for column in topology.row_columns]
        assert columns[:3] == ["key", "window_events", "window_end_seq"]
        with stand_in() as registry:
            _, rows, _ = written(topology, emission_writer(topology, registry.url))
            if output_format == "avro":
                client = SchemaRegistryClient({"url": registry.url})
                naming = {"subject.name.strategy.type": "TOPIC"}
                read = AvroDeserializer(client, conf=naming)(rows[0][1])
                assert read["window_end_seq"] == 40
                schema = json.loads(str(registry.schemas[0]["schema"]))
                (end,) = [f for f in schema["fields"] if f["name"] == "window_end_seq"]
                assert end["aliases"] == ["window_end_ms"]
            else:
                row = json.loads(rows[0][1])
                assert row.get("payload", row)["window_end_seq"] == 40


def test_both_versions_in_avro() -> None:
    """One topic, one subject: the newer schema has the name of the older one, whose fields are
    aliases, so a reader of the newer one reads both. Each record is read as what it was written as.
    """
    older, newer = (json.loads(emission_schema(kind)) for kind in (Emission, SequenceEmission))
    parse_schema(newer)
    assert newer["name"] == older["name"] == "Emission"
    renamed = {field["name"]: field["aliases"] for field in newer["fields"] if "aliases" in field}
    assert renamed == {"window_end_seq": ["window_end_ms"]}
    with stand_in() as registry:
        of_times = emission_codec(
            Topology(name="law", source="events", span="1h", every="1m", output_format="avro"),
            registry.url,
        )
        of_sequences = emission_codec(declared(output_format="avro"), registry.url)
        values = [
            of_times.encode(EMISSIONS[0]),
            of_sequences.encode(EMISSIONS[2]),
            EMISSIONS[1],
            EMISSIONS[3],
        ]
        read = [AnyFormat(registry.url).decode(value) for value in values]
        client = SchemaRegistryClient({"url": registry.url})
        by_newer = AvroDeserializer(
            client, json.dumps(newer), conf={"subject.name.strategy.type": "TOPIC"}
        )
        assert [by_newer(value)["window_end_seq"] for value in values[:2]] == [840, 840]
    assert read == [EMISSIONS[0], EMISSIONS[2], EMISSIONS[0], EMISSIONS[2]]


def test_a_topic_of_both_versions_has_each_window_once() -> None:
    """A worker of this version takes over from an older one, and repeats some of its windows: the
    Kafka keys are the same, and so is what `watch` shows.
    """
    _, emissions, _ = written(declared())
    as_before = [(key, value.replace(b'_seq":', b'_ms":')) for key, value, _ in emissions]
    assert all(type(decode_emission(value)) is Emission for _, value in as_before[:8])
    topic = as_before[:12] + [(key, value) for key, value, _ in emissions[6:]]
    compacted = dict(topic)
    assert list(compacted) == [key for key, _, _ in emissions]
    shown = []
    for some in (topic, [(key, value) for key, value, _ in emissions]):
        latest = Latest(10)
        latest.update(decode_emission(value) for _, value in some)
        shown.append([(row.key, row.window_end_ms, row.figure) for row in latest.newest_first()])
    assert shown[0] == shown[1]


def test_figures_of_times_are_what_they_were() -> None:
    """Only sequences have the new names: windows of a key's last events end at a time."""
    topology = replace(
        declared(),
        time_format="ms",
        every="40ms",
        span="300 events",
        statistics=(Count(), Quantiles(quantiles=(0.5,))),
    )
    values = [
        msgspec.json.encode({"key": "k", "number": 10**12 + n, "value": n}) for n in range(300)
    ]
    records = [Record(n, None, value, 10**12 + n) for n, value in enumerate(values)]
    processor = PartitionProcessor(topology, "events", 3, MemoryStore())
    emissions = processor.process(batch_of(records)).emissions
    assert emissions
    for _, value, _ in emissions:
        record = json.loads(value)
        Draft202012Validator(json_schema(Emission, 1)).validate(record)
        assert record["window_end_ms"] > 10**12
        assert type(decode_emission(value)) is Emission


def test_the_command_names_numbers() -> None:
    """`topology show --json` has lengths of a sequence in events, `schema` has both versions."""
    shown = topology_object(declared(lateness="7 events"))
    assert (shown["every_events"], shown["lateness_events"]) == (40, 7)
    assert not [name for name in shown if name.endswith("_ms")]
    assert [line.partition(":")[0] for line in schema_lines(None, "json")][1:3] == [
        "emission",
        "emission.v2",
    ]
    for name, end in (("emission", "window_end_ms"), ("emission.v2", "window_end_seq")):
        for form in ("json", "avro"):
            (text,) = schema_lines(name, form)
            assert f'"{end}"' in text
    with pytest.raises(SlidestatError, match=r"alert\.v2 is JSON"):
        schema_lines("alert.v2", "avro")


def test_gauges_of_a_sequence_are_no_timestamps() -> None:
    """Prometheus would take a number for a moment of 1970."""
    text = generate_latest(FigureGauges([ANSWERS[2]], ())).decode()
    assert 'slidestat_figure_window_end_seq{key="k",topology="law"} 840.0' in text
    assert "timestamp_seconds{" not in text
