"""An audit reads the records that a worker counts, as it does, and shares no code with it."""

import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import msgspec
import numpy as np
import pytest

from slidestat.declare.forms.resolved import resolved
from slidestat.declare.statistics import Count, Distinct
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.spark.audit.declaration import Declaration, declaration_of
from slidestat.spark.audit.events.reading import (
    RawRecord,
    UnreadableError,
    is_passed_over,
    read_event,
)
from tests.engine.decoding.test_readers import SUITE, TOPOLOGIES, written
from tests.engine.json_records import records

# Of each topology; 70,000 as each night.
RECORDS = int(os.environ.get("RECORDS", "5000")) // 5
STAMP_MS = 1_600_000_000_000
# What may stand anywhere does so in a field that nobody reads, and in those that are read.
PLACES = (
    b'{"key":"k","time":1600000000000,"value":1,"user":"u","more":%b}',
    b'{"key":"k","time":1600000000000,"value":%b,"user":"u"}',
    b'{"key":%b,"time":1600000000000,"value":1,"user":"u"}',
    b'{"key":"k","time":%b,"value":1,"user":"u"}',
)
AUDITED = [name for name, asked in TOPOLOGIES.items() if not asked.publishes_partitions]


def declared(topology: Topology) -> Declaration:
    """As an audit gets it: in plain tables, through JSON."""
    return declaration_of(msgspec.json.decode(msgspec.json.encode(resolved(topology))))


def read(declaration: Declaration, record: RawRecord) -> object:
    """What an audit makes of a record."""
    if is_passed_over(declaration, record):
        return "passed over"
    try:
        key, time, texts = read_event(declaration, record)
    except UnreadableError:
        return "unreadable"
    return key, time, texts


def check(asked: Topology, batch: Sequence[bytes]) -> int:
    """All that a worker counts or passes over an audit does, too; return how many it counts."""
    declaration = declared(asked)
    keys = [None if i % 97 == 0 else b"k%d" % (i % 5) for i in range(len(batch))]
    events = EventDecoder(asked).decode(batch, keys, [STAMP_MS + i for i in range(len(batch))])
    for row in events.passed_over.tolist():
        assert read(declaration, RawRecord(keys[row], batch[row], STAMP_MS + row)) == "passed over"
    numbers = {c.path: n for c, n in zip(asked.columns.numbers, events.numbers, strict=True)}
    items = {c.path: i for c, i in zip(asked.columns.items, events.items, strict=True)}
    for place, row in enumerate(events.rows.tolist()):
        record = RawRecord(keys[row], batch[row], STAMP_MS + row)
        found = read(declaration, record)
        assert isinstance(found, tuple), (found, record)
        key, time, texts = found
        assert (key, time) == (events.keys[place].as_py(), int(events.times[place])), record
        for (paths, is_item, where), text in zip(declaration.columns, texts, strict=True):
            if where or len(paths) != 1:
                continue
            if is_item:
                assert text == items[paths[0]][place].as_py(), record
            else:
                number = numbers[paths[0]][place]
                as_read = np.nan if text is None else float(text)
                assert number == as_read or np.isnan([number, as_read]).all(), record
    return len(events.rows)


@pytest.mark.parametrize("name", AUDITED)
def test_what_a_worker_counts_an_audit_reads_alike(name: str) -> None:
    """Of thousands of records, right, odd and damaged ones, and of a conformance suite."""
    asked = TOPOLOGIES[name]
    batch = list(records(Random(f"audit {name}"), RECORDS, written(asked)))
    batch += [place % document for place in PLACES for document in SUITE.values()]
    assert check(asked, batch) > len(batch) // 20


@pytest.mark.parametrize(
    ("number", "item"),
    [
        (b"1e-400", "0"),
        (b"-1e-400", "0"),
        (b"0.99999999999999999999", "1"),
        (b"-0.99999999999999999999", "-1"),
        (b"9007199254740991.4", "9007199254740991"),
        (b"9007199254740991.6", "9007199254740991.6"),
    ],
)
def test_a_number_whose_double_is_whole_is_one_item(number: bytes, item: str) -> None:
    """It is no whole number, and a worker has read its double."""
    asked = replace(TOPOLOGIES["a sum"], statistics=(Distinct(field="user"),))
    record = b'{"key":"k","time":%d,"value":1,"user":%b}' % (STAMP_MS, number)
    assert check(asked, [record]) == 1
    assert read(declared(asked), RawRecord(b"k", record, STAMP_MS)) == ("k", STAMP_MS, [item])


LARGE = (
    *(b"9007199254740993.5", b"9223372036854775808", b"18446744073709551616", b"1e22", b"1e31"),
    *(b"1267650600228229401496703205376", b"1.2676506002282294e30", b"9" * 40, b"9" * 400),
    *(b"20251125", b"20251125.0", b"1e309", b"[]", b"true", b'"20251125"', b'" 7 "'),
)


@pytest.mark.parametrize(
    "computed",
    [
        *("-n as m", "cast(n as varchar) as m", "try_cast(n as varchar) as m"),
        *("try_cast((n) as double) as m", "cast(n as bigint) as m", "cast(n as timestamp) as m"),
        *("coalesce(try_cast(n as varchar), 'x') as m", "cast(n + 0 as varchar) as m"),
        # One that is a number elsewhere is no text in its cast.
        *("try_cast(n as varchar) || cast(n + 0 as varchar) as m", "n * 2 as m"),
    ],
)
def test_what_is_computed_of_large_numbers_is_read_alike(computed: str) -> None:
    """As an item, as a key, and by a condition."""
    batch = [
        b'{"key":"k","time":%d,"value":1,"user":"u","n":%b}' % (STAMP_MS, n) for n in (*LARGE, b"7")
    ]
    item = replace(
        TOPOLOGIES["a sum"], computed=(computed,), statistics=(Count(), Distinct(field="m"))
    )
    meant = computed.removesuffix(" as m")
    condition = f"{meant} >= {7 if meant[0] in '-n' or 'varchar' not in meant else repr('7')}"
    key = replace(item, key_field="m", statistics=(Count(),))
    for asked in (item, key, replace(key, key_field="key", computed=(), where=condition)):
        check(asked, batch)


@pytest.mark.parametrize(
    "value",
    [b'"12"', b"true", b"NaN", b"1e99999999999999999999", b"1" * 5_000, b'"\\ud800"', b'"\xff"'],
)
def test_what_no_worker_counts_is_no_event(value: bytes) -> None:
    """A number as a text or a truth value, one beyond all doubles, texts that are no Unicode: a
    record that was neither counted nor refused must be missed.
    """
    places = [b'{"key":"k","time":1600000000000,"value":%b}' % value]
    if value.startswith(b'"\\') or value.startswith(b'"\xff'):
        places.append(b'{"key":%b,"time":1600000000000,"value":1}' % value)
    for record in places:
        assert EventDecoder(TOPOLOGIES["a sum"]).decode([record]).refusals
        found = read(declared(TOPOLOGIES["a sum"]), RawRecord(b"k", record, STAMP_MS))
        assert found == "unreadable"
