"""Records read a column at a time are those read one by one: on every input both say the same."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from slidestat.declare.statistics import Count, Distinct, Sum
from slidestat.declare.topology import Topology
from slidestat.spark.audit.declaration import Declaration
from slidestat.spark.audit.events.plain_reader import PlainReader, Records
from slidestat.spark.audit.events.reading import (
    EventReader,
    RawRecord,
    ReadRecords,
    UnreadableError,
    is_passed_over,
    read_event,
    time_of,
)
from tests.audit.test_raw_events import AUDITED, PLACES, RECORDS, STAMP_MS, declared
from tests.engine.cases import laws
from tests.engine.decoding.test_readers import SUITE, TOPOLOGIES, topology, written
from tests.engine.json_records import NUMBERS, STRINGS, TIMES, records

Told = list[object]


def batch_of(values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> Records:
    keys = keys or [b"k%d" % (row % 5) if row % 7 else None for row in range(len(values))]
    stamps = np.arange(STAMP_MS, STAMP_MS + len(values))
    return Records(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), stamps)


def at_once(reader: EventReader, batch: Records) -> Told:
    """What is read of each record, by a reader of batches."""
    read: ReadRecords = reader.read(batch)
    told: Told = [None] * len(batch.values)
    times = dict(zip(read.timed.tolist(), read.times.tolist(), strict=True))
    for row in read.passed_over.tolist():
        told[row] = "passed over", times.pop(row, None)
    for place, row in enumerate(read.events.rows.tolist()):
        assert told[row] is None
        texts = [column[place].as_py() for column in read.events.texts]
        assert times.pop(row) == read.events.times[place]
        told[row] = read.events.keys[place].as_py(), int(read.events.times[place]), texts
    assert times == {}
    return told


def one_by_one(declaration: Declaration, batch: Records) -> Told:
    """The same, by the referee."""
    told: Told = []
    for key, value, stamp in zip(
        batch.keys.to_pylist(), batch.values.to_pylist(), batch.stamps.tolist(), strict=True
    ):
        record = RawRecord(key, value, stamp)
        if is_passed_over(declaration, record):
            told.append(("passed over", time_of(declaration, record)))
            continue
        try:
            told.append(read_event(declaration, record))
        except UnreadableError:
            told.append(None)
    return told


def meant(declaration: Declaration, told: Told) -> Told:
    """Numbers as what they are: they may be written in several ways."""
    return [
        (
            *one[:2],
            [
                text if is_item or text is None or not paths else Decimal(text)
                for (paths, is_item, _), text in zip(declaration.columns, one[2], strict=True)
            ],
        )
        if isinstance(one, tuple) and len(one) == 3
        else one
        for one in told
    ]


def check(declaration: Declaration, batch: Records, reader: EventReader | None = None) -> int:
    """Both read the same; return how many records were read at once."""
    reader = reader or EventReader(declaration)
    expected = meant(declaration, one_by_one(declaration, batch))
    assert meant(declaration, at_once(reader, batch)) == expected
    plain = PlainReader(declaration) if PlainReader.is_plain(declaration) else None
    return 0 if plain is None else sum(len(part.rows) for part in plain.read(batch))


@pytest.mark.parametrize("name", AUDITED)
def test_both_read_the_same(name: str) -> None:
    """Of right records, odd ones and damaged ones, and of a conformance suite in every place."""
    declaration, asked = declared(TOPOLOGIES[name]), TOPOLOGIES[name]
    batch: list[bytes | None] = [*records(Random(f"reader {name}"), RECORDS, written(asked))]
    batch += [place % document for place in PLACES for document in SUITE.values()]
    check(declaration, batch_of([*batch, None, b"", b" "]))


def plain(value: str = "1", user: str = '"u"', time: str = str(STAMP_MS), key: str = '"k"') -> str:
    return f'{{"key":{key}, "time": {time} ,"value":{value},"user":{user},"in":{{"n":2}}}}'


WAYS: dict[str, Callable[[str], str]] = {
    "value": lambda text: plain(value=text),
    "user": lambda text: plain(user=text),
    "key": lambda text: plain(key=text),
    "time": lambda text: plain(time=text),
    "in": lambda text: plain().replace('{"n":2}', text),
    "n": lambda text: plain().replace("2}}", text + "}}"),
    "more": lambda text: plain().replace('{"n":2}', f'{{"n":2,"more":{text}}}'),
}
ANY = [
    *(f'"{text}"' for text in STRINGS),
    *NUMBERS,
    *TIMES,
    *("null", "true", "[]", "[1, null]", "[[]]", "{}", '{"x":1}', '{"n":1,"n":2}', "[{}]", "[1,]"),
    *('"\\u0041"', '"\x00"', '"\udcff"', '"2020-02-30T00:00:00Z"', '"2020-01-01T00:00:00.5Z"'),
]


@pytest.mark.parametrize("where", WAYS)
@pytest.mark.parametrize("name", ["a sum", "items", "seconds", "of any number"])
def test_anything_among_plain_records_is_read_alike(where: str, name: str) -> None:
    """Each odd value in the place of each field, among records of a shape that is known by then;
    and nearly all of the others are read at once.
    """
    declaration = declared(TOPOLOGIES[name])
    time = str(STAMP_MS // 1_000 if name == "seconds" else STAMP_MS)
    odd = [WAYS[where](text).replace(str(STAMP_MS), time) for text in ANY]
    values: list[bytes | None] = [
        record.encode("utf-8", "surrogateescape")
        for text in odd
        for record in (plain(time=time), text, plain(time=time, value="2.5"))
    ]
    assert check(declaration, batch_of(values)) >= len(values) // 2


FORMATS = {
    "iso8601": ["2023-11-14T22:13:20Z", "2023-11-14 22:13:20.123456+02:00", "1999-12-31T23:59:59Z"],
    "iso8601-utc": ["2023-11-14T22:13:20", "2023-11-14T22:13:20.5", "2023-11-14T22:13:20-11:30"],
}
OFFSETS = st.integers(-25, 60)
DIGITS = st.text("0123456789", min_size=1, max_size=8)


@laws
@given(
    st.sampled_from(["iso8601", "iso8601-utc"]),
    st.lists(
        st.one_of(
            st.sampled_from([text for texts in FORMATS.values() for text in texts]),
            st.datetimes().map(lambda at: f"{at.isoformat()}Z"),
            st.builds("2023-02-{:02}T{:02}:{:02}:09.{}Z".format, *[st.integers(0, 32)] * 3, DIGITS),
            st.builds(
                "1970-01-01T00:00:00.{}{:+03}:{:02}".format, DIGITS, *[st.integers(-25, 60)] * 2
            ),
        ),
        min_size=1,
        max_size=20,
    ),
)
def test_moments_are_read_alike(time_format: str, times: list[str]) -> None:
    """Days that are none, offsets of any size, fractions of any length."""
    declaration = declared(topology(time_format=time_format, statistics=[Count(), Sum()]))
    check(declaration, batch_of([plain(time=json.dumps(time)).encode() for time in times * 9]))


@laws
@given(st.sampled_from(["s", "ms", "us", "ns"]), st.lists(st.decimals(allow_nan=False), min_size=1))
def test_numbers_of_time_are_read_alike(time_format: str, times: list[Decimal]) -> None:
    declaration = declared(topology(time_format=time_format))
    texts = [f"{time:f}" for time in times if time.is_finite() and abs(time.adjusted()) < 40]
    check(declaration, batch_of([plain(time=text).encode() for text in [*texts, "12.5"] * 9]))


@laws
@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.lists(
        st.builds(
            "{}{}{}".format,
            st.sampled_from(["", "+", "++", "00", " "]),
            st.one_of(
                st.floats(0.1, 9.9).map(str),
                st.integers(1, 10**9).map(lambda digits: f"{digits / 10**8:.{digits % 9}f}"),
            ),
            st.sampled_from([f"{e}{n}" for e in ("e", "E", "E+") for n in (9, 12, 15, 18)]),
        ),
        min_size=1,
    ),
)
def test_texts_with_powers_are_read_alike(time_format: str, times: list[str]) -> None:
    """Those that have lost digits are no times to either."""
    declaration = declared(topology(time_format=time_format))
    check(declaration, batch_of([plain(time=json.dumps(time)).encode() for time in times * 9]))


def test_shapes_come_and_go() -> None:
    """Records of more shapes than are kept, in turns, some without what is read."""
    declaration = declared(
        Topology(
            name="t",
            source="s",
            span="1h",
            every="1m",
            statistics=[Sum(), Distinct(field="user")],
        )
    )
    reader, random = EventReader(declaration), Random(3)
    for _ in range(20):
        names = [random.choice(["a", "b", "c", "value", "user"]) for _ in range(4)]
        fields = "".join(f',"{name}":{random.choice(["1", "null", "2.5"])}' for name in names)
        record = f'{{"key":7,"time":{STAMP_MS}{fields}}}'.encode()
        check(declaration, batch_of([record] * 50 + [plain().encode()] * 50), reader)


def test_keys_and_times_of_the_record_itself() -> None:
    """Keys that are no text or not there are no events."""
    declaration = declared(TOPOLOGIES["the record's own"])
    keys = [b"a", None, b"\xff", b"", "é".encode()] * 20
    assert check(declaration, batch_of([b'{"value":1.5}'] * 100, keys)) == 60
