"""Ids of schemas in the headers of records, with the content alone in their values."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings, strategies as st

from slidestat import Count, Topology, TopologyDriver
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.avro_schema import AvroSchema
from slidestat.engine.decoding.formats.protobuf import ProtobufSchema
from slidestat.engine.decoding.formats.source_schemas import (
    HEADER_OF_ID,
    HEADER_OF_KEY_ID,
    SchemaId,
    SchemaText,
    SourceSchemas,
    framed,
    framed_by_headers,
    schemas_of,
)
from slidestat.errors import SlidestatError
from slidestat.kafka.schema_registry import SchemaRegistry
from slidestat.repartition.keyed_records import KeyReader
from slidestat.schemas.dead_letter import Reason
from tests.registry.stand_in import stand_in

START = 1_764_000_000_000
GUID, OTHER = "89791762-2336-4186-9674-299b90a802e2", "00000000-0000-0000-0000-000000000001"
Headers = Sequence[tuple[str, bytes | None]]

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "time", "type": "long"},
            {"name": "value", "type": "double"},
        ],
    }
)
PROTO = """syntax = "proto3"; message Order { string key = 1; int64 time = 2; double value = 3; }
message Other { message Inner { string key = 1; int64 time = 2; double value = 3; } }"""


def topology(source_format: str, **declared: Any) -> Topology:
    return Topology(
        **{
            "name": "t",
            "source": "s",
            "source_format": source_format,
            "span": "10m",
            "every": "1m",
            "statistics": (Count(),),
            **declared,
        }
    )


def orders(count: int) -> list[dict[str, Any]]:
    return [{"key": "ab"[i % 2], "time": START + 700 * i, "value": i / 4} for i in range(count)]


def text_of(source_format: str) -> str:
    return PROTO if source_format == "protobuf" else AVRO


def content_of(source_format: str) -> tuple[Callable[[dict[str, Any]], bytes], bytes]:
    """What writes an event without its framing, and what a header has of it behind the id."""
    if source_format == "avro":
        return AvroSchema(AVRO).write, b""
    if source_format == "json-schema":
        return lambda event: json.dumps(event).encode(), b""
    write = ProtobufSchema.registered(PROTO).write
    return lambda event: write(event, framed=True)[1:], b"\0"


@pytest.mark.parametrize("source_format", ["avro", "protobuf", "json-schema"])
def test_an_id_in_a_header_is_as_one_before_the_value(source_format: str) -> None:
    """A number or a GUID, or Apicurio's number of the content: the emissions are those of the
    framing before the value.
    """
    write, index = content_of(source_format)
    apicurio = ("apicurio.value.contentId", (7).to_bytes(8, "big"))
    forms: list[tuple[bytes, Headers]] = [
        (framed(7, index), ()),
        (b"", [(HEADER_OF_ID, framed(7, index))]),
        (b"", [("trace", b"x"), (HEADER_OF_ID, framed(GUID, index)), ("last", None)]),
    ]
    if source_format != "protobuf":  # Of which message it is, that header has nothing.
        forms.append((b"", [apicurio]))
    schemas: dict[SchemaId, str] = {}
    if source_format != "json-schema":
        schemas = {7: text_of(source_format), GUID: text_of(source_format)}
    found = []
    for prefix, headers in forms:
        driver = TopologyDriver(topology(source_format), schemas=schemas)
        driver.send_bytes(*(prefix + write(event) for event in orders(300)), headers=headers)
        driver.close_windows()
        assert driver.dead_letters == []
        found.append(driver.emissions)
    assert len(found[0]) > 5
    assert all(emissions == found[0] for emissions in found)


@pytest.mark.parametrize("source_format", ["avro", "protobuf"])
def test_a_driver_sends_by_a_guid(source_format: str) -> None:
    """Its id is in a header, as Confluent's serializers write it, and in no value."""
    driver = TopologyDriver(topology(source_format), schemas={GUID.upper(): text_of(source_format)})
    driver.send(*orders(5))
    driver.send_bytes(b"\xff", headers=[(HEADER_OF_ID, framed(GUID, b"\0"))])
    driver.close_windows()
    assert sum(emission.key in "ab" for emission in driver.emissions) > 1
    (letter,) = driver.dead_letters
    assert letter.value == b"\xff"
    assert letter.headers == [(HEADER_OF_ID, framed(GUID, b"\0"))]
    with pytest.raises(SlidestatError, match="no id of a schema"):
        TopologyDriver(topology("avro"), schemas={"one": AVRO})


def test_what_confluents_serializer_writes_is_read() -> None:
    """By the registry's address for GUIDs, once; and what passes records on may leave its id before
    another one: the last one counts.
    """
    with stand_in() as server:
        conf = {
            "schema.id.serializer": header_schema_id_serializer,
            "subject.name.strategy.type": "TOPIC",
        }
        headers: list[tuple[str, bytes]] = [(HEADER_OF_ID, framed(OTHER, b""))]
        context = SerializationContext("s", MessageField.VALUE, headers)
        event = orders(1)[0]
        value = AvroSerializer(SchemaRegistryClient({"url": server.url}), AVRO, conf=conf)(
            event, context
        )
        assert len(headers) == 2
        registry = SchemaRegistry(server.url)
        (unknown,) = registry.schemas.unknown(framed_by_headers([value], [headers]))
        assert unknown == server.guid(1)
        assert registry.look_up(unknown) is None
        decoder = EventDecoder(topology("avro"), schemas=registry.schemas)
        columns = decoder.decode([value], [None], [START], [headers])
        assert columns.keys.to_pylist() == [event["key"]]
        assert server.asked[-1] == f"GET schemas/guids/{unknown}"


def test_a_guid_that_there_is_not() -> None:
    """Is a letter's reason; of a registry that knows none, records wait, and it is named."""
    with stand_in() as server:
        registry = SchemaRegistry(server.url)
        assert registry.look_up(OTHER) is None
        decoder = EventDecoder(topology("avro"), schemas=registry.schemas)
        (refusal,) = decoder.decode(
            [b"x"], [None], [START], [[(HEADER_OF_ID, framed(OTHER, b""))]]
        ).refusals
        assert refusal.reason is Reason.BAD_SCHEMA
        assert f"schema {OTHER}: the schema registry says: Schema not found" in refusal.detail
        server.has_guids = False
        said = registry.look_up(GUID)
        assert said is not None
        assert "gives none by its GUID" in said
        assert "PrefixSchemaIdSerializer" in said
        server.fail = 500
        assert "in the backend" in (registry.look_up(GUID) or "")


AVRO_ORDER = AvroSchema(AVRO).write(orders(1)[0])
PROTO_ORDER = ProtobufSchema.registered(PROTO).write(orders(1)[0], framed=True)[1:]
NUMBER, BY_GUID = framed(7, b""), framed(GUID, b"")


@pytest.mark.parametrize(
    ("source_format", "value", "header", "reason", "detail"),
    [
        ("avro", AVRO_ORDER, b"", Reason.NOT_AVRO, "0x is neither a number nor a GUID"),
        ("avro", AVRO_ORDER, b"\0\0\7", Reason.NOT_AVRO, "0x000007 is neither"),
        ("avro", AVRO_ORDER, BY_GUID[:-1], Reason.NOT_AVRO, "is neither a number nor a GUID"),
        ("avro", AVRO_ORDER, b"\2" + NUMBER[1:], Reason.NOT_AVRO, "0x0200000007 is neither"),
        ("avro", AVRO_ORDER, GUID.encode(), Reason.NOT_AVRO, "is neither a number nor a GUID"),
        ("avro", AVRO_ORDER, NUMBER + b"\0", Reason.NOT_AVRO, "has 6 bytes, not 5"),
        ("avro", AVRO_ORDER, BY_GUID + b"\0", Reason.NOT_AVRO, "has 18 bytes, not 17"),
        ("avro", b"", NUMBER, Reason.NOT_AVRO, "by schema 7, it ends before"),
        ("avro", b"", BY_GUID, Reason.NOT_AVRO, f"by schema {GUID}, it ends before"),
        ("avro", framed(7, AVRO_ORDER), NUMBER, Reason.NOT_AVRO, "the framing of schema 7: have"),
        ("avro", framed(3, AVRO_ORDER), BY_GUID, Reason.NOT_AVRO, "the framing of schema 3: have"),
        ("avro", AVRO_ORDER, framed(8, b""), Reason.BAD_SCHEMA, "schema 8: none"),
        ("avro", AVRO_ORDER, framed(OTHER, b""), Reason.BAD_SCHEMA, f"schema {OTHER}: none"),
        ("avro", BY_GUID + AVRO_ORDER, None, Reason.NOT_AVRO, "begins with 0x01, not with the"),
        ("avro", AVRO_ORDER, None, Reason.NOT_AVRO, "and it has no header __value_schema_id"),
        ("protobuf", PROTO_ORDER, BY_GUID, Reason.NOT_PROTOBUF, "before it says which message"),
        ("protobuf", PROTO_ORDER, NUMBER, Reason.NOT_PROTOBUF, "before it says which message"),
        ("protobuf", PROTO_ORDER, BY_GUID + b"\0\0", Reason.NOT_PROTOBUF, "has 19 bytes, not 18"),
        ("protobuf", PROTO_ORDER, BY_GUID + b"\4\2", Reason.NOT_PROTOBUF, "it ends before it says"),
        ("protobuf", PROTO_ORDER, BY_GUID + b"\2\x08", Reason.NOT_PROTOBUF, "no message at [4]"),
        ("json-schema", b"{", BY_GUID, Reason.NOT_JSON, ""),
        ("json-schema", b"{}", b"\7", Reason.NOT_JSON, "0x07 is neither a number nor a GUID"),
    ],
)
def test_a_wrong_header_is_a_letter(
    source_format: str, value: bytes, header: bytes | None, reason: Reason, detail: str
) -> None:
    """And nothing else is read for it, nor do the records around it suffer."""
    schemas = SourceSchemas()
    for known in (7, GUID):
        schemas.add(known, SchemaText(text_of(source_format), kind=source_format.upper()))
    for lacking in (3, 8, OTHER):
        schemas.lack(lacking, "none")
    good, index = content_of(source_format)
    decoder = EventDecoder(topology(source_format), schemas=schemas)
    fine = [(HEADER_OF_ID, framed(GUID, index))]
    columns = decoder.decode(
        [good(orders(1)[0]), value, None, good(orders(1)[0])],
        [None] * 4,
        [START] * 4,
        [fine, [(HEADER_OF_ID, header)], fine, fine],
    )
    assert columns.rows.tolist() == [0, 3]
    (refusal,) = columns.refusals
    assert (refusal.row, refusal.reason) == (1, reason)
    assert detail in refusal.detail


def test_a_nested_message_is_named_by_a_header() -> None:
    """Its index path follows the id: here the first one within the second message."""
    write = ProtobufSchema.registered(PROTO).write
    content = write(orders(1)[0], framed=True)[1:]
    driver = TopologyDriver(topology("protobuf"), schemas={GUID: PROTO})
    driver.send_bytes(content, headers=[(HEADER_OF_ID, framed(GUID, b"\4\2\0"))])
    driver.send_bytes(content, headers=[(HEADER_OF_ID, framed(GUID, b"\2\0"))])
    driver.close_windows()
    assert driver.dead_letters == []
    assert {emission.key for emission in driver.emissions} == {"a"}


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ([("apicurio.value.globalId", (7).to_bytes(8, "big"))], "apicurio.registry.use-id"),
        ([("apicurio.value.contentId", b"\0\0\0\7")], "0x00000007 is no number of a schema"),
        ([("apicurio.value.contentId", bytes(8))], "0x0000000000000000 is no number"),
        ([("apicurio.value.contentId", b"\xff" * 8)], "0xffffffffffffffff is no number"),
    ],
)
def test_apicurios_headers_that_name_no_schema(headers: Headers, detail: str) -> None:
    decoder = EventDecoder(topology("avro"), schemas=SourceSchemas())
    (refusal,) = decoder.decode([AVRO_ORDER], [None], [START], [headers]).refusals
    assert refusal.reason is Reason.NOT_AVRO
    assert detail in refusal.detail


@pytest.mark.parametrize("name", [HEADER_OF_KEY_ID, "apicurio.key.contentId"])
def test_a_key_whose_schema_a_header_names_is_refused(name: str) -> None:
    """Its bytes might be read as text, of a key that nobody has written: here with its length."""
    declared = topology("avro", key_field="kafka:key")
    driver = TopologyDriver(declared, schemas={7: AVRO})
    value = framed(7, AVRO_ORDER)
    driver.send_bytes(value, key=b"\x06abc", headers=[(name, BY_GUID)])
    driver.send_bytes(value, key=b"abc")
    driver.close_windows()
    assert {emission.key for emission in driver.emissions} == {"abc"}
    assert [letter.reason for letter in driver.dead_letters] == [Reason.BAD_KEY]


def test_values_that_need_no_id_have_none() -> None:
    """The topology's own schema reads the content, and plain JSON is read as it is."""
    header = [(HEADER_OF_ID, b"\2 no id")]
    own = TopologyDriver(topology("avro", source_schema=AVRO))
    own.send_bytes(AVRO_ORDER, headers=header)
    plain = TopologyDriver(topology("json"))
    plain.send_bytes(json.dumps(orders(1)[0]).encode(), headers=header)
    assert not own.dead_letters
    assert not plain.dead_letters


def test_moved_records_are_read_by_their_headers() -> None:
    """Where they go is by the key that will be read there."""
    reader = KeyReader(topology("json-schema", repartition=True, lateness="10s"))
    value, header = json.dumps(orders(1)[0]).encode(), [(HEADER_OF_ID, BY_GUID)]
    keys, times = reader.read([value, value], [None] * 2, [START] * 2, [header, ()])
    assert keys == ["a", None]
    assert times[0] == START


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=30),
            st.lists(
                st.tuples(
                    st.sampled_from([HEADER_OF_ID, "apicurio.value.contentId", "other"]),
                    st.none()
                    | st.binary(max_size=20)
                    | st.sampled_from([NUMBER, BY_GUID, NUMBER + b"\0"]),
                ),
                max_size=3,
            ),
        )
    ),
    st.sampled_from(["avro", "protobuf", "json-schema"]),
)
def test_any_headers_are_read_or_refused(
    records: list[tuple[bytes | None, Headers]], source_format: str
) -> None:
    """They never raise, and leave no record without an outcome; all ids are those asked for."""
    values, headers = [value for value, _ in records], [own for _, own in records]
    schemas = SourceSchemas()
    for schema_id in schemas_of(framed_by_headers(values, headers)):
        schemas.add(schema_id, SchemaText(text_of(source_format), kind=source_format.upper()))
    decoder = EventDecoder(topology(source_format), schemas=schemas)
    columns = decoder.decode(values, [None] * len(values), [START] * len(values), headers)
    outcomes = (*columns.rows, *columns.passed_over, *(it.row for it in columns.refusals))
    assert sorted(outcomes) == list(range(len(values)))
