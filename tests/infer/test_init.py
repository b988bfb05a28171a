"""`slidestat init` looks at a topic and writes a topology that counts its events."""

import contextlib
import gzip
import json
import os
import pty
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

from slidestat import Ranking, TopologyDriver
from slidestat.declare.fields import RECORD_KEY
from slidestat.declare.forms.files import load_topology
from slidestat.declare.statistics import Count, SumHistogram, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.avro_schema import AvroSchema
from slidestat.engine.decoding.formats.protobuf import ProtobufSchema
from slidestat.engine.decoding.formats.source_schemas import framed
from slidestat.errors import SlidestatError
from slidestat.infer.judgement import judge, remark_on_refused
from slidestat.infer.proposal import propose, propose_windows, toml_text
from slidestat.infer.proposed_fields import Guess
from slidestat.infer.sampling import Sample, SampledRecord, readable, sample_topic
from slidestat.infer.survey import survey
from tests.commands import RunCli
from tests.conftest import MakeTopic
from tests.registry.stand_in import stand_in

START_MS = 1_764_000_000_000
DAY_MS = 86_400_000
Record = tuple[bytes | None, object]


def sample(records: Iterable[Record], partitions: int = 2) -> Sample:
    found = tuple(
        SampledRecord(
            (key or b"")[-1:] == b"1",
            key,
            value if isinstance(value, bytes) else json.dumps(value).encode(),
            START_MS + 10 * i,
        )
        for i, (key, value) in enumerate(records)
    )
    return Sample("requests", partitions, len(found), found)


def proposed(given: Sample, folder: Path, name: str = "requests"):
    """The proposal, and the topology that its file declares."""
    proposal = propose(given, survey(given.records), name)
    file = folder / "t.toml"
    file.write_text(toml_text(proposal), "utf-8")
    with_all_that_is_left_to_choose(toml_text(proposal), folder)
    return proposal, load_topology(str(file))


def with_all_that_is_left_to_choose(proposed: str, folder: Path) -> Topology:
    """The topology with what stands in comments, too."""
    text = re.sub(r"^# (?=[a-z_]+ = |\[\[)", "", proposed, flags=re.MULTILINE)
    if 'kind = "top"' in text:
        text = text.replace('output_shape = "rows"', "")
    file = folder / "more.toml"
    file.write_text(text, "utf-8")
    topology = load_topology(str(file))
    assert topology.exactly_once
    assert [alert.name for alert in topology.alerts][:2] == ["much", "silent"]
    return topology


def requests(count: int = 2_000, **fields: object) -> list[Record]:
    rng = Random(7)
    return [
        (
            b"/p%d" % (i % 20),
            {
                "at": START_MS + 10 * i - rng.randrange(900),
                "path": f"/p{i % 20}",
                "user": {"id": f"u{rng.randrange(600)}", "plan": rng.choice("ab")},
                "took": {"ms": round(rng.expovariate(0.01), 2)},
                "id": i,
                "ok": True,
                **fields,
            },
        )
        for i in range(count)
    ]


def test_records_that_the_proposal_would_refuse_are_told(tmp_path: Path) -> None:
    """Whatever the reason: an empty key, an item that is an object now and then."""
    records = requests(300)
    given = sample([*records, (b"", {**records[0][1], "path": ""})])  # type: ignore[dict-item]
    _, topology = proposed(given, tmp_path)
    assert topology.key_field == "path"
    assert remark_on_refused(topology, sample(records).records) == ""
    remark = remark_on_refused(topology, given.records)
    assert "1 of 301 sampled records would be dead letters (1 bad-key)" in remark
    in_avro = replace(topology, source_format="avro")
    assert remark_on_refused(in_avro, given.records) == remark


def test_fields_are_found(tmp_path: Path) -> None:
    """The key that records are partitioned by, the time with its disorder, the measure, items."""
    proposal, topology = proposed(sample(requests()), tmp_path)
    assert topology.key_field == "path"
    assert (topology.time_field, topology.time_format) == ("at", "ms")
    assert topology.value_field == "took.ms"
    assert topology.lateness == "5s"
    assert topology.labels == (
        "count",
        "sum",
        "quantile",
        "maximum",
        "distinct_user.id",
        "top_user.plan",
    )
    assert proposal.warnings == ()
    driver = TopologyDriver(topology)
    for key, value in requests(200):
        driver.send(value, key=(key or b"").decode())
    assert not driver.dead_letters


@pytest.mark.parametrize("source_format", ["avro", "protobuf", "json-schema"])
def test_topics_of_a_registry_are_read(source_format: str, tmp_path: Path) -> None:
    """The proposal is that of the same events in JSON, and says the format; records that cannot be
    read are told. Timestamps of a schema are times.
    """
    schema = {
        "type": "record",
        "name": "Request",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "path", "type": "string"},
            {"name": "user", "type": {"type": "map", "values": "string"}},
            {
                "name": "took",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "Took",
                        "fields": [{"name": "ms", "type": "double"}],
                    },
                ],
            },
            {"name": "id", "type": "int"},
            {"name": "ok", "type": "boolean"},
        ],
    }
    proto = """syntax = "proto3"; message Request {
        int64 at = 1; string path = 2; map<string, string> user = 3;
        message Took { double ms = 1; } Took took = 4; int32 id = 5; bool ok = 6; }"""
    write: Callable[[Any], bytes] = {
        "avro": AvroSchema(json.dumps(schema)).write,
        "protobuf": partial(ProtobufSchema.registered(proto).write, framed=True),
        "json-schema": json_of,
    }[source_format]
    with stand_in() as registry:
        is_proto = source_format == "protobuf"
        text = {"schema": proto, "schemaType": "PROTOBUF"} if is_proto else {}
        registry.schemas.append({"schema": json.dumps(schema), **text})
        written = [(key, framed(1, write(value))) for key, value in requests()]
        read = readable(sample([*written, (b"x", framed(2, b"?"))]), registry.url)
        asked = registry.asked
        if source_format != "json-schema":
            in_headers = sample([(key, value[5:]) for key, value in written])
            index = b"\0" if source_format == "protobuf" else b""
            framing = (("__value_schema_id", framed(registry.guid(1), index)),)
            by_guid = replace(
                in_headers,
                records=tuple(
                    replace(it, value=(it.value or b"")[len(index) :], headers=framing)
                    for it in in_headers.records
                ),
            )
            assert readable(by_guid, registry.url).source_format == source_format
            with pytest.raises(SlidestatError, match="--schema-registry"):
                readable(sample(written), "")
            registry.schemas.append({"schema": "", "schemaType": "JSON"})
            with pytest.raises(SlidestatError, match="it is of the type JSON, not AVRO"):
                readable(sample([(b"k", framed(2, b"?"))]), registry.url)
    if source_format != "json-schema":
        with pytest.raises(SlidestatError, match=r"no schema registry answers .* \(.+\)") as raised:
            readable(sample(written), registry.url)
        assert "brackets" in raised.value.advice
    else:
        assert asked == []
    proposal, topology = proposed(read, tmp_path)
    assert topology.source_format == source_format
    assert proposal.warnings == (
        "1 of 2,001 sampled records are no JSON objects: they will be dead letters.",
    )
    plain, _ = proposed(sample(requests()), tmp_path)
    unlike = {"source_format": "json", "warnings": (), "sampled": 2_000}
    assert replace(proposal, **unlike) == replace(plain, lateness=proposal.lateness)


def json_of(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("written", "time_format"),
    [
        (lambda ms: ms, "ms"),
        (lambda ms: ms // 1_000, "s"),
        (lambda ms: ms / 1_000, "s"),
        (lambda ms: ms * 1_000, "us"),
        (lambda ms: ms * 1_000_000, "ns"),
        (lambda ms: f"2025-11-24T16:{ms // 60_000 % 60:02}:00.123+00:00", "iso8601"),
        (lambda ms: f"2025-11-24T16:{ms // 60_000 % 60:02}:00Z", "iso8601"),
        (lambda ms: f"2025-11-24 16:{ms // 60_000 % 60:02}:00", "iso8601-utc"),
        (lambda ms: f"2025-11-24 16:20:00{'' if ms % 300 else 'Z'}", "iso8601-utc"),
    ],
)
def test_times_in_every_format(written, time_format: str, tmp_path: Path) -> None:
    """The format is found, and its events are counted."""
    records = [
        (key, {**value, "at": written(START_MS + 10 * i)})
        for i, (key, value) in enumerate(requests())
    ]
    _, topology = proposed(sample(records), tmp_path)
    assert (topology.time_field, topology.time_format) == ("at", time_format)
    driver = TopologyDriver(topology)
    for key, value in records[:50]:
        driver.send(value, key=(key or b"").decode())
    assert not driver.dead_letters


@pytest.mark.parametrize(
    ("written", "time_format", "reason"),
    [
        (lambda ms: str(ms), "ms", "times in milliseconds, as texts"),
        (lambda ms: str(ms // 1_000), "s", "times in seconds, as texts"),
        (lambda ms: float(ms), "ms", "times in milliseconds"),
        # As Java writes a double; with a sign, or the spaces of a fixed width.
        (lambda ms: f"{ms / 1e12:.12f}E12", "ms", "times in milliseconds, as texts"),
        (lambda ms: f"+{ms // 1_000}", "s", "times in seconds, as texts"),
        (lambda ms: f"{ms:>20} ", "ms", "times in milliseconds, as texts"),
    ],
)
def test_numbers_of_times_may_be_texts_or_fractions(
    written: Callable[[int], object], time_format: str, reason: str, tmp_path: Path
) -> None:
    """Under the name of a time; the text of a number is no item then, and another's may be."""
    events: list[Record] = [
        (b"k", {"id": "k", "time": written(START_MS + i), "phone": f"{START_MS // 1_000 + i}"})
        for i in range(0, 300_000, 1_000)
    ]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    assert (topology.time_field, topology.time_format) == ("time", time_format)
    assert proposal.time.reason == reason
    assert [label for label in topology.labels if "distinct" in label] == ["distinct_phone"]
    driver = TopologyDriver(topology)
    driver.send(*(value for _, value in events))
    assert not driver.dead_letters


def test_a_field_that_is_often_empty_is_no_key(tmp_path: Path) -> None:
    """Its name may be a key's: an empty text is none, and its records would be dead letters."""
    events: list[Record] = [
        (None, {"tenant": "" if i % 3 else "a", "page": f"/{i % 40}", "time": START_MS + i})
        for i in range(300)
    ]
    proposal, _ = proposed(sample(events, 1), tmp_path)
    assert proposal.key == Guess("page", "a guess: the records have no Kafka key")


@pytest.mark.parametrize("size", [4, 8])
def test_keys_that_are_numbers_in_bytes_are_named(size: int, tmp_path: Path) -> None:
    """As Kafka's serializers write them: below 128 they are texts, too. A field that repeats them
    is the key.
    """
    numbers = [100 + i % 60 for i in range(300)]
    times = [START_MS + i for i in range(300)]
    events: list[Record] = [
        (number.to_bytes(size, "big"), {"user": number, "shop": "a", "time": time})
        for number, time in zip(numbers, times, strict=True)
    ]
    proposal, _ = proposed(sample(events, 1), tmp_path)
    assert (proposal.key.value, proposal.warnings) == ("user", ())
    alone: list[Record] = [(key, {"shop": "a", "time": it["time"]}) for key, it in events]
    proposal, _ = proposed(sample(alone, 1), tmp_path)
    assert proposal.key == Guess("shop", "a guess: the records have no Kafka key that is text")
    assert any("300 of 300 records have a Kafka key of bytes" in it for it in proposal.warnings)
    read = Topology(
        name="t",
        source="requests",
        key_field=RECORD_KEY,
        span="1h",
        every="1m",
        statistics=(Count(),),
    )
    notes = judge(read, sample(alone, 1).records).notes
    assert "300 of 300 records have a Kafka key of bytes" in notes[0]
    assert notes[1] == "dead letters would be 160 bad-key"
    texts: list[Record] = [(b"abcd", {"shop": "a", "time": time}) for time in times]
    assert judge(read, sample(texts, 1).records).notes == []


@pytest.mark.parametrize(
    "text",
    [
        *("Tue, 25 Nov 2025 12:00:%02d GMT", "25/Nov/2025:12:00:%02d +0000", "12:00:%02d PM"),
        "1.764%02dE+12",  # As Excel leaves it: a worker refuses it.
    ],
)
def test_a_time_that_is_not_read_is_named(text: str, tmp_path: Path) -> None:
    """And no item: its different values are of no interest."""
    events: list[Record] = [(b"k", {"id": "k", "time": text % (i % 60)}) for i in range(300)]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    assert any(it.startswith("'time' has texts such as") for it in proposal.warnings)
    assert topology.labels == ("count",)


def test_a_date_alone_is_no_time_and_is_said_to_be_read(tmp_path: Path) -> None:
    events: list[Record] = [
        (b"k", {"id": "k", "date": f"2025-11-{1 + i % 28:02}"}) for i in range(300)
    ]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    told = "such as '2025-11-01', which time_format = \"iso8601-utc\" takes for the first moment"
    assert told in proposal.warnings[0]
    assert (topology.labels, topology.time_path) == (("count",), None)


@pytest.mark.parametrize("name", ["date", "order_date"])
@pytest.mark.parametrize("digits", ["202511%02d", "202511%02d120000"])
def test_dates_in_digits_are_no_measurements(name: str, digits: str, tmp_path: Path) -> None:
    events: list[Record] = [
        (b"k", {"id": "k", name: int(digits % (1 + i % 28))}) for i in range(300)
    ]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    assert proposal.value is None
    assert topology.labels == ("count",)
    told = any(it.startswith("'date' has numbers such as") for it in proposal.warnings)
    assert told == (name == "date")


def test_times_in_two_units_are_told(tmp_path: Path) -> None:
    events: list[Record] = [
        (b"k", {"id": "k", "time": (START_MS + i) // (1, 1_000)[i % 2]}) for i in range(300)
    ]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    assert topology.time_field == "kafka:timestamp"
    told = "'time' has times in several formats, 150 in milliseconds and 150 in seconds"
    assert any(warning.startswith(told) for warning in proposal.warnings)
    assert topology.labels == ("count",)


@pytest.mark.parametrize(
    ("value", "headers", "advice"),
    [
        (b"\x03\x00" + bytes(16) + b"abc", (), "AWS Glue's serializers begin so"),
        (b'[{"key": "a"}]', (), "it seems to be an array of JSON: a record is one event"),
        (b"\x06abc", (("__value_schema_id", b"\7"),), "0x07 is neither a number nor a GUID"),
        (b"\x00\x02", (("apicurio.value.globalId", bytes(8)),), "use-id=contentId"),
        (bytes(8) + b"\x07\x06abc", (), "as Apicurio's serializers write it up to version 2"),
        (b"\x06abc", (), "Of 20 of them: it is no text, and has no number of a schema"),
        (b"\x06abc", (), 'source_format = "avro" or "protobuf", and with source_schema'),
        ("café;12".encode(), (), "Events are JSON objects"),
        (b'{"key": "a", "value": NaN}', (), "it has NaN or Infinity"),
        (b'{"key": "a", "values": [1, -Infinity]}', (), "it has NaN or Infinity"),
        (b'{"key": "a", "value": %b}' % (b"9" * 5_000), (), "more digits than Python reads"),
        (b'{"key": "a"}\n{"key": "b"}', (), "so have each sent alone"),
        (b'"{\\"key\\": 1}"', (), "JSON that was encoded twice"),
        (b'\xef\xbb\xbf{"key": "a"}', (), "a byte order mark is before it"),
        (
            gzip.compress(b'{"key": "a"}', mtime=0),
            (),
            "it is compressed, and nothing decompresses it",
        ),
    ],
)
def test_other_framings_are_named(
    value: bytes, headers: tuple[tuple[str, bytes], ...], advice: str
) -> None:
    """A registry is not asked for what its clients did not write."""
    records = tuple(SampledRecord(0, b"k", value, START_MS + i, i, headers) for i in range(20))
    given = Sample("requests", 1, len(records), records)
    with pytest.raises(SlidestatError) as raised:
        propose(readable(given, "http://localhost:1"), survey(given.records), "requests")
    assert advice in raised.value.advice


def test_a_number_beyond_doubles_spoils_no_record(tmp_path: Path) -> None:
    """A worker reads past it, too; it is nothing to measure, and a few of them are told."""
    lines = [
        b'{"id":"k","time":%d,"took":%b,"far":{"most":1e400}}'
        % (START_MS + i, b"-1e999" if i == 7 else b"%d" % (i % 50))
        for i in range(300)
    ]
    records = tuple(SampledRecord(0, b"k", line, START_MS + i, i) for i, line in enumerate(lines))
    proposal, topology = proposed(Sample("requests", 1, 300, records), tmp_path)
    assert topology.value_field == "took"
    assert not any("JSON" in warning for warning in proposal.warnings)
    assert any("1 of 300 sampled values of 'took' are no numbers" in x for x in proposal.warnings)
    events = EventDecoder(topology).decode(lines, [b"k"] * 300, [START_MS] * 300)
    assert [refusal.row for refusal in events.refusals] == [7]


def test_numbers_that_are_texts_are_cast(tmp_path: Path) -> None:
    """A price is the value, a quantity no item, but a code of digits; numbers as such win."""
    events: list[Record] = [
        (
            b"BTC",
            {
                "symbol": "BTC",
                "time": START_MS + i,
                "price": f"{i % 70}.01230000",
                "qty": str(i % 60),
                "zip": f"{i % 90:05}",
            },
        )
        for i in range(300)
    ]
    given = sample(events, 1)
    proposal, topology = proposed(given, tmp_path)
    assert topology.computed_texts == ["cast(price as double) as price_number"]
    assert (topology.value_field, proposal.value_decimals) == ("price_number", 6)
    assert (topology.name, "distinct_zip" in topology.labels) == ("requests", True)
    assert not any("qty" in label or "price" in label for label in topology.labels)
    assert any("'price' is a text of numbers" in warning for warning in proposal.warnings)
    driver = TopologyDriver(topology)
    driver.send(*(value for _, value in events))
    assert not driver.dead_letters
    true = [(key, {**value, "size": i % 50}) for i, (key, value) in enumerate(events)]  # type: ignore[dict-item]
    assert proposed(sample(true, 1), tmp_path)[1].value_field == "size"


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        # As BigDecimal of Java, `%+f`, Oracle, and a file of fixed width write them.
        ("{}.5E-4", 5),
        ("+{}.25", 2),
        (".{:02}", 2),
        ("{:>9}.50", 2),
        ("{}.", 0),
        ("-{}E+2", 0),
    ],
)
def test_texts_that_a_cast_takes_are_numbers(text: str, decimals: int, tmp_path: Path) -> None:
    events: list[Record] = [
        (b"k", {"id": "k", "time": START_MS + i, "price": text.format(1 + i % 60)})
        for i in range(300)
    ]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    assert topology.computed_texts == ["cast(price as double) as price_number"]
    assert (proposal.value_decimals, proposal.value_is_signed) == (decimals, text[0] == "-")
    assert not any("price" in label for label in topology.labels)
    driver = TopologyDriver(topology)
    driver.send(*(value for _, value in events))
    assert not driver.dead_letters


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        *(
            (text, True)
            for text in ("1,{:03}.50", "{},5", "€{}.50", "{} ms", "{}%", "1 {:03}", "-{}'000")
        ),
        *((text, False) for text in ("{:05}", "x{}", "{}-abcd", "{}", "{}.5")),
    ],
)
def test_numbers_that_no_cast_reads_are_named(text: str, is_told: bool, tmp_path: Path) -> None:
    """And are no items, where the name is a measurement's."""
    events: list[Record] = [
        (b"k", {"id": "k", "time": START_MS + i, "price": text.format(i), "plan": text.format(i)})
        for i in range(300)
    ]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    told = [it for it in proposal.warnings if it.startswith("'price' has texts such as")]
    assert bool(told) == is_told
    assert not (told and "distinct_price" in topology.labels)


@pytest.mark.parametrize(("size", "is_told"), [(2, True), (5, True), (3, False)])
def test_decimals_of_kafka_connect_are_named(size: int, is_told: bool, tmp_path: Path) -> None:
    """Its default is base64; of three bytes each, texts without a sign at the end may be words."""
    events: list[Record] = [
        (b"k", {"id": "k", "at": START_MS + i, "amount": b64encode(i.to_bytes(size)).decode()})
        for i in range(300)
    ]
    proposal, topology = proposed(sample(events, 1), tmp_path)
    told = any("decimal.handling.mode=string" in warning for warning in proposal.warnings)
    assert told == is_told
    assert ("distinct_amount" in topology.labels) != is_told


def test_decimals_of_small_numbers_are_kept(tmp_path: Path) -> None:
    """However they are written: a sum in whole units would be of zeros."""
    events: list[Record] = [
        (b"k", {"id": "k", "time": START_MS + i, "price": (1 + i % 60) / 1e6}) for i in range(300)
    ]
    assert proposed(sample(events, 1), tmp_path)[0].value_decimals == 6


@pytest.mark.parametrize(
    ("event", "time", "value"),
    [
        # By their size alone: ids and article numbers in milliseconds, telephone numbers and bytes
        # in seconds, snowflake ids in nanoseconds.
        (lambda i: {"id": 1_700_000_000_000_000_000 + i * 10**12, "n": i % 9}, None, "n"),
        (
            lambda i: {"ean": 4_006_381_333_931 - i, "phone": 2_125_550_000 + i, "n": i % 9},
            None,
            "n",
        ),
        (lambda i: {"at": START_MS + i, "bytes": 40_000_001 * (i % 80)}, "at", "bytes"),
        # By its name, however old; by the records' timestamps, whatever it is called.
        (lambda i: {"pickup_time": 1_000_000_000 + i, "n": i % 9}, "pickup_time", "n"),
        (
            lambda i: {"zeit": START_MS - 90_000 + i, "account": 1_500_000_000 + i % 9},
            "zeit",
            "account",
        ),
        # What cannot be named is not proposed, nor a sum that would refuse some of the values.
        (lambda i: {'a"b': i % 9, "at": START_MS + i, "n": i % 9}, "at", "n"),
        (lambda i: {"at": START_MS + i, "n": 20_000_000.123457 + i}, "at", "n"),
        (lambda i: {"at": START_MS + i, "n": 20_000_000_000_000 + i}, "at", "n"),
        (lambda i: {"at": START_MS + i, "n": -2_000_000_000 + i}, "at", "n"),
    ],
)
def test_numbers_are_taken_for_what_they_are(
    event: Callable[[int], dict[str, Any]], time: str | None, value: str, tmp_path: Path
) -> None:
    events: list[Record] = [(b"k1", event(i)) for i in range(200)]
    _, topology = proposed(sample(events, 1), tmp_path)
    assert (topology.time_field, topology.value_field) == (time or "kafka:timestamp", value)
    driver = TopologyDriver(topology)
    driver.send(*(event for _, event in events), key="k1", timestamp=START_MS)  # type: ignore[arg-type]
    assert not driver.dead_letters


def test_what_the_records_do_not_have(tmp_path: Path) -> None:
    """A key of its own, no time, no number: Kafka's are taken, and it is said."""
    records: list[Record] = [(b"k%d" % (i % 7), {"a.b": f"x{i % 9}"}) for i in range(500)]
    proposal, topology = proposed(sample(records), tmp_path)
    assert (topology.key_field, topology.time_field) == ("kafka:key", "kafka:timestamp")
    assert topology.labels == ("count", "top_a.b")
    assert len(proposal.warnings) == 1

    unkeyed: list[Record] = [(None, value) for _, value in requests()]
    proposal, topology = proposed(sample(unkeyed), tmp_path)
    assert topology.key_field == "path"
    assert "The key is a guess: 'path', and not 'id', 'user.plan'" in proposal.warnings[0]
    assert "have no Kafka key" in proposal.warnings[1]
    assert (topology.repartition, topology.lateness) == (True, "5s")

    half = [(b"k" if i % 2 else None, value) for i, (_, value) in enumerate(requests())]
    proposal, _ = proposed(sample(half), tmp_path)
    lacking = sum(key is None for key, _ in half)
    assert f"a guess: {lacking:,} of {len(half):,} records have no Kafka key" == proposal.key.reason

    keyed = sample(requests())
    assert not proposed(keyed, tmp_path)[1].repartition
    elsewhere = [replace(r, partition=i // 20 % 2) for i, r in enumerate(keyed.records)]
    proposal, topology = proposed(replace(keyed, records=tuple(elsewhere)), tmp_path)
    assert topology.repartition
    assert "those of '/p" in proposal.warnings[0]

    signed: list[Record] = [
        (key, {**value, "took": -i}) for i, (key, value) in enumerate(requests())
    ]
    _, topology = proposed(sample(signed), tmp_path)
    assert "mean" in topology.labels
    assert "sum" not in topology.labels


@pytest.mark.parametrize(
    ("status", "good"),
    [(200, "status < 500"), ("404", "cast(status as double) < 500"), ("ok", ""), (7, "")],
)
def test_objectives_are_proposed(status: object, good: str, tmp_path: Path) -> None:
    """On HTTP statuses and durations, in comments, with the alerts that fit the span."""
    given = sample(requests(200, status=status))
    proposal = propose(given, survey(given.records), "requests")
    found = {name: text for name, text, _ in proposal.objectives}
    # What 99 % take at most, of an exponential distribution with a mean of 100, as 1, 2, 5, 10 are.
    assert found == {**({"availability": good} if good else {}), "latency": "took.ms <= 1000"}
    topology = with_all_that_is_left_to_choose(toml_text(proposal), tmp_path)
    of_objectives = ["availability_page_1h"] * bool(good) + ["latency_page_1h"]
    assert [it.name for it in topology.alerts] == ["much", "silent", "changed", *of_objectives]
    assert topology.span == "1h"


@pytest.mark.parametrize(("every_ms", "own"), [(10, "this_hour"), (3_600_000, "today")])
def test_what_is_named_in_comments_can_be_declared(every_ms: int, own: str, tmp_path: Path) -> None:
    """Windows of the calendar within the span, items by weight or above a share, and rankings,
    which take no exactly_once.
    """
    records = [
        (key, {**value, "at": START_MS + every_ms * (i - 2_000)})
        for i, (key, value) in enumerate(requests())
    ]
    given = sample(records)
    text = toml_text(propose(given, survey(given.records), "requests"))
    topology = with_all_that_is_left_to_choose(text, tmp_path)
    (top,) = (it for it in topology.statistics if isinstance(it, TopItems))
    assert (top.field, top.weight) == ("user.plan", "took.ms")
    (named,) = re.findall(r'windows = \["([a-z_]+)"\]', text)
    assert named == own
    assert replace(topology, windows=(*topology.windows, own)).calendar_windows
    (share,) = re.findall(r"limit = 5  # or share = ([0-9.]+)", text)
    assert replace(top, limit=TopItems.limit, share=float(share))
    (by,) = re.findall(r"slidestat top FILE (\w+)", text)
    ranking = Ranking(name="first", by=by, largest=5)
    ranked = replace(topology, exactly_once=False, rankings=(ranking,))
    assert ranked.has_referee
    with pytest.raises(SlidestatError, match="exactly_once"):
        replace(ranked, exactly_once=True)


@pytest.mark.parametrize("name", ["price", "unit.price"])
def test_ranges_of_another_measure_are_proposed(name: str, tmp_path: Path) -> None:
    """In comments, with edges as people choose them; not of identifiers, flags and statuses."""
    rng = Random(3)
    priced: list[Record] = [
        (key, {**value, name: round(rng.uniform(1, 100), 2), "status": 200 + i % 300})
        for i, (key, value) in enumerate(requests())
    ]
    given = sample(priced)
    text = toml_text(propose(given, survey(given.records), "requests"))
    topology = with_all_that_is_left_to_choose(text, tmp_path)
    (found,) = (it for it in topology.statistics if it.kind == "sum_histogram")
    assert isinstance(found, SumHistogram)
    assert (found.by_path, topology.value_field) == ((name,), "took.ms")
    assert found.edges[-1] == 100
    plain = sample(requests(status=200))
    assert "sum_histogram" not in toml_text(propose(plain, survey(plain.records), "requests"))


def test_one_record_in_twenty_may_be_wrong(tmp_path: Path) -> None:
    """Times, numbers and clocks that are wrong in a few records hide no field and set no lateness:
    the topology is that of the others, each sort of them is told, and none of them is counted.
    """
    errors = [{"at": "yesterday"}, {"at": START_MS + 400 * DAY_MS}, {"took": {"ms": "n/a"}}]
    records: list[Record] = [
        (key, {**value, **(errors[i % 3] if i < 99 else {})})
        for i, (key, value) in enumerate(requests())
    ]
    proposal, topology = proposed(sample(records), tmp_path)
    assert (topology.time_field, topology.time_format) == ("at", "ms")
    assert topology.value_field == "took.ms"
    assert topology.lateness == "5s"
    assert [warning.partition(":")[0] for warning in proposal.warnings] == [
        "33 of 2,000 sampled values of 'at' are no times in milliseconds",
        "33 of 2,000 sampled events lie more than 5m after the time when they were produced",
        "33 of 2,000 sampled values of 'took.ms' are no numbers",
    ]
    driver = TopologyDriver(topology)
    for key, value in records[:200]:
        driver.send(value, key=(key or b"").decode(), timestamp=START_MS)
    assert len(driver.dead_letters) == 99


def shifted(count: int, every_ms: int, behind_ms: list[int]) -> list[Record]:
    """Events of 20 keys, as far behind the newest one as is told, in turn."""
    return [
        (
            b"/p%d" % (i % 20),
            {
                "path": f"/p{i % 20}",
                "at": START_MS - 900 * DAY_MS + every_ms * i - behind_ms[i % len(behind_ms)],
            },
        )
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("every_ms", "behind_ms", "lateness", "reason"),
    [
        (60_000, [0], "0s", "all sampled events lie in order"),
        (60_000, [0] * 9 + [400_000], "15m", "refuses nothing of the sampled events, 5m 10 %"),
        # Twice as far as 0.05 % lie behind would be a day.
        (60_000, [0] * 3_999 + [40_000_000], "0s", "refuses 0.025 % of the sampled events, 1d"),
        (60_000, [0, 7_200_000] * 10, "6h", "refuses nothing of the sampled events, 1h 50 %"),
        # Of 21 minutes a quarter of an hour would let hardly any event be counted.
        (
            315,
            [0] * 9 + [700_000],
            "5m",
            "refuses 10 % of the sampled events, 1m 10 %, 15m nothing",
        ),
    ],
)
def test_the_lateness_is_what_refuses_few(
    every_ms: int, behind_ms: list[int], lateness: str, reason: str, tmp_path: Path
) -> None:
    """By the share of events that it refuses, which is said; a short topic can be counted. An hour
    was the most that was ever proposed, and of a topic of 21 minutes, too.
    """
    one = sample(shifted(4_000, every_ms, behind_ms), partitions=1)
    given = replace(one, records=tuple(replace(r, partition=0) for r in one.records))
    proposal, topology = proposed(given, tmp_path)
    assert topology.lateness == lateness
    assert reason in proposal.lateness.reason
    length_ms = every_ms * 4_000
    assert topology.lateness_ms <= length_ms / 4
    assert f"# {proposal.lateness.reason}" in (tmp_path / "t.toml").read_text()


@pytest.mark.parametrize(
    ("every_ms", "windows"),
    [
        (10, ("1m", "5m", "1h")),
        (600, ("1m", "5m", "1h")),
        # 11 hours: of the windows that would fit the rate, one is a day long.
        (10_000, ("5m", "1h", "6h")),
        # A key has an event in 20 hours.
        (3_600_000, ("1d", "7d", "30d")),
    ],
)
def test_windows_go_by_the_rate_of_a_key(
    every_ms: int, windows: tuple[str, ...], tmp_path: Path
) -> None:
    """The shortest one has some events of a key, and none is longer than the topic."""
    given = sample(shifted(4_000, every_ms, [0]), partitions=1)
    proposal, topology = proposed(given, tmp_path)
    assert proposal.windows.lengths == windows
    assert topology.span == windows[-1]
    assert topology.every == windows[0]


def test_names_win_over_shapes(tmp_path: Path) -> None:
    """A field that is called value is it, and a flag of 0 and 1 is not, whatever it is called."""
    rng = Random(5)

    def records(**fields: Callable[[], object]) -> list[Record]:
        return [
            (key, {"at": it["at"], "path": it["path"], **{n: make() for n, make in fields.items()}})
            for key, it in requests()
        ]

    number = lambda: round(rng.expovariate(0.1), 2)  # noqa: E731
    flag = lambda: rng.randrange(2)  # noqa: E731
    for fields, value in (
        ({"price": number, "value": number, "a": number}, "value"),
        ({"is_delayed": flag, "elapsed": number}, "elapsed"),
        ({"delayed": flag, "x": number}, "x"),
        ({"delayed": flag}, "delayed"),
    ):
        _, topology = proposed(sample(records(**fields)), tmp_path)
        assert topology.value_field == value


def test_times_without_a_zone_are_in_utc(tmp_path: Path) -> None:
    """As `produce` takes them, in whatever zone the worker is; the file says so."""
    records: list[Record] = [
        (key, {"path": it["path"], "when": f"2025-11-24 16:{i // 60 % 60:02}:{i % 60:02}"})
        for i, (key, it) in enumerate(requests())
    ]
    proposal, topology = proposed(sample(records), tmp_path)
    assert (topology.time_field, topology.time_format) == ("when", "iso8601-utc")
    assert proposal.time.reason == "times in ISO 8601 text, in UTC where it has no time zone"
    assert f"# {proposal.time.reason}" in (tmp_path / "t.toml").read_text()
    driver = TopologyDriver(topology)
    for key, value in records[:120]:
        driver.send(value, key=(key or b"").decode())
    driver.close_windows()
    # 2025-11-24T16:01:00Z.
    assert min(e.window_end_ms for e in driver.emissions) == 1_764_000_060_000


def test_a_time_that_no_worker_reads_is_none(tmp_path: Path) -> None:
    """A worker would refuse each of these."""
    records: list[Record] = [
        (key, {"path": it["path"], "when": f"2025-11-24T24:{i % 60:02}Z"})
        for i, (key, it) in enumerate(requests())
    ]
    _, topology = proposed(sample(records), tmp_path)
    assert topology.time_field == "kafka:timestamp"


def test_where_several_fields_would_do_a_person_is_asked(tmp_path: Path) -> None:
    """Which of two times, of two measures, and of a key that Kafka does not know; where nobody can
    be asked, the likeliest is taken, a duration before a size and a service before a path.
    """
    records: list[Record] = [
        (None, {**it, "created_at": it["at"], "bytes": 7 * i % 1_000, "service": f"s{i % 3}"})
        for i, (_, it) in enumerate(requests())
    ]
    given = sample(records)
    asked: dict[str, list[str]] = {}

    def last(what: str, fields: Sequence[tuple[str, str]]) -> int:
        asked[what] = [name for name, _ in fields]
        return len(fields) - 1

    told = propose(given, survey(given.records), "x", last)
    assert asked["time"] == ["at", "created_at"]
    assert asked["value"] == ["took.ms", "bytes"]
    assert asked["key"][:2] == ["service", "path"]
    assert (told.time.value, told.value and told.value.value) == ("created_at", "bytes")
    assert told.key.value == asked["key"][-1]
    assert not [line for line in told.warnings if "is a guess" in line]
    proposal, _ = proposed(given, tmp_path)
    assert (proposal.time.value, proposal.value and proposal.value.value) == ("at", "took.ms")
    lines = [line for line in proposal.warnings if "is a guess" in line]
    assert [line.split()[1] for line in lines] == ["key", "time", "value"]
    assert "run `slidestat init` on a terminal, which asks" in lines[0]
    # What is known is not asked for.
    asked.clear()
    known = sample(requests())
    propose(known, survey(known.records), "x", last)
    assert asked == {}


def test_fields_that_are_given_are_taken() -> None:
    """Whatever is likelier, and whatever the records are partitioned by; one that cannot be is
    refused, with what it has.
    """
    given = sample([(key, {**it, "region": f"r{i % 3}"}) for i, (key, it) in enumerate(requests())])
    fields = {"key": "region", "time": "kafka:timestamp", "value": "took.ms"}
    told = propose(given, survey(given.records), "x", None, fields)
    assert (told.key.value, told.time.value, told.value and told.value.value) == (*fields.values(),)
    assert told.repartition
    for what, field, message in (
        ("key", "regoin", "has a field 'regoin'"),
        ("key", "took.ms", "cannot be the key"),
        ("time", "path", "'path' cannot be the time"),
        ("value", "path", "'path' cannot be the value"),
    ):
        with pytest.raises(SlidestatError, match=message) as raised:
            propose(given, survey(given.records), "x", None, {what: field})
        assert raised.value.advice


def test_all_of_a_topic_is_looked_at(bootstrap_servers: str, make_topic: MakeTopic) -> None:
    """Runs from the first record to the newest of each partition: what lies in disorder long ago is
    found, and how long the topic is.
    """
    topic = make_topic("long", 2)
    # Without it a batch that is tried again comes behind later ones.
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    for i in range(30_000):
        at = START_MS + 1_000 * i - (40_000 if i < 15_000 and i % 3 == 0 else 0)
        event = json.dumps({"path": f"/p{i % 20}", "at": at})
        producer.produce(topic, event, b"/p%d" % (i % 20), i % 2, timestamp=START_MS + 1_000 * i)
        producer.poll(0)
    producer.flush()
    found = sample_topic(bootstrap_servers, topic, 2_000)
    assert len(found.records) == 2_000
    assert found.topic_records == 30_000
    for partition in range(2):
        stamps = [r.timestamp_ms for r in found.records if r.partition == partition]
        assert stamps == sorted(set(stamps))
        assert stamps[0] == START_MS + 1_000 * partition
        assert stamps[-1] == START_MS + 1_000 * (29_998 + partition)
        between = [after - before for before, after in pairwise(stamps)]
        assert 19 <= sum(gap > 2_000 for gap in between) <= 20
        assert max(between) < 30_000_000 / 15
    assert found.records_per_second == pytest.approx(1, rel=0.01)
    assert propose(found, survey(found.records), "x").lateness.value == "5m"
    whole = sample_topic(bootstrap_servers, topic, 40_000)
    assert len(whole.records) == 30_000


HOSTILE: list[object] = [
    *(b"", b"\xff\xfe", b"null", b"[1]", b'"x"', b"[" * 5_000, b'{"a":1e999}'),
    {"": 1, "a": {"": {"b": 1}}},
    {"a": [1, {"at": 2}]},
    {"a": None, "at": True},
    {"a": 10**40, "b": -0.0, "c": "x" * 5_000},
    {'q"\\\n\x7f\u2028': 'v"\\\n'},
    {"a": {"a": {"a": {"a": {"a": 1}}}}},
    {"a": "2025-13-45T99:99:99Z", "b": "1e5", "kafka:key": "x"},
    {f"f{i}": i for i in range(2_000)},
]


def test_any_records_give_a_topology_or_a_refusal(tmp_path: Path) -> None:
    """Mixtures of hostile records: what is written is read as a topology, or it is said why not."""
    rng = Random(3)
    advice = []
    for _ in range(200):
        several = [rng.choice(HOSTILE) for _ in range(rng.randrange(1, 4))]
        records: list[Record] = [
            (rng.choice([None, b"k", b"\xff", b"", b'"\\']), rng.choice(several)) for _ in range(30)
        ]
        try:
            proposed(sample(records, rng.choice([1, 3])), tmp_path)
        except SlidestatError as error:
            advice.append(error.advice)
    assert all(advice)


def test_as_a_user(
    bootstrap_servers: str, make_topic: MakeTopic, run_cli: RunCli, tmp_path: Path
) -> None:
    """One command writes a file that `topology show` reads; it overwrites none, and an empty topic
    is told.
    """
    topic = make_topic("requests", 3)
    file = tmp_path / "mine.toml"
    empty = run_cli("init", topic, "--file", str(file))
    assert (empty.returncode, "is empty" in empty.stderr) == (2, True)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, value in requests(1_000):
        producer.produce(topic, json.dumps(value), key)
    producer.flush()
    run = run_cli("init", topic, "--file", str(file), "--name", "mine")
    assert run.returncode == 0, run.stderr
    assert "1,000 records in 3 partitions" in run.stdout
    assert f"slidestat run {file}" in run.stdout
    assert "quantile 0.5, 0.9, 0.99" in run.stdout
    again = run_cli("init", topic, "--file", str(file))
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert run_cli("topology", "show", str(file)).returncode == 0
    missing = run_cli("init", "no-such-topic", "--file", str(tmp_path / "no.toml"))
    assert (missing.returncode, "There is no topic" in missing.stderr) == (2, True)


def test_a_person_at_a_terminal_is_asked(
    bootstrap_servers: str, make_topic: MakeTopic, run_cli: RunCli, tmp_path: Path
) -> None:
    """Which field is the value, in which a wrong answer is asked again; with --yes and in a pipe
    nobody is, and the command goes on.
    """
    topic = make_topic("doubts", 1)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for key, value in requests(300):
        assert isinstance(value, dict)
        producer.produce(topic, json.dumps({**value, "bytes": len(str(value))}), key)
    producer.flush()
    piped = run_cli("init", topic, "--file", str(tmp_path / "piped.toml"), stdin="")
    assert piped.returncode == 0, piped.stderr
    assert "beware      The value is a guess: 'took.ms', and not 'bytes'." in piped.stdout
    file = tmp_path / "asked.toml"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "slidestat", "init", topic, "--file", str(file)],
        stdin=theirs,
        stdout=theirs,
        env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers},
    ) as run:
        os.close(theirs)
        os.write(ours, b"3\n2\n")
        seen = b""
        with contextlib.suppress(OSError):  # Linux says that the other side is closed.
            while found := os.read(ours, 4_096):
                seen += found
        os.close(ours)
    assert run.returncode == 0, seen
    assert b"Which field is the value?" in seen
    assert b"Give a number from 1 to 2." in seen
    assert b"is a guess" not in seen
    assert load_topology(str(file)).value_field == "bytes"


def test_rates_are_told_in_plain_numbers() -> None:
    """Of three digits, without an exponent."""
    told = [propose_windows(records, 600_000, 4).reason for records in (63_580, 3, 10**9)]
    assert [text.split(" events in ")[0].removeprefix("a key has about ") for text in told] == [
        "1,590",
        "0.075",
        "25,000,000",
    ]


@pytest.mark.parametrize("wrong_ms", [8 * 365 * 86_400_000, 2 * 3_600_000])
def test_wrong_clocks_do_not_shape_the_windows(wrong_ms: int, tmp_path: Path) -> None:
    """A device in forty that is hours or years ahead: the worker refuses its events, so they are
    told, and windows and lateness are those of all other events.
    """
    plain, _ = proposed(sample(requests()), tmp_path)
    records = requests()
    for place in range(5, len(records), 40):
        records[place][1]["at"] += wrong_ms
    skewed, topology = proposed(sample(records), tmp_path)
    assert (skewed.windows.lengths, skewed.lateness) == (plain.windows.lengths, plain.lateness)
    assert topology.span == "1h"
    told = [it for it in skewed.warnings if it not in plain.warnings]
    assert len(told) == 1
    assert told[0].startswith("50 of 2,000 sampled events lie ")


def test_numbers_among_other_texts(tmp_path: Path) -> None:
    """Where some values are none, the warning has what reads the others; it is a declaration."""
    records = requests()
    for place in range(0, len(records), 50):
        records[place][1]["took"]["ms"] = "-"
    proposal, topology = proposed(sample(records), tmp_path)
    (told,) = (it for it in proposal.warnings if "are no numbers" in it)
    computed = told.partition("computed = ['")[2].partition("']")[0]
    name = told.partition("value_field = '")[2].partition("'")[0]
    assert replace(topology, computed=(computed,), value_field=name).value_field == name
