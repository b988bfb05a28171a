"""Sources in Avro and with a JSON Schema: what is read is what the same events in JSON say."""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from math import floor, log10
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import fastavro
import pytest

from slidestat import TopologyDriver
from slidestat.cli.display.topology import show_topology
from slidestat.cli.spark import backfill
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.resolved import require_audited
from slidestat.declare.statistics import Count, Distinct, Maximum, Statistic, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.casts import number_text
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.avro_schema import AvroSchema
from slidestat.engine.decoding.formats.source_schemas import (
    EventTime,
    NotReadableError,
    SchemaText,
    SourceSchemas,
    UnusableSchemaError,
    framed,
    schemas_of,
)
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason

START = 1_600_000_000_037
STATISTICS: tuple[Statistic, ...] = (
    Count(),
    Sum(decimals=2),
    Maximum(name="failed", where="status >= 500"),
    Distinct(field="client.address"),
)
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "time", "type": "long"},
        {"name": "value", "type": ["null", "double"], "default": None},
        {"name": "status", "type": "int", "default": 200},
        {
            "name": "client",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Client",
                    "fields": [{"name": "address", "type": "string"}],
                },
            ],
            "default": None,
        },
    ],
}


def topology(**declared: Any) -> Topology:
    return Topology(
        **{
            "name": "t",
            "source": "s",
            "span": "10m",
            "every": "1m",
            "windows": ("1m", "10m"),
            "statistics": STATISTICS,
            **declared,
        }
    )


def written(schema: Any, value: object) -> bytes:
    """A value as fastavro writes it."""
    file = BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return file.getvalue()


def known(*schemas: Any) -> SourceSchemas:
    """These, numbered from 1 on."""
    found = SourceSchemas()
    for number, schema in enumerate(schemas, 1):
        found.add(number, SchemaText(json.dumps(schema)))
    return found


def orders(count: int, seed: int = 0) -> list[dict[str, Any]]:
    random = Random(seed)
    return [
        {
            "key": random.choice("abc"),
            "time": START + 700 * i - random.randrange(500),
            "value": random.choice([None, 0.1, random.uniform(0, 100), 1.5, 7.0]),
            "status": random.choice([200, 404, 500, 503]),
            "client": random.choice([None, {"address": f"10.0.0.{random.randrange(9)}"}]),
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("source_format", ["avro", "json-schema", "plain avro"])
def test_the_same_events_give_the_same_bytes(source_format: str) -> None:
    """Nested fields, nulls and conditions included, the emissions are those of plain JSON."""
    emissions = []
    for own in ("json", source_format):
        schemas = {4: json.dumps(ORDER)} if own == "avro" else {}
        its_own = json.dumps(ORDER) if own == "plain avro" else ""
        declared = topology(
            source_format=own.removeprefix("plain "), source_schema=its_own, lateness="1s"
        )
        driver = TopologyDriver(declared, 2, schemas)
        driver.send(*orders(3_000))
        driver.close_windows()
        assert driver.dead_letters == []
        emissions.append(driver.emissions)
    assert emissions[0] == emissions[1]
    assert len(emissions[0]) > 30


def test_schemas_of_many_versions_lie_in_one_topic() -> None:
    """Each record is read by the schema it was written with: fields come, go, change their type and
    their place.
    """
    older = {"type": "record", "name": "Order", "fields": [*ORDER["fields"]][:3]}
    newer = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "value", "type": ["int", "null"]},
            {"name": "note", "type": {"type": "map", "values": "string"}},
            {"name": "status", "type": "long"},
            {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "key", "type": {"type": "enum", "name": "Keys", "symbols": ["a", "b"]}},
        ],
    }
    values = [
        framed(1, written(older, {"key": "a", "time": START, "value": 2.5})),
        framed(
            2,
            written(
                newer,
                {"key": "b", "time": (START + 5) * 1_000 + 999, "value": 3}
                | {"note": {"x": "y"}, "status": 500},
            ),
        ),
        framed(3, written(ORDER, {"key": "c", "time": START + 9, "status": 1})),
    ]
    decoder = EventDecoder(topology(source_format="avro"), schemas=known(older, newer, ORDER))
    columns = decoder.decode(values, [None] * 3, [START] * 3)
    assert columns.refusals == []
    assert columns.keys.to_pylist() == ["a", "b", "c"]
    assert columns.times.tolist() == [START, START + 5, START + 9]
    assert [str(number) for number in columns.numbers[0].tolist()] == ["2.5", "3.0", "nan"]


@pytest.mark.parametrize("time_format", ["ms", "s", "us", "ns", "iso8601", "iso8601-utc"])
@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
@pytest.mark.parametrize("kind", ["timestamp", "local-timestamp"])
def test_a_timestamp_is_the_time_whatever_its_unit(time_format: str, unit: str, kind: str) -> None:
    """The schema says what the number counts; a time between two milliseconds is the earlier. A
    local one is in UTC.
    """
    by = {"millis": 1, "micros": 1_000, "nanos": 1_000_000}[unit]
    schema = {
        "type": "record",
        "name": "E",
        "fields": [
            {
                "name": "meta",
                "type": {
                    "type": "record",
                    "name": "M",
                    "fields": [
                        {
                            "name": "at",
                            "type": ["null", {"type": "long", "logicalType": f"{kind}-{unit}"}],
                        }
                    ],
                },
            },
            {"name": "key", "type": "string"},
        ],
    }
    declared = topology(
        source_format="avro", time_format=time_format, time_field="meta.at", statistics=[Count()]
    )
    raw = AvroSchema(json.dumps(schema))
    values = [
        framed(1, raw.write({"key": "a", "meta": {"at": START * by + by // 2}})),
        framed(1, raw.write({"key": "a", "meta": {"at": None}})),
    ]
    columns = EventDecoder(declared, schemas=known(schema)).decode(values, [None] * 2, [START] * 2)
    assert columns.times.tolist() == [START]
    assert [refusal.row for refusal in columns.refusals] == [1]


@pytest.mark.parametrize("time_format", ["ms", "s", "us", "ns", "iso8601", "iso8601-utc"])
def test_a_date_is_its_midnight_whatever_the_format(time_format: str) -> None:
    """As the dates of a Parquet file are; one that no calendar has is refused."""
    date = {"type": "int", "logicalType": "date"}
    fields = [{"name": "day", "type": ["null", date]}, {"name": "key", "type": "string"}]
    schema = {"type": "record", "name": "E", "fields": fields}
    declared = topology(
        source_format="avro", time_format=time_format, time_field="day", statistics=[Count()]
    )
    raw = AvroSchema(json.dumps(schema))
    days = [START // 86_400_000, -1, 2**31 - 1]
    values = [framed(1, raw.write({"key": "a", "day": day})) for day in days]
    columns = EventDecoder(declared, schemas=known(schema)).decode(values, [None] * 3, [START] * 3)
    assert columns.times.tolist() == [START - START % 86_400_000]
    assert [refusal.row for refusal in columns.refusals] == [1, 2]


def test_a_decimal_is_the_number_with_its_digits() -> None:
    """As bytes and of fixed size: the nearest double, as the same digits in JSON."""
    kinds: list[Any] = ["bytes", {"type": "fixed", "name": "F", "size": 9}]
    for kind in kinds:
        base = {"type": kind} if isinstance(kind, str) else kind
        schema = {
            "type": "record",
            "name": "E",
            "fields": [
                *ORDER["fields"][:2],
                {
                    "name": "value",
                    "type": base | {"logicalType": "decimal"} | {"precision": 20, "scale": 2},
                },
            ],
        }
        numbers = [Decimal("0.10"), Decimal("-7.35"), Decimal("123456789012345678.91"), Decimal(0)]
        values = [
            framed(1, written(schema, {"key": "a", "time": START, "value": number}))
            for number in numbers
        ]
        declared = topology(source_format="avro", statistics=[Maximum()])
        columns = EventDecoder(declared, schemas=known(schema)).decode(values, (), [START] * 4)
        assert columns.numbers[0].tolist() == [float(number) for number in numbers]


@pytest.mark.parametrize(
    ("single", "text"),
    [
        *((0.1, b"0.1"), (-2.55, b"-2.55"), (2**24 + 2, b"16777218.0"), (2e30, b"2e30")),
        *((3.4e38, b"3.4e38"), (1.5, b"1.5"), (float("nan"), b"null"), (1e-45, b"1e-45")),
    ],
)
def test_a_float_is_the_number_that_json_has(single: float, text: bytes) -> None:
    """Wherever it stands in a schema: not the double that has its bits, and other digits."""
    real = pack("<f", single)
    kinds: list[tuple[Any, bytes, bytes]] = [
        ("float", real, text),
        ({"type": "float", "logicalType": "money"}, real, text),
        (["null", "float"], b"\2" + real, text),
        ({"type": "array", "items": "float"}, b"\2" + real + b"\0", b"[" + text + b"]"),
        ({"type": "map", "values": "float"}, b"\2\2a" + real + b"\0", b'{"a":' + text + b"}"),
    ]
    for kind, written_value, expected in kinds:
        record = {"type": "record", "name": "E", "fields": [{"name": "x", "type": kind}]}
        assert AvroSchema(json.dumps(record)).json(written_value) == b'{"x":' + expected + b"}"
        assert AvroSchema(json.dumps(kind)).json(written_value) == expected


@pytest.mark.parametrize("number", [2**53, -(2**62), 2**63, 2**99 + 2**60, 10**22])
def test_a_whole_number_has_its_digits_in_all_types(number: int) -> None:
    """So it is one item. The shortest text of 2^63 as a double is that of 9223372036854776000."""
    kinds: list[tuple[Any, bytes]] = [("double", pack("<d", number))]
    if number != 10**22:
        kinds.append(("float", pack("<f", 2.0**99 if number > 2**90 else number)))
    for kind, value in kinds:
        read = 2**99 if kind == "float" and number > 2**90 else number
        for schema, before in (
            (kind, b""),
            ({"type": kind, "logicalType": "money"}, b""),
            (["null", kind], b"\2"),
        ):
            found = AvroSchema(json.dumps(schema)).json(before + value)
            assert Decimal(found.decode()) == read
            assert number_text(json.loads(found)) == str(read)
    for double, text in ((1e100, b"1e100"), (2.0**51 + 0.5, b"2251799813685248.5")):
        assert AvroSchema('"double"').json(pack("<d", double)) == text


def varint(number: int, length: int = 1) -> bytes:
    """Return a number as Avro writes it, with as many bytes at least."""
    left, found = (number << 1) ^ (number >> 127), b""
    while left >= 0x80 or len(found) < length - 1:
        found += bytes([left % 0x80 | 0x80])
        left //= 0x80
    return found + bytes([left])


KINDS: tuple[tuple[Any, bytes, bytes], ...] = (
    ("long", b"", b""),
    ("string", b"", b"a" * 64),
    ({"type": "array", "items": "int"}, b"", b"\2" * 64 + b"\0"),
    ({"type": "array", "items": "int"}, b"\1", b"\2\0"),
    ({"type": "map", "values": ["null", "bytes"]}, b"", (b"\2a" + b"\2\2b") * 64 + b"\0"),
    ({"type": "map", "values": "long"}, b"\2\2a", b"\0"),
    (["null", {"type": "fixed", "name": "F", "size": 9}, "long"], b"\4", b""),
)


@pytest.mark.parametrize("before", ["", "a", "пользователь", "я" * 70, "\U0001f600" * 9])
@pytest.mark.parametrize(("kind", "head", "tail"), KINDS)
def test_numbers_of_more_than_64_bits_are_no_values(
    kind: Any, head: bytes, tail: bytes, before: str
) -> None:
    """Of which fastavro reads what is left of them; those that have just as many are read. Behind a
    text in any letters, and an amount.
    """
    fields = [("text", "string"), ("x", kind), ("d", "double")]
    record = {
        "type": "record",
        "name": "E",
        "fields": [{"name": name, "type": type} for name, type in fields],
    }
    schema = AvroSchema(json.dumps({"type": "array", "items": record}))
    text = before.encode()
    for number, length, is_read in (
        (64, 1, True),
        (64, 10, True),
        (64, 11, False),
        (64, 30, False),
        (64 + 2**63, 1, False),
        *(((2**63 - 1, 1, True), (-(2**63), 1, True), (2**63, 1, False)) if not tail else ()),
    ):
        written_number = varint(number, length)
        item = varint(len(text)) + text + head + written_number + tail + pack("<d", -1.7e308)
        value = b"\4" + item * 2 + b"\0"
        if is_read:
            assert len(json.loads(schema.json(value))) == 2
        else:
            with pytest.raises(NotReadableError, match="a number of more than 64 bits"):
                schema.json(value)


@pytest.mark.parametrize("number", ["c3a4" * 4 + "c37f", "c3a4" * 5 + "01", "e4bda0" * 3 + "7f"])
def test_a_number_that_could_be_text_is_no_value_either(number: str) -> None:
    """Of more than 64 bits, in bytes that are UTF-8."""
    record = {"type": "record", "name": "E", "fields": [{"name": "a", "type": "long"}]}
    with pytest.raises(NotReadableError, match="a number of more than 64 bits"):
        AvroSchema(json.dumps(record)).json(bytes.fromhex(number))


def test_a_uuid_is_its_text_in_either_type() -> None:
    """Of 16 bytes, as Avro has it since 1.12, and as a text."""
    text = "00000000-0000-0000-0000-000000000007"
    for kind in ("string", {"type": "fixed", "name": "U", "size": 16}):
        base = {"type": kind} if isinstance(kind, str) else kind
        schema = AvroSchema(json.dumps(base | {"logicalType": "uuid"}))
        assert schema.json(schema.write(text)) == f'"{text}"'.encode()
    short = {"type": "fixed", "name": "U", "size": 1, "logicalType": "uuid"}
    assert AvroSchema(json.dumps(short)).json(b"\1") == b'"AQ=="'


def test_a_decimal_of_more_digits_than_its_precision_keeps_them() -> None:
    for kind in ({"type": "bytes"}, {"type": "fixed", "name": "F", "size": 3}):
        decimal = {"logicalType": "decimal", "precision": 4, "scale": 2}
        content = (1234567).to_bytes(3, "big")
        written = content if kind["type"] == "fixed" else b"\x06" + content
        assert AvroSchema(json.dumps(kind | decimal)).json(written) == b"12345.67"


def test_an_invalid_decimal_is_the_bytes_that_it_is_in() -> None:
    """As Avro asks of readers."""
    invalid: list[dict[str, Any]] = [
        {},
        {"precision": 0},
        {"precision": -1},
        {"precision": "4"},
        {"precision": 4, "scale": 5},
        {"precision": 4, "scale": -1},
        {"precision": 10**30, "scale": 10**30},
    ]
    for more in invalid:
        schema = {"type": "bytes", "logicalType": "decimal", **more}
        assert AvroSchema(json.dumps(schema)).json(b"\x02\x01") == b'"AQ=="'
        assert len(AvroSchema(json.dumps(schema)).remarks) == 1
    schema = {"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3}
    assert AvroSchema(json.dumps(schema)).json(b"\x01") == b'"AQ=="'


def test_a_fixed_decimal_has_as_many_digits_as_all_numbers_of_its_size() -> None:
    """Also one of a size that no number is written for, or that no value will ever have."""
    for size in (1, 2, 7, 16, 1_787, 5_000, 10**12):
        fits = [
            not AvroSchema(
                json.dumps(
                    {
                        "type": "fixed",
                        "name": "F",
                        "size": size,
                        "logicalType": "decimal",
                        "precision": precision,
                    }
                )
            ).remarks
            for precision in (1, 2, 4, 16, 38, 4_000, 12_041, 12_042, 10**11, 10**400)
        ]
        most = floor((8 * size - 1) * log10(2))
        assert fits == [
            precision <= most
            for precision in (1, 2, 4, 16, 38, 4_000, 12_041, 12_042, 10**11, 10**400)
        ]


def test_each_invalid_decimal_is_named_once() -> None:
    """In unions, lists, maps and records; the others, also by the name of their type, are read."""
    invalid = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}
    money = {
        "type": "fixed",
        "name": "M",
        "size": 4,
        "logicalType": "decimal",
        "precision": 4,
        "scale": 2,
    }
    lines = {"type": "record", "name": "L", "fields": [{"name": "tax", "type": invalid}]}
    schema = AvroSchema(
        json.dumps(
            {
                "type": "record",
                "name": "E",
                "fields": [
                    {"name": "total", "type": ["null", invalid]},
                    {"name": "lines", "type": {"type": "array", "items": lines}},
                    {"name": "by", "type": {"type": "map", "values": invalid}},
                    {"name": "paid", "type": money},
                    {"name": "due", "type": "M"},
                    {**invalid, "name": "fee", "scale": 1},
                ],
            }
        )
    )
    faults = dict.fromkeys(("total", "lines.tax", "by"), "its scale is not from 0 to its precision")
    faults["fee"] = "it is not said within its type"
    assert schema.remarks == [
        f"the decimal of {place} is ignored, as {why}: it is read as the type that it is in, bytes"
        " as base64"
        for place, why in faults.items()
    ]
    value = schema.json(b"\2\2a\2\2b\0\0" + bytes([0, 0, 0, 127]) * 2 + b"\2c")
    first, last = b'{"total":"YQ==","lines":[{"tax":"Yg=="}],"by":{},', b'"due":1.27,"fee":"Yw=="}'
    assert value == first + b'"paid":1.27,' + last


def test_other_meanings_leave_a_value_what_it_is() -> None:
    """A text is a text, whatever it should be; a date is its days."""
    for kind, meaning, content, text in (
        ("string", "uuid", b"\x02x", b'"x"'),
        ("int", "date", b"\x06", b"3"),
        ("long", "timestamp-micros", b"\x06", b"3"),
        ("long", "nonesuch", b"\x06", b"3"),
    ):
        schema = AvroSchema(json.dumps({"type": kind, "logicalType": meaning}))
        assert schema.json(content) == text


def test_random_schemas_and_values_are_read_as_their_json() -> None:
    """What fastavro has written is JSON that says the same, of any schema."""
    for seed in range(300):
        random = Random(seed)
        names = iter(range(10_000))
        schema = {
            "type": "record",
            "name": "R",
            "fields": [{"name": f"f{i}", "type": _any_schema(random, names, 3)} for i in range(4)],
        }
        parsed, reader = fastavro.parse_schema(schema), AvroSchema(json.dumps(schema))
        for _ in range(5):
            value = {f["name"]: _any_value(random, f["type"]) for f in schema["fields"]}
            bytes_ = written(parsed, value)
            assert json.loads(reader.json(bytes_)) == value
            assert json.loads(reader.json(b"before" + bytes_, 6)) == value
            assert reader.json(reader.write(value)) == reader.json(bytes_)


def _any_schema(random: Random, names: Any, depth: int) -> Any:
    kinds = ["null", "boolean", "int", "long", "double", "string", "enum"]
    kind = random.choice([*kinds, *(["record", "array", "map", "union"] * 2 if depth else [])])
    if kind == "record":
        fields = [
            {"name": f"f{i}", "type": _any_schema(random, names, depth - 1)} for i in range(2)
        ]
        return {"type": "record", "name": f"R{next(names)}", "fields": fields}
    if kind == "enum":
        return {"type": "enum", "name": f"E{next(names)}", "symbols": ["A", "B"]}
    if kind == "array":
        return {"type": "array", "items": ["null", "long"]}
    if kind == "map":
        return {"type": "map", "values": _any_schema(random, names, depth - 1)}
    if kind == "union":
        return random.choice([["null", "string"], ["double", "null"], ["null", "boolean", "long"]])
    return kind


def _any_value(random: Random, schema: Any) -> Any:
    if isinstance(schema, list):
        return _any_value(random, random.choice(schema))
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "null":
            return None
        case "boolean":
            return random.random() < 0.5
        case "int":
            return random.randrange(-(2**31), 2**31)
        case "long":
            return random.choice([0, -1, 2**63 - 1, -(2**63), random.randrange(10**6)])
        case "double":
            return random.choice([0.0, 0.1, 1e300, random.random()])
        case "string":
            return random.choice(["", "a", 'ключ"\\\n\0', "x" * 200])
        case "enum":
            return random.choice(schema["symbols"])
        case "array":
            return [_any_value(random, schema["items"]) for _ in range(random.randrange(4))]
        case "map":
            return {c: _any_value(random, schema["values"]) for c in "abc"[: random.randrange(4)]}
        case _:
            return {f["name"]: _any_value(random, f["type"]) for f in schema["fields"]}


GOOD = framed(1, written(ORDER, orders(1)[0]))


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (b"", Reason.NOT_AVRO, "the value has no bytes"),
        (b'{"key": "a"}', Reason.NOT_AVRO, "begins with 0x7b, not with the zero byte"),
        (b'{"key": "a"}', Reason.NOT_AVRO, "it seems to be JSON"),
        (b' [{"key": "a"}]', Reason.NOT_AVRO, "it seems to be an array of JSON"),
        (b"\x03\x00" + bytes(16) + b"a", Reason.NOT_AVRO, "AWS Glue's serializers begin so"),
        (b"\x03\x05" + bytes(16) + b"a", Reason.NOT_AVRO, "AWS Glue's serializers begin so"),
        (b"\xc3\x01" + bytes(8) + b"a", Reason.NOT_AVRO, "single-object encoding begins so"),
        (b"\x02a\x02", Reason.NOT_AVRO, "and it has no header __value_schema_id"),
        (bytes(8) + b"\x07" + GOOD[5:], Reason.BAD_SCHEMA, "schema 0: there is none; its number"),
        (b"\0\0\0", Reason.NOT_AVRO, "ends within the number of its schema"),
        (b"\0\0\0\0\1", Reason.NOT_AVRO, "by schema 1, it ends before"),
        (GOOD[:-1], Reason.NOT_AVRO, "by schema 1, it ends before"),
        (GOOD + b"\0", Reason.NOT_AVRO, "by schema 1, 1 bytes are left behind"),
        (framed(1, b"\x02\xff"), Reason.NOT_AVRO, "by schema 1, it is not what its schema"),
        (framed(1, b"\x01a"), Reason.NOT_AVRO, "by schema 1, it ends before"),
        (framed(1, b"\xfe" + b"\xff" * 8 + b"\x01"), Reason.NOT_AVRO, "by schema 1, it ends"),
        (framed(1, b"\x02a\x02\x63"), Reason.NOT_AVRO, "by schema 1, it is not what its schema"),
        (framed(2, b"\x00"), Reason.WRONG_TYPE, "Expected `object`, got `str`"),
        (framed(3, b""), Reason.BAD_SCHEMA, "schema 3: there is none"),
        (framed(4, b"\x00"), Reason.BAD_SCHEMA, "schema 4: it is no Avro schema"),
        (framed(1, written(ORDER, orders(1)[0] | {"time": 5})), Reason.BAD_TIME, "time: Expected"),
        (framed(1, written(ORDER, orders(1)[0] | {"key": ""})), Reason.BAD_KEY, "key: Expected"),
    ],
)
def test_bad_bytes_are_refused_with_the_reason(value: bytes, reason: Reason, detail: str) -> None:
    """The records around them are read."""
    schemas = known(ORDER, "string")
    schemas.lack(3, "there is none")
    schemas.lack(0, "there is none")
    schemas.add(4, SchemaText('{"type": "recor'))
    decoder = EventDecoder(topology(source_format="avro"), schemas=schemas)
    columns = decoder.decode([GOOD, value, None, GOOD], [None] * 4, [START] * 4)
    assert columns.rows.tolist() == [0, 3]
    (refusal,) = columns.refusals
    assert (refusal.row, refusal.reason) == (1, reason)
    assert detail in refusal.detail


def test_any_bytes_are_read_or_refused() -> None:
    """Cut, changed and random bytes never raise, and leave no record without an outcome."""
    random = Random(0)
    good = [framed(1, written(ORDER, order)) for order in orders(500)]
    values: list[bytes | None] = []
    for value in good:
        broken = bytearray(value)
        for _ in range(random.randrange(4)):
            broken[random.randrange(5, len(broken))] = random.randrange(256)
        values += [bytes(broken), value[: random.randrange(len(value))]]
        values.append(b"\0\0\0\0\1" + random.randbytes(random.randrange(60)))
    decoder = EventDecoder(topology(source_format="avro"), schemas=known(ORDER))
    columns = decoder.decode(values, [None] * len(values), [START] * len(values))
    outcomes = [*columns.rows.tolist(), *(refusal.row for refusal in columns.refusals)]
    assert sorted(outcomes) == list(range(len(values)))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]},
            "its record L holds records of its own kind",
        ),
        ({"type": "array", "items": "null"}, "lists of items without a byte"),
        (
            {"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}] * 2},
            "its record T has two fields of one name",
        ),
        (
            {"type": "array", "items": {"type": "record", "name": "N", "fields": []}},
            "lists of items without a byte",
        ),
        ("nonesuch", "it is no Avro schema"),
        (None, "it is no Avro schema"),
        ({"type": "enum", "name": "E"}, "it is no Avro schema"),
    ],
)
def test_schemas_that_cannot_be_read_by_are_refused(schema: Any, said: str) -> None:
    """Those that would have a reader go on for ever, or out of its stack, are among them."""
    with pytest.raises(UnusableSchemaError, match=said):
        AvroSchema(json.dumps(schema))


@pytest.mark.parametrize(
    ("kind", "default"), [("int", "x"), (["null", "string"], "null"), ("string", None)]
)
def test_a_default_that_does_not_fit_spoils_nothing(kind: Any, default: object) -> None:
    """It plays no part in reading; the driver, which would write it, says that it does not fit."""
    field = {"name": "x", "type": kind, "default": default}
    schema = AvroSchema(json.dumps({"type": "record", "name": "R", "fields": [field]}))
    read = {"int": (b"\x08", b'{"x":4}'), "string": (b"\x02a", b'{"x":"a"}')}
    value, text = read.get(str(kind), (b"\x00", b'{"x":null}'))
    assert schema.json(value) == text
    if not isinstance(kind, list):
        with pytest.raises(SlidestatError, match="not what the schema describes"):
            schema.write({})


def test_a_schema_takes_types_of_others() -> None:
    """The references come first, each before those that need it."""
    city = {"type": "enum", "name": "City", "namespace": "geo", "symbols": ["OSLO", "BERN"]}
    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "city", "type": "City"}]}
    event = {"type": "record", "name": "E", "fields": [{"name": "at", "type": "geo.Place"}]}
    schema = AvroSchema(json.dumps(event), [json.dumps(city), json.dumps(place)])
    assert schema.json(b"\x02") == b'{"at":{"city":"BERN"}}'
    with pytest.raises(NotReadableError, match="not what its schema describes"):
        schema.json(b"\x06")
    with pytest.raises(UnusableSchemaError, match=r"geo\.Place"):
        AvroSchema(json.dumps(event))


@pytest.mark.parametrize("number", [-1, -2, -3, 2, 3, 2**62, -(2**62)])
def test_a_symbol_or_a_branch_is_never_read_from_the_end_of_its_list(number: int) -> None:
    """Not in the schema itself, nor in one that it names."""
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    two = {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "long"]}]}
    event = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "e", "type": "E"},
            {"name": "many", "type": {"type": "array", "items": ["E", "R"]}},
            {"name": "r", "type": "R"},
        ],
    }
    schema = AvroSchema(json.dumps(event), [json.dumps(enum), json.dumps(two)])
    # By place: the symbol, one item by its branch and what is in it, the end of items, the branch.
    good = [0, 1, 1, 1, 4, 0, 0]
    assert schema.json(_longs(good)) == b'{"e":"A","many":[{"x":4}],"r":{"x":null}}'
    for place in (0, 2, 3, 6):
        broken = [number if at == place else one for at, one in enumerate(good)]
        with pytest.raises(NotReadableError, match=f"has nothing of the number {number}"):
            schema.json(_longs(broken))
    alone = AvroSchema(json.dumps(["null", "long"]))
    assert alone.json(_longs([1, 7])) == b"7"
    with pytest.raises(NotReadableError, match=f"has nothing of the number {number}"):
        alone.json(_longs([number, 7]))


def _longs(numbers: Sequence[int]) -> bytes:
    return b"".join(written("long", number) for number in numbers)


@pytest.mark.parametrize("time_format", ["s", "ms", "iso8601", "sequence"])
@pytest.mark.parametrize("kind", ["float", {"type": "float"}, ["null", "float"]])
def test_a_time_in_a_narrow_float_is_refused(time_format: str, kind: Any) -> None:
    """Two that follow each other are minutes apart: which one it was nobody knows."""
    other = {"name": "key", "type": "string"}
    schema = {"type": "record", "name": "F", "fields": [other, {"name": "time", "type": kind}]}
    said = "time \\(the time\\) is a float of 32 bits, .* minutes apart: have it send times as"
    declared = topology(
        source_format="avro",
        time_format=time_format,
        statistics=(Count(),),
        **_LENGTHS[time_format],
    )
    with pytest.raises(UnusableSchemaError, match=said):
        AvroSchema(json.dumps(schema), (), EventTime(("time",), declared.times))
    value = framed(1, written(schema, {"key": "a", "time": 1.764072e9}))
    decoder = EventDecoder(declared, schemas=known(schema))
    (refusal,) = decoder.decode([value], [None], [START]).refusals
    assert refusal.reason is Reason.BAD_SCHEMA
    assert re.search(f"schema 1: {said}", refusal.detail)
    AvroSchema(json.dumps(schema), (), EventTime(("key",), declared.times))


_EVENTS = {"span": "1000 events", "every": "100 events", "windows": ("1000 events",)}
_LENGTHS: dict[str, dict[str, Any]] = {"sequence": _EVENTS, "s": {}, "ms": {}, "iso8601": {}}


def test_a_time_of_two_meanings_is_refused() -> None:
    """Which of a union's it is could not be told from the number."""
    time = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}}],
    }
    other = {"type": "record", "name": "B", "fields": [{"name": "time", "type": "long"}]}
    with pytest.raises(UnusableSchemaError, match="time may be a number and timestamp-micros"):
        AvroSchema(json.dumps([time, other]), (), EventTime(("time",), topology().times))


def test_a_json_schema_is_asked_for_nothing_but_its_framing() -> None:
    """What follows the five bytes is JSON; a value without them is a letter."""
    decoder = EventDecoder(topology(source_format="json-schema"))
    value = json.dumps(orders(1)[0]).encode()
    columns = decoder.decode([framed(77, value), value, b"\0\0", b"\0\0\0\0\1{"], (), [START] * 4)
    assert columns.rows.tolist() == [0]
    assert [(refusal.row, refusal.reason) for refusal in columns.refusals] == [
        (1, Reason.NOT_JSON),
        (2, Reason.NOT_JSON),
        (3, Reason.NOT_JSON),
    ]


def test_a_key_with_a_schema_of_its_own_is_refused() -> None:
    """Its bytes might be read as text, of a key that nobody has written."""
    declared = topology(source_format="avro", key_field="kafka:key")
    decoder = EventDecoder(declared, schemas=known(ORDER))
    columns = decoder.decode([GOOD] * 2, [b"\0\0\0\0\1\x06abc", b"abc"], [START] * 2)
    assert columns.keys.to_pylist() == ["abc"]
    (refusal,) = columns.refusals
    assert refusal.reason is Reason.BAD_KEY


def test_numbers_of_schemas_are_those_of_framed_values() -> None:
    assert schemas_of([None, b"", b"\0\0", GOOD, framed(2**32 - 1, b""), b"{}  x"]) == {
        1,
        2**32 - 1,
    }


def test_the_driver_says_what_it_lacks() -> None:
    """A schema for events that are sent in Avro, an event that it can have, and one for nothing."""
    with pytest.raises(SlidestatError, match="there is no schema"):
        TopologyDriver(topology(source_format="avro")).send({"key": "a"})
    with pytest.raises(SlidestatError, match="t takes none of a registry"):
        TopologyDriver(topology(), schemas={1: json.dumps(ORDER)})
    driver = TopologyDriver(topology(source_format="avro"), schemas={1: json.dumps(ORDER)})
    with pytest.raises(SlidestatError, match="not what the schema describes"):
        driver.send({"key": 5})
    driver.send_bytes(framed(9, b"abc"))
    assert [letter.reason for letter in driver.dead_letters] == [Reason.BAD_SCHEMA]


def test_plain_avro_takes_the_topologys_own_schema() -> None:
    """What another schema wrote is left over, or not there: a letter, with the reason."""
    other = {"type": "record", "name": "O", "fields": [{"name": "key", "type": "string"}]}
    declared = topology(source_format="avro", source_schema=json.dumps(ORDER))
    values = [GOOD[5:], GOOD, GOOD[5:] + b"\0", written(other, {"key": "a"}), b""]
    columns = EventDecoder(declared).decode(values, [None] * 5, [START] * 5)
    assert columns.rows.tolist() == [0]
    assert {refusal.reason for refusal in columns.refusals} == {Reason.NOT_AVRO}
    assert len(columns.refusals) == 4
    with pytest.raises(SlidestatError, match="source_schema of t: it is no Avro schema"):
        EventDecoder(replace(declared, source_schema='"nonesuch"'))


def test_the_schemas_file_lies_beside_the_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In TOML it is seen from the file, in flags from where the command runs."""
    body = 'name="t"\nsource="s"\nspan="1h"\nevery="1m"\nsource_format="avro"\n'
    (tmp_path / "t.toml").write_text(body + 'source_schema="order.avsc"\n')
    flags = tomllib.loads(body) | {"source_schema": "order.avsc"}
    for declare, said in (
        (lambda: load_topology(str(tmp_path / "t.toml")), "source_schema is 'order.avsc'"),
        (lambda: topology_of_flags(flags), "--source-schema is 'order.avsc'"),
    ):
        with pytest.raises(SlidestatError, match=said):
            declare()
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    monkeypatch.chdir(tmp_path)
    assert topology_of_flags(flags) == load_topology("t.toml")
    assert json.loads(load_topology("t.toml").source_schema) == ORDER
    with pytest.raises(SlidestatError, match="source_schema is given, and source_format is 'json'"):
        topology(source_schema="{}")


def test_what_reads_json_alone_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it reads anything; and `topology show` says the format."""
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    file = tmp_path / "t.toml"
    text = 'name="t"\nsource="s"\nspan="1h"\nevery="1m"\nsource_format="avro"\n'
    file.write_text(text + 'source_schema="order.avsc"\n')
    with pytest.raises(SlidestatError, match="'avro', and an audit reads JSON alone"):
        require_audited(load_topology(str(file)))
    with pytest.raises(SlidestatError, match="'avro', and a backfill reads JSON alone"):
        backfill(str(file), str(tmp_path / "lake"))
    show_topology(load_topology(str(file)))
    assert "s, in Avro by the schema that is declared" in capsys.readouterr().out
