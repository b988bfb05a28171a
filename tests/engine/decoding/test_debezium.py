"""Changes in Debezium's envelope are events with the fields of their rows."""

import base64
import json
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.statistics import Count, Distinct, Sum
from slidestat.declare.topology import Topology, require_json
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.errors import SlidestatError
from slidestat.infer.proposal import propose, toml_text
from slidestat.infer.sampling import Sample, SampledRecord, without_envelope
from slidestat.infer.survey import survey
from slidestat.schemas.dead_letter import Reason

DOCS = Path(__file__).parents[3] / "docs"
START = 1_764_072_000_000
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
NOTED = "after.note || '' <> before.note || ''"
Row = dict[str, Any] | None


def orders(**changes: Any) -> Topology:
    declared: dict[str, Any] = {
        "name": "orders",
        "source": "shop.public.orders",
        "envelope": "debezium",
        "span": "1h",
        "every": "1m",
        "key_field": "customer",
        "time_field": "source.ts_ms",
        "computed": ("cast(amount as double) as paid",),
        "statistics": (
            Count(),
            Sum(field="paid", decimals=2),
            Count(name="deleted", where="op = 'd'"),
            Count(
                name="raised", where="cast(after.amount as double) > cast(before.amount as double)"
            ),
        ),
    }
    return Topology(**declared | changes)


def change(op: str, before: Row, after: Row, at: int = 0, **more: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "ts_ms": START + at, "table": "orders"}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": START, **more}


def row(amount: str, **more: Any) -> dict[str, Any]:
    return {"id": 7, "customer": "ada", "amount": amount, **more}


CHANGES = [
    change("r", None, row("1.50"), 0),
    change("c", None, row("2.50"), 1),
    change("u", row("2.50"), row("3.25"), 2),
    change("d", row("3.25"), None, 3),
    change("t", None, None, 4),
    change("m", None, None, 5, message={"prefix": "p", "content": "AAA="}),
]


@pytest.mark.parametrize("has_schema", [False, True])
def test_changes_are_events(has_schema: bool) -> None:
    """Snapshots, inserts, updates and deletions count with their row; truncations, messages and
    tombstones are passed over; with the schema of Kafka Connect around them and without.
    """
    driver = TopologyDriver(orders())
    for one in CHANGES:
        driver.send({"schema": {"type": "struct"}, "payload": one} if has_schema else one)
    driver.send_bytes(None, b'{"schema": null, "payload": null}' if has_schema else None)
    driver.close_windows()
    assert not driver.dead_letters
    at = START + 60_000
    figures = {
        label: driver.figure("ada", label, "1h", at=at).estimate
        for label in ("count", "sum_paid", "deleted", "raised")
    }
    assert figures == {
        "count": 4,
        "sum_paid": pytest.approx(10.5, rel=0.01),
        "deleted": 1,
        "raised": 1,
    }


def test_changes_in_avro_are_events() -> None:
    """A decimal of the row is a number, and its time one in the unit that is declared."""
    columns = [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": DECIMAL},
        {"name": "at", "type": "long"},
    ]
    envelope = [
        {
            "name": "before",
            "type": ["null", {"type": "record", "name": "Value", "fields": columns}],
        },
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ]
    schema = json.dumps({"type": "record", "name": "Envelope", "fields": envelope})
    topology = orders(
        source_format="avro",
        key_field="id",
        time_field="at",
        time_format="us",
        computed=(),
        statistics=(Count(), Sum(field="amount", decimals=2), Count(name="d", where="op = 'd'")),
    )
    driver = TopologyDriver(topology, schemas={1: schema})
    one = {"id": 7, "amount": Decimal("12.34"), "at": START * 1_000}
    driver.send({"before": None, "after": one, "op": "c"})
    driver.send({"before": one, "after": None, "op": "d"})
    driver.send({"before": None, "after": None, "op": "t"})
    driver.close_windows()
    assert not driver.dead_letters
    figures = {
        label: driver.figure("7", label, "1h", at=START + 60_000).estimate
        for label in ("count", "sum_amount", "d")
    }
    assert figures == {"count": 2, "sum_amount": pytest.approx(24.68, rel=0.01), "d": 1}


@pytest.mark.parametrize("time_format", ["ms", "s", "us", "iso8601"])
def test_a_timestamp_of_a_row_is_the_time_whatever_its_unit(time_format: str) -> None:
    """As one of the envelope is, and one of an event without an envelope."""
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    columns = [{"name": "id", "type": "long"}, {"name": "at", "type": moment}]
    row = {"type": "record", "name": "Value", "fields": columns}
    stamp = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", stamp]},
    ]
    avro = {"type": "record", "name": "Envelope", "fields": fields}
    protobuf = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
        message Envelope { Row before = 1; Row after = 2; string op = 3;
            google.protobuf.Timestamp ts_ms = 4; }
        message Row { int64 id = 1; google.protobuf.Timestamp at = 2; }"""
    for time_field, source_format in product(("at", "ts_ms"), ("avro", "protobuf")):
        topology = orders(
            source_format=source_format,
            key_field="id",
            time_field=time_field,
            time_format=time_format,
            computed=(),
            statistics=(Count(),),
        )
        schema = json.dumps(avro) if source_format == "avro" else protobuf
        driver = TopologyDriver(topology, schemas={1: schema})
        at: object = START * 1_000 if source_format == "avro" else "2025-11-25T12:00:00Z"
        ts_ms: object = START if source_format == "avro" else at
        one = {"id": 7, "at": at}
        driver.send({"before": None, "after": one, "op": "c", "ts_ms": ts_ms})
        driver.send({"before": one, "after": None, "op": "d", "ts_ms": ts_ms})
        driver.close_windows()
        assert not driver.dead_letters
        assert driver.figure("7", "count", "1h", at=START + 60_000).estimate == 2


def test_a_time_of_a_row_in_a_narrow_float_is_refused() -> None:
    """It is minutes away from what it was."""
    row = {"type": "record", "name": "Value", "fields": [{"name": "at", "type": "float"}]}
    fields = [{"name": "after", "type": ["null", row]}, {"name": "op", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "Envelope", "fields": fields})
    topology = orders(source_format="avro", key_field="op", time_field="at", time_format="s")
    driver = TopologyDriver(topology, schemas={1: schema})
    driver.send({"after": {"at": START / 1_000}, "op": "c"})
    (letter,) = driver.dead_letters
    assert letter.reason is Reason.BAD_SCHEMA
    assert "after.at (the time) is a float of 32 bits" in letter.detail


def test_the_names_of_the_envelope_are_its_own() -> None:
    """A column that is called as one of them is reached by the row."""
    topology = orders(
        key_field="op",
        computed=(),
        statistics=(Sum(field="after.ts_ms"), Count(name="seven", where="id = 7")),
    )
    value = json.dumps(change("c", None, row("1", op="web", ts_ms=5))).encode()
    columns = EventDecoder(topology).decode([value, b" " + value])
    assert columns.keys.to_pylist() == ["c", "c"]
    assert columns.numbers[0].tolist() == [5, 5]


@pytest.mark.parametrize("column", ["web", None, 5, [1], True])
@pytest.mark.parametrize("time_field", ["source.ts_ms", "ts_ms"])
def test_a_column_called_as_the_envelopes_may_be_anything(column: object, time_field: str) -> None:
    """What is read under that name is the envelope's alone, whatever the row has there."""
    topology = orders(time_field=time_field, where="op = 'c'")
    names = dict.fromkeys(("source", "ts_ms", "op", "before"), column)
    value = json.dumps(change("c", None, row("1.25", **names))).encode()
    columns = EventDecoder(topology).decode([value])
    assert (columns.refusals, len(columns.rows)) == ([], 1)


def test_a_value_that_the_database_does_not_send_is_missing() -> None:
    """Debezium has a text in its place: it is no item, no key, and no other text than before."""
    topology = orders(
        computed=(),
        statistics=(Count(), Distinct(field="note"), Count(name="noted", where=NOTED)),
    )
    driver = TopologyDriver(topology)
    texts = 'a "__debezium_unavailable_value"', "b", "__debezium_unavailable_value"
    for at, note in enumerate(texts):
        before, after = row("1", note="a", __debezium_unavailable_value=1), row("1", note=note)
        driver.send(change("u", before, after, at))
    driver.send(change("u", None, row("1", customer="__debezium_unavailable_value"), 3))
    (letter,) = driver.dead_letters
    assert letter.reason is Reason.WRONG_TYPE
    driver.close_windows()
    figures = [
        driver.figure("ada", label, "1h", at=START + 60_000).estimate
        for label in ("count", "distinct_note", "noted")
    ]
    assert figures == [3, 2, 2]


@pytest.mark.parametrize("mode", ["base64", "hex"])
def test_bytes_that_the_database_does_not_send_are_missing(mode: str) -> None:
    """Their placeholder is written as the bytes are, by `binary.handling.mode`."""
    placeholder = b"__debezium_unavailable_value"
    note = base64.b64encode(placeholder).decode() if mode == "base64" else placeholder.hex()
    topology = orders(computed=(), statistics=(Count(), Distinct(field="note")))
    values = [json.dumps(change("u", None, row("1", note=it))).encode() for it in (note, "YQ==")]
    assert EventDecoder(topology).decode(values).items[0].to_pylist() == [None, "YQ=="]


def test_a_change_without_its_row_is_not_passed_over() -> None:
    """As a deletion from a table that has no primary key: by the key of its record it counts."""
    topology = orders(key_field="kafka:key", computed=(), statistics=(Count(),))
    value = json.dumps(change("d", None, None)).encode()
    assert EventDecoder(topology).decode([value], [b"7"]).keys.to_pylist() == ["7"]
    (refusal,) = EventDecoder(orders()).decode([value]).refusals
    assert refusal.reason is Reason.MISSING_FIELD
    gone = orders(where="op <> 'd'")
    assert EventDecoder(gone).decode([value]).passed_over.tolist() == [0]


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (b'{"customer": "ada"}', Reason.MISSING_FIELD, "the object has no op"),
        (b'{"op": "c", "after": "{}"}', Reason.MISSING_FIELD, "its after or before is no object"),
        (b"[]", Reason.NOT_JSON, "Expected `object`"),
        (b"{", Reason.NOT_JSON, "Input data was truncated"),
        (b'{"op": "c", "after": {"\xff": 1}}', Reason.NOT_JSON, "'utf-8' codec can't decode"),
        (b'{"op": "c", "after": {}}', Reason.MISSING_FIELD, "Object missing required field"),
    ],
)
def test_what_is_no_change_is_a_letter(value: bytes, reason: Reason, detail: str) -> None:
    (refusal,) = EventDecoder(orders()).decode([value]).refusals
    assert refusal.reason is reason
    assert refusal.detail.startswith(detail)


def test_a_declaration_knows_its_envelope() -> None:
    assert fingerprint_of(orders()) != fingerprint_of(orders(envelope=""))
    with pytest.raises(SlidestatError, match="envelope is 'maxwell'"):
        orders(envelope="maxwell")
    with pytest.raises(SlidestatError, match="envelope = 'debezium'"):
        require_json(orders(), "spark audit")


@pytest.mark.parametrize("has_schema", [False, True])
def test_init_sees_the_envelope(has_schema: bool) -> None:
    """The key is the column that Kafka's key has, the time that of the change, and the value a
    column of the row.
    """
    records = []
    for i in range(200):
        key: Any = {"id": i % 20}
        one: Any = change("c", None, row(f"{i % 50}.25") | {"id": i % 20}, i)
        if has_schema:
            key, one = ({"schema": {}, "payload": it} for it in (key, one))
        records.append(
            SampledRecord(0, json.dumps(key).encode(), json.dumps(one).encode(), START + i)
        )
        records.append(SampledRecord(0, json.dumps(key).encode(), None, START + i))
    sample = without_envelope(Sample("orders", 1, len(records), tuple(records)))
    text = toml_text(propose(sample, survey(sample.records), "orders"))
    for line in (
        'envelope = "debezium"',
        'key_field = "id"  # the records are partitioned by it',
        'time_field = "source.ts_ms"  # when the row was changed in the database',
        'computed = ["cast(amount as double) as amount_number"]',
        "# where = \"op in ('c', 'r')\"",
    ):
        assert f"\n{line}" in text


def test_init_passes_over_what_has_no_row() -> None:
    """Truncations and messages, as a worker does: no letter is announced, and no key is missed."""
    changes = [change("c", None, row("1.25") | {"id": i % 20}, i) for i in range(100)]
    for i in range(0, 100, 10):
        changes[i] |= {"op": "t", "after": None}
    records = [
        SampledRecord(0, b'{"id":%d}' % (i % 20), json.dumps(one).encode(), START + i)
        for i, one in enumerate(changes)
    ]
    sample = without_envelope(Sample("orders", 1, len(records), tuple(records)))
    proposal = propose(sample, survey(sample.records), "orders")
    assert (proposal.key.value, proposal.envelope) == ("id", "debezium")
    assert not any("dead letters" in warning for warning in proposal.warnings)


@pytest.mark.parametrize(
    ("key", "columns", "found"),
    [
        (b'{"id":7}', {"id": 7}, "id"),
        (b'{"schema":{},"payload":{"id":"a"}}', {"id": "a"}, "id"),
        (b'"a"', {"shop": "a"}, "shop"),
        (b"true", {"shop": "true"}, "shop"),
        (b"007", {"shop": "007"}, "shop"),
        (b'{"id":7,"shop":"a"}', {"id": 7, "shop": "a"}, "kafka:key"),
        (b'{"paid":true}', {"paid": "True"}, "kafka:key"),
        (b"7.0", {"id": 7}, "kafka:key"),
    ],
)
def test_init_knows_keys_that_kafka_connect_writes(
    key: bytes, columns: dict[str, object], found: str
) -> None:
    """Also of rows that the connector extracts, and of texts in JSON."""
    value = json.dumps(columns | {"at": START, "n": 1.5}).encode()
    records = tuple(SampledRecord(0, key, value, START + i) for i in range(20))
    sample = Sample("orders", 1, 20, records)
    assert propose(sample, survey(records), "orders").key.value == found


def test_changes_of_a_text_are_counted_as_documented() -> None:
    condition = "after.status || '' <> before.status || ''"
    assert f"`{condition}`" in (DOCS / "source-formats.md").read_text("utf-8")
    driver = TopologyDriver(
        orders(statistics=(Count(), Count(name="moved", where=condition), Sum(field="paid")))
    )
    driver.send(
        change("c", None, row("1", status="new"), 0),
        change("u", row("1", status="new"), row("1", status="paid"), 1),
        change("u", row("1", status="paid"), row("2", status="paid"), 2),
    )
    driver.close_windows()
    assert driver.figure("ada", "count", "1h", at=START + 60_000).estimate == 3
    assert driver.figure("ada", "moved", "1h", at=START + 60_000).estimate == 1
    assert not driver.dead_letters
