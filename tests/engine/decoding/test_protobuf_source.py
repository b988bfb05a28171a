"""Sources in Protobuf: what is read is what Google's own library reads, and what JSON says."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from decimal import Decimal
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from slidestat import TopologyDriver
from slidestat.cli.display.topology import show_topology
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import require_audited
from slidestat.declare.statistics import Count, Distinct, Maximum, Statistic, Sum
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.proto_files import declared_files, registered_files
from slidestat.engine.decoding.formats.protobuf import ProtobufSchema
from slidestat.engine.decoding.formats.source_schemas import (
    PROTOBUF,
    EventTime,
    NamedText,
    NotReadableError,
    SchemaText,
    SourceSchemas,
    UnusableSchemaError,
    framed,
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
ORDER = """
syntax = "proto3";
package shop;
message Order {
  string key = 1;
  int64 time = 2;
  optional double value = 3;
  int32 status = 4;
  message Client { string address = 1; }
  Client client = 5;
}
"""
EVERYTHING = """
syntax = "proto3";
package all;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Colour { NONE = 0; RED = 1; BLUE = 5; }
message Everything {
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10;
  float real = 11; double wide = 12; bool truth = 13; string text = 14; bytes raw = 15;
  Colour colour = 16;
  optional int64 maybe_i64 = 17; optional string maybe_text = 18; optional Colour maybe = 19;
  repeated uint64 many = 20; repeated Colour colours = 21; repeated Everything inner = 22;
  map<string, int64> by_text = 23; map<uint64, Colour> by_number = 24;
  map<bool, Everything> by_truth = 25;
  oneof one { int64 this = 26; string that = 27; Everything other = 28; }
  google.protobuf.Timestamp at = 29; google.protobuf.Duration took = 30;
  google.protobuf.Int64Value some_i64 = 31; google.protobuf.StringValue some_text = 32;
  google.protobuf.DoubleValue some_real = 33; google.protobuf.BytesValue some_raw = 34;
  repeated google.protobuf.Timestamp times = 35;
}
"""
WHOLE = {
    **dict.fromkeys(("i32", "s32", "sf32"), (-(2**31), 2**31 - 1)),
    **dict.fromkeys(("i64", "s64", "sf64", "maybe_i64", "this"), (-(2**63), 2**63 - 1)),
    **dict.fromkeys(("u32", "f32"), (0, 2**32 - 1)),
    **dict.fromkeys(("u64", "f64"), (0, 2**64 - 1)),
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
            "source_format": "protobuf",
            **declared,
        }
    )


def known(*schemas: str) -> SourceSchemas:
    """These, numbered from 1 on."""
    found = SourceSchemas()
    for number, schema in enumerate(schemas, 1):
        found.add(number, SchemaText(schema, kind=PROTOBUF))
    return found


def message_class(text: str, name: str) -> Any:
    """A message as Google's library has it."""
    pool = DescriptorPool()
    for file in registered_files(text, ()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def orders(count: int) -> list[dict[str, Any]]:
    """Events, some without a value, or a client."""
    random = Random(7)
    found = []
    for number in range(count):
        order = {
            "key": random.choice("abc"),
            "time": START + 500 * number,
            "status": random.choice([200, 500]),
        }
        if random.random() < 0.9:
            order["value"] = random.randrange(10**6) / 100
        if random.random() < 0.9:
            order["client"] = {"address": f"10.0.0.{random.randrange(50)}"}
        found.append(order)
    return found


@pytest.mark.parametrize("is_plain", [False, True])
def test_the_same_events_give_the_same_bytes(is_plain: bool) -> None:
    """As in JSON: emissions, letters, everything that is written."""
    drivers = []
    for source_format in ("json", "protobuf"):
        is_json = source_format == "json"
        declared = topology(
            source_format=source_format,
            source_schema=ORDER if is_plain and not is_json else "",
            lateness="1s",
        )
        schemas = {} if is_plain or is_json else {7: ORDER}
        driver = TopologyDriver(declared, schemas=schemas)
        for order in orders(800):
            driver.send(order)
        driver.close_windows()
        drivers.append(driver)
    json_driver, protobuf = drivers
    assert protobuf.emissions == json_driver.emissions
    assert len(protobuf.emissions) > 10
    reasons = [letter.reason for letter in json_driver.dead_letters]
    assert [letter.reason for letter in protobuf.dead_letters] == reasons


def _any_message(random: Random, kind: Any, depth: int = 0) -> Any:
    """A message with any of its fields set, to any value that they can have."""
    message = kind()
    texts = ["", "a", 'ключ"\\\n\0', "x" * 200]
    numbers = [0.0, -0.0, 0.1, 1e300, 5e-324, float("nan"), float("inf"), random.random()]
    for name, (least, most) in WHOLE.items():
        if random.random() < 0.5:
            number = random.choice([0, least, most, 2**31 - 1, random.randint(least, most)])
            setattr(message, name, number)
    for name, values in (
        ("real", [0.0, 0.5, 0.1, float("nan"), float("-inf")]),
        ("wide", numbers),
        ("truth", [False, True]),
        ("text", texts),
        ("raw", [b"", b"\0\xff", random.randbytes(9)]),
        ("colour", [0, 1, 5, 77]),
        ("maybe_text", texts),
        ("maybe", [0, 1, 5, -3]),
        ("that", texts),
    ):
        if random.random() < 0.5:
            setattr(message, name, random.choice(values))
    message.many.extend(random.choices([0, 1, 2**64 - 1, 2**53 + 1], k=random.randrange(3)))
    message.colours.extend(random.choices([0, 1, 5, 9], k=random.randrange(3)))
    for name in texts[: random.randrange(4)]:
        message.by_text[name] = random.choice([0, -1, 2**63 - 1])
    for number in (0, 2**64 - 1)[: random.randrange(3)]:
        message.by_number[number] = random.choice([0, 5, 9])
    for name in ("some_i64", "some_text", "some_real", "some_raw", "at", "took"):
        if random.random() < 0.5:
            getattr(message, name).SetInParent()
            if random.random() < 0.7 and name in ("at", "took"):
                moment = getattr(message, name)
                moment.seconds = random.choice([0, 1, 253402300799, 62135596800])
                moment.nanos = random.choice([0, 1, 999_999_999])
            elif random.random() < 0.7 and name == "some_i64":
                message.some_i64.value = random.choice([2**63 - 1, -5])
            elif random.random() < 0.7 and name == "some_text":
                message.some_text.value = random.choice(texts)
    for _ in range(random.randrange(3)):
        message.times.add(seconds=random.randrange(10**9), nanos=random.randrange(10**9))
    if depth < 2:
        for _ in range(random.randrange(2)):
            message.inner.append(_any_message(random, kind, depth + 1))
        if random.random() < 0.3:
            message.by_truth[random.random() < 0.5].CopyFrom(_any_message(random, kind, depth + 1))
        if random.random() < 0.3:
            message.other.CopyFrom(_any_message(random, kind, depth + 1))
    return message


def _plain(message: Any) -> dict[str, Any]:
    """What a message should be in JSON, by Google's json_format and direct reads of the rest."""
    found: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    for name in WHOLE:
        if name in found:
            found[name] = int(found[name])
    for name in ("real", "wide"):  # A number that JSON does not have is null.
        if not isfinite(getattr(message, name)):
            found[name] = None
    found["many"] = [int(number) for number in found["many"]]
    found["by_text"] = {name: int(number) for name, number in found["by_text"].items()}
    found["inner"] = [_plain(inner) for inner in message.inner]
    found["by_truth"] = {str(key).lower(): _plain(v) for key, v in message.by_truth.items()}
    if "other" in found:
        found["other"] = _plain(message.other)
    if "some_i64" in found:
        found["some_i64"] = int(found["some_i64"])
    for name in ("at", "took"):
        if name in found:
            found[name] = _seconds(getattr(message, name))
    if "some_real" in found:
        found["some_real"] = message.some_real.value
    found["times"] = [_seconds(time) for time in message.times]
    return found


def _seconds(value: Any) -> Decimal:
    return Decimal(value.seconds * 10**9 + value.nanos) / 10**9


def test_all_types_are_what_googles_library_says() -> None:
    """Also whole numbers beyond 2^53, enums of no name, defaults, absent and repeated fields."""
    kind = message_class(EVERYTHING, "all.Everything")
    schema = ProtobufSchema.registered(EVERYTHING)
    random = Random(3)
    for _ in range(400):
        message = _any_message(random, kind)
        read = schema.json(b"\0" + message.SerializeToString())
        assert _alike(json.loads(read, parse_float=Decimal), _plain(message))


def _alike(read: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return read.keys() == expected.keys() and all(
            _alike(read[name], value) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return len(read) == len(expected) and all(map(_alike, read, expected))
    if isinstance(expected, float):
        return float(read) == expected
    return bool(read == expected)


def test_any_bytes_are_read_as_googles_library_does_or_refused() -> None:
    """Changed, cut and random bytes: what it can parse is what it says, the rest has the reason."""
    kind = message_class(EVERYTHING, "all.Everything")
    schema = ProtobufSchema.registered(EVERYTHING)
    random = Random(5)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(1_500):
        content = bytearray(_any_message(random, kind, 2).SerializeToString())
        for _ in range(random.randrange(3)):
            if content:
                content[random.randrange(len(content))] = random.randrange(256)
        cut = random.randrange(len(content) + 1) if random.random() < 0.3 else len(content)
        value = bytes(content[:cut])
        try:
            message = kind.FromString(value)
        except DecodeError:
            with pytest.raises(NotReadableError, match="not what its schema describes"):
                schema.json(b"\0" + value)
            outcomes["refused"] += 1
            continue
        read = json.loads(schema.json(b"\0" + value), parse_float=Decimal)
        for name in (*WHOLE, "text", "truth"):
            present = not message.DESCRIPTOR.fields_by_name[name].has_presence
            if present or message.HasField(name):
                assert read[name] == getattr(message, name), name
            else:
                assert name not in read
        outcomes["read"] += 1
    assert min(outcomes.values()) > 200


def test_versions_of_a_schema_are_in_one_topic() -> None:
    """Each record by its own; a field that a version does not have has no value, a renamed one is
    another field, and one of no version is passed over.
    """
    older = 'syntax = "proto3"; message O { string key = 1; int64 time = 2; double value = 3; }'
    newer = """syntax = "proto2"; import "google/protobuf/timestamp.proto";
        message Other { optional int32 x = 1; }
        message O { optional string key = 4 [default = "z"]; repeated string note = 9;
                    optional google.protobuf.Timestamp time = 5; optional double value = 6;
                    message In { optional string key = 1; optional int64 time = 2; } }"""
    written = ProtobufSchema.registered(older).write({"key": "a", "time": START, "value": 2.5})
    new = message_class(newer, "O")(key="b", note=["x"])
    new.time.FromNanoseconds((START + 5) * 1_000_000 + 999_999)
    inner = message_class(newer, "O.In")(key="c", time=START + 9)
    values = [
        framed(1, b"\0" + written + b"\xa2\x06\x01?"),  # 100: "?"
        framed(2, b"\2\2" + new.SerializeToString()),
        framed(2, b"\4\2\0" + inner.SerializeToString()),
    ]
    statistics = [Count(), Maximum(name="largest", where="value > 0")]
    decoder = EventDecoder(topology(statistics=statistics), schemas=known(older, newer))
    columns = decoder.decode(values, [None] * 3, [START] * 3)
    assert columns.refusals == []
    assert columns.keys.to_pylist() == ["a", "b", "c"]
    assert columns.times.tolist() == [START, START + 5, START + 9]
    assert [str(number) for number in columns.numbers[0].tolist()] == ["2.5", "nan", "nan"]


@pytest.mark.parametrize("time_format", ["ms", "s", "us", "ns", "iso8601", "iso8601-utc"])
@pytest.mark.parametrize("at", ["meta.at", "meta.times.first"])
def test_a_timestamp_is_the_time_whatever_the_format(time_format: str, at: str) -> None:
    """A moment between two milliseconds is the earlier one; a time beyond all is a letter."""
    schema = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
        message E { string key = 1; message Meta { google.protobuf.Timestamp at = 1;
            map<string, google.protobuf.Timestamp> times = 2; } Meta meta = 2; }"""
    declared = topology(time_format=time_format, time_field=at, statistics=[Count()])
    kind = message_class(schema, "E")
    values = []
    for seconds, nanos in (
        (START // 1_000, 37_999_999),
        (2**62, 0),
        (-(2**63), -(2**31)),
        (0, 0),
        (START // 1_000 - 1, 2_000_000_000),
    ):
        event = kind(key="a")
        time = event.meta.at if at == "meta.at" else event.meta.times["first"]
        time.seconds, time.nanos = seconds, nanos
        values.append(framed(1, b"\0" + event.SerializeToString()))
    values.append(framed(1, b"\0" + kind(key="a").SerializeToString()))
    columns = EventDecoder(declared, schemas=known(schema)).decode(values, (), [START] * 6)
    assert columns.rows.tolist() == [0, 4]
    assert columns.times.tolist() == [START, START + 963]
    refused = [refusal.reason for refusal in columns.refusals]
    assert set(refused[:3]) <= {Reason.BAD_TIME, Reason.NOT_PROTOBUF}
    assert refused[3] == Reason.MISSING_FIELD


@pytest.mark.parametrize("kind", ["float", "optional float", "google.protobuf.FloatValue"])
def test_a_time_in_a_narrow_float_is_refused(kind: str) -> None:
    """By the schema that the topology declares, and by one of a registry."""
    schema = f"""syntax = "proto3"; import "google/protobuf/wrappers.proto";
        message E {{ string key = 1; message Meta {{ {kind} at = 1; }} Meta meta = 2; }}"""
    said = r"meta\.at \(the time\) is a float of 32 bits, .* minutes apart: have it send times as"
    declared = topology(time_format="s", time_field="meta.at", statistics=[Count()])
    own = ProtobufSchema.declared(schema, EventTime(("meta", "at"), declared.times))
    with pytest.raises(UnusableSchemaError, match=said):
        own.reader_of("E")
    value = framed(1, b"\0" + message_class(schema, "E")(key="a").SerializeToString())
    decoder = EventDecoder(declared, schemas=known(schema))
    (refusal,) = decoder.decode([value], (), [START]).refusals
    assert refusal.reason is Reason.BAD_SCHEMA
    assert re.search(f"schema 1: {said}", refusal.detail)


GOOD = framed(1, b"\0" + ProtobufSchema.registered(ORDER).write(orders(1)[0]))


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (b"", Reason.NOT_PROTOBUF, "the value has no bytes"),
        (b'{"key": "a"}', Reason.NOT_PROTOBUF, "begins with 0x7b, not with the zero byte"),
        (b"\0\0\0", Reason.NOT_PROTOBUF, "ends within the number of its schema"),
        (framed(1, b""), Reason.NOT_PROTOBUF, "ends before it says which message"),
        (framed(1, b"\x80"), Reason.NOT_PROTOBUF, "ends before it says which message"),
        (framed(1, b"\x80" * 12), Reason.NOT_PROTOBUF, "does not say which message"),
        (framed(1, b"\1"), Reason.NOT_PROTOBUF, "it is -1 steps to its message"),
        (framed(1, b"\2\1"), Reason.NOT_PROTOBUF, "does not say which message"),
        (framed(1, b"\2\2"), Reason.NOT_PROTOBUF, "no message at [1]"),
        (framed(1, b"\4\0\2"), Reason.NOT_PROTOBUF, "no message at [0, 1]"),
        (framed(1, b"\xfe\xff\x03"), Reason.NOT_PROTOBUF, "steps to its message"),
        (GOOD[:-1], Reason.NOT_PROTOBUF, "by schema 1, it is not what its schema describes"),
        (GOOD + b"\7", Reason.NOT_PROTOBUF, "by schema 1, it is not what its schema describes"),
        (framed(1, b"\0\x0a\2\xff\xff"), Reason.NOT_PROTOBUF, "bad UTF-8"),
        (framed(1, b"\0"), Reason.BAD_KEY, "key: Expected"),
        (framed(2, b"\0"), Reason.BAD_SCHEMA, "schema 2: there is none"),
        (framed(3, b"\0"), Reason.BAD_SCHEMA, "schema 3: protoc says: the-schema.proto:1:"),
        (framed(4, b"\0"), Reason.BAD_SCHEMA, "schema 4: it is of the type AVRO, not PROTOBUF"),
        (framed(5, b"\0\x0a\1\xff\x10\1"), Reason.NOT_PROTOBUF, "it has what no event can have"),
    ],
)
def test_bad_bytes_are_refused_with_the_reason(value: bytes, reason: Reason, detail: str) -> None:
    """The records around them are read."""
    schemas = known(ORDER)
    schemas.lack(2, "there is none")
    schemas.add(3, SchemaText("messag", kind=PROTOBUF))
    schemas.add(4, SchemaText('"string"'))
    texts = """syntax = "proto2"; message T {
        optional string key = 1; optional int64 time = 2; optional double value = 3; }"""
    schemas.add(5, SchemaText(texts, kind=PROTOBUF))
    decoder = EventDecoder(topology(), schemas=schemas)
    columns = decoder.decode([GOOD, value, None, GOOD], [None] * 4, [START] * 4)
    assert columns.rows.tolist() == [0, 3]
    (refusal,) = columns.refusals
    assert (refusal.row, refusal.reason) == (1, reason)
    assert detail in refusal.detail


def test_a_schema_imports_others() -> None:
    """By the names under which it refers to them, as text or as descriptors; Google's are there."""
    city = 'syntax = "proto3"; package geo; enum City { OSLO = 0; BERN = 1; }'
    place = """syntax = "proto3"; package geo; import "geo/city.proto";
        import "google/type/money.proto"; import "google/protobuf/struct.proto";
        message Place { City city = 1; google.type.Money rent = 2; google.protobuf.Value any = 3; }
        """
    event = 'syntax = "proto3"; import "place.proto"; message E { geo.Place at = 1; }'
    as_text = [NamedText("geo/city.proto", city), NamedText("place.proto", place)]
    set_of = registered_files(event, as_text)
    described = {file.name: b64encode(file.SerializeToString()).decode() for file in set_of.file}
    as_bytes = [NamedText(name, described[name]) for name, _ in as_text]
    value = b"\0\x0a\x0d\x08\1\x12\5\x0a\3CHF\x1a\2\x20\1"
    for text, references in (
        (event, as_text),
        (event, as_bytes),
        (described["the-schema.proto"], as_bytes),
    ):
        read = json.loads(ProtobufSchema.registered(text, references).json(value))
        rent = {"currency_code": "CHF", "units": 0, "nanos": 0}
        assert read == {"at": {"city": "BERN", "rent": rent, "any": True}}
    with pytest.raises(UnusableSchemaError, match=r"place\.proto: File not found"):
        ProtobufSchema.registered(event, as_text[:1])
    for name in ("../x.proto", "/x.proto", "", "x/../../y.proto"):
        with pytest.raises(UnusableSchemaError, match="no name of a file"):
            ProtobufSchema.registered(event, [NamedText(name, city)])


def test_values_of_any_json_and_decimals() -> None:
    """A Struct is the object that it says; Confluent's Decimal the number with all digits."""
    text = """syntax = "proto3"; import "google/protobuf/struct.proto"; import "d.proto";
        message E { google.protobuf.Struct any = 1; confluent.type.Decimal price = 2; }"""
    decimal = """syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"""
    schema = ProtobufSchema.registered(text, [NamedText("d.proto", decimal)])
    any_json = {"a": [1.5, None, True, {"b": "c"}], "d": {}}
    content = schema.write({"any": any_json, "price": {"value": "/gA=", "scale": 3}})
    read = json.loads(schema.json(b"\0" + content), parse_float=Decimal)
    assert read == {"any": any_json, "price": Decimal("-0.512")}
    long = schema.write({"price": {"value": b64encode(b"1" * 300).decode()}})
    with pytest.raises(NotReadableError, match="decimal of 300 bytes"):
        schema.json(b"\0" + long)


def test_a_whole_number_has_its_digits_in_all_types() -> None:
    """The shortest text of 2^63 as a double is that of 9223372036854776000."""
    text = """syntax = "proto3"; import "google/protobuf/struct.proto";
        import "google/protobuf/wrappers.proto";
        message E { double d = 1; float f = 2; google.protobuf.Value v = 3;
                    google.protobuf.DoubleValue w = 4; repeated double r = 5; uint64 u = 6; }"""
    schema = ProtobufSchema.registered(text)
    number = 2**63
    event = {"d": number, "f": number, "v": number, "w": number, "r": [number], "u": number}
    assert json.loads(schema.json(b"\0" + schema.write(event)), parse_float=Decimal) == event


def test_plain_protobuf_takes_the_topologys_own_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A .proto file, or descriptors as protoc writes them; which of several messages is said."""
    two = ORDER + "message Other { string x = 1; }\n"
    (tmp_path / "two.proto").write_text(two)
    (tmp_path / "two.desc").write_bytes(declared_files(two).SerializeToString())
    body = 'name="t"\nsource="s"\nspan="1h"\nevery="1m"\nsource_format="protobuf"\n'
    value = GOOD[6:]
    for file in ("two.proto", "two.desc"):
        path = tmp_path / "t.toml"
        for message, said in (("", "2 messages"), ("shop.None", "no message 'shop.None'")):
            path.write_text(f'{body}source_schema="{file}"\nsource_message="{message}"\n')
            with pytest.raises(SlidestatError, match=said):
                EventDecoder(load_topology(str(path)))
        for message in ("shop.Order", "Order"):
            path.write_text(f'{body}source_schema="{file}"\nsource_message="{message}"\n')
            declared = load_topology(str(path))
            values = [value, value[:-1], b"\x0a\1a", GOOD]
            columns = EventDecoder(declared).decode(values, [None] * 4, [START] * 4)
            assert columns.rows.tolist() == [0]
            assert len(columns.refusals) == 3
    show_topology(declared)
    assert "s, in Protobuf by the schema that is declared" in capsys.readouterr().out
    with pytest.raises(SlidestatError, match="'protobuf', and an audit reads JSON alone"):
        require_audited(declared)
    with pytest.raises(SlidestatError, match="but no source_schema is given"):
        topology(source_message="shop.Order")
    for text in ("message {", b64encode(b"abc").decode(), ""):
        with pytest.raises(SlidestatError, match="source_schema"):
            EventDecoder(replace(declared, source_schema=text))


def test_the_driver_says_what_it_lacks() -> None:
    """A schema for events that are sent in Protobuf, and an event that it can have."""
    with pytest.raises(SlidestatError, match="in Protobuf, and there is no schema"):
        TopologyDriver(topology()).send({"key": "a"})
    driver = TopologyDriver(topology(), schemas={1: ORDER})
    with pytest.raises(SlidestatError, match="not what the schema describes"):
        driver.send({"key": 5})
    with pytest.raises(SlidestatError, match="A schema cannot be used: protoc says"):
        TopologyDriver(topology(), schemas={1: "message"})
