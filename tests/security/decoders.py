"""Decoders of bytes from outside, each with inputs that it can read: what mutations
(test_fuzzed_parsers.py) and a fuzzer that follows coverage (fuzz.py) begin with.

A decoder returns what it read, or raises the error that its docstring names. Where two readers read
the same, they agree.
"""

import json
import struct
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from aiokafka.errors import CorruptRecordException

from slidestat.admin.letters import read_letters
from slidestat.declare.expressions.expression import computed_fields
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Distinct, Quantiles, Sum, TopItems
from slidestat.declare.statistics.parted import parts_of
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.engine.alerts.alerting import Standing, decode_standings, encode_standings
from slidestat.engine.alerts.unconfirmed import Unconfirmed
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Counters,
    Loss,
    Recent,
    Slot,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
    stored_counters,
    stored_mark,
    stored_meaning,
    stored_slots,
)
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.formats.source_schemas import (
    HEADER_OF_ID,
    NotReadableError,
    SchemaText,
    SourceSchemas,
    UnusableSchemaError,
    framed,
    framed_by_headers,
    other_framing,
    schema_of,
)
from slidestat.engine.decoding.formats.translations import parsed_schema
from slidestat.engine.decoding.scan_reader import ScanPlan
from slidestat.engine.decoding.struct_reader import StructReader
from slidestat.engine.decoding.times import texts_ms
from slidestat.engine.emissions.emission_codec import JsonCodec, NotAnEmissionError
from slidestat.engine.emissions.last_written import LastWritten
from slidestat.engine.emissions.output_codec import AnyFormat, avro_codec
from slidestat.engine.keys.key_state import (
    decode_key_state,
    encode_key_state,
    read_clock,
    read_clocks,
    with_nothing_written,
)
from slidestat.engine.quota import needed_quotas
from slidestat.engine.records import LogMark
from slidestat.errors import SlidestatError
from slidestat.faust.data_folder import _LABEL, _check_label, _Label
from slidestat.faust.fencing import epoch_of
from slidestat.faust.source.key_watch import encode_note, read_note
from slidestat.infer.proposal import propose, toml_text
from slidestat.infer.sampling import Sample, SampledRecord
from slidestat.infer.survey import survey
from slidestat.kafka.read.topic_reader import AlertReader, EmissionReader
from slidestat.produce.events import Columns, encode
from slidestat.produce.file_records import FileRecords, Part
from slidestat.produce.files import EventFile, Format, compression_of
from slidestat.produce.readers import Reader
from slidestat.referee.party_clocks import PartyClocks
from slidestat.referee.party_synopses import AnsweredTicks, PartyStreams
from slidestat.referee.referee_answers import RefereeAnswers
from slidestat.referee.referee_partition import PartyRecords, RefusedError
from slidestat.repartition.moved_from import MovedFrom, note_of
from slidestat.schemas.dead_letter import DeadLetterHeaders
from slidestat.schemas.query import (
    Fault,
    KeyPage,
    KeyTable,
    RankingPart,
    TopologyList,
    TopologyStatus,
)
from slidestat.schemas.ranking import decode_part, decode_ranking
from slidestat.schemas.sequence import (
    decode_alert_change,
    decode_clock,
    decode_emission,
    decode_key_answer,
    decode_key_history,
    decode_ranking as decode_ranking_answer,
)
from slidestat.schemas.synopsis import ClockKey, SynopsisKey, decode_key, encode_key
from slidestat.synopses import CountParameters, ExponentialHistogram
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.merge.bundle import Bundle, read as read_mergeable
from slidestat.synopses.merge.window_summary import read_summary, take_summary
from slidestat.web.answers.parameters import key_in_query, key_of, key_query, page_query
from tests.engine.decoding.test_avro_source import ORDER, written
from tests.engine.decoding.test_debezium import CHANGES, orders
from tests.engine.decoding.test_protobuf_source import ORDER as PROTO
from tests.engine.decoding.test_readers import (
    TOPOLOGIES,
    Counting,
    Kernels,
    plain,
    written as times_of,
)
from tests.engine.fetched import Fetch, some_fetch, with_checksum
from tests.engine.json_records import records as some_records
from tests.kafka.test_fetches import read as fetched
from tests.synopses.every import EVERY
from tests.synopses.hostile import sealed
from tests.synopses.summarised import FAMILIES

Decode = Callable[[bytes], object]
# Errors of formats whose docstrings name them; msgspec's are those that all callers expect.
_MSGSPEC = (msgspec.DecodeError, UnicodeError, RecursionError)
_NOON = 1_764_072_000_000


class Decoder(NamedTuple):
    """A reader of bytes, inputs that it can read, and the errors by which it refuses others."""

    read: Decode
    seeds: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...] = (SlidestatError,)


DECODERS: dict[str, Decoder] = {}


def decoder(
    name: str, seeds: Iterable[bytes], *refusals: type[Exception]
) -> Callable[[Decode], Decode]:
    """Return what puts a function among the decoders."""

    def put(read: Decode) -> Decode:
        DECODERS[name] = Decoder(read, tuple(seeds), (SlidestatError, *refusals))
        return read

    return put


# Records. The first byte chooses the topology.

_NAMES = list(TOPOLOGIES)
_JSON = [
    b'{"key":"k1","time":1700000000000,"value":1.25,"user":"/a\\u00e9","in":{"n":3,"x":"y"},"ok":true}',
    *(
        record
        for record in some_records(Random(3), 60, times_of(TOPOLOGIES["a sum"]))
        if record is not None
    ),
]


@cache
def _readers(name: str) -> tuple[EventDecoder, EventDecoder]:
    declared = TOPOLOGIES[name]
    plan = ScanPlan.of(declared)
    assert plan is not None
    kernels = Kernels(declared, plan, Counting(declared))
    return EventDecoder(declared, kernels), EventDecoder(declared, StructReader(declared))


@decoder("records", (bytes((n,)) + it for n in range(len(_NAMES)) for it in _JSON[n::20]))
def records(data: bytes) -> None:
    """Read a record by kernels and by msgspec: the same columns, and no error."""
    kernels, structs = _readers(_NAMES[data[0] % len(_NAMES)] if data else _NAMES[0])
    batch, keys = BinaryColumn.of([data[1:]]), BinaryColumn.of([b"k"])
    times = np.array([_NOON])
    assert plain(kernels.decode(batch, keys, times)) == plain(
        structs.decode([data[1:]], [b"k"], times)
    )


def _declared(**more: object) -> Topology:
    given = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
    statistics = (Count(), Sum(decimals=2), Distinct(field="client.address"), TopItems(field="key"))
    return Topology(**{**given, "statistics": statistics, **more})  # type: ignore[arg-type]


def _one(
    decoder: EventDecoder,
    value: bytes,
    key: bytes = b"k",
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> None:
    columns = decoder.decode([value], [key], [_NOON], [headers])
    assert len(columns.rows) + len(columns.refusals) + len(columns.passed_over) == 1


_KEYS = EventDecoder(_declared(key_field="kafka:key", source_format="json"))
_VALUE = b'{"time":1700000000000,"value":1,"client":{"address":"a"},"key":"a"}'


@decoder("keys", (b"k1", "ключ".encode(), b"\0\0\0\0\x01abc", b"a" * 300))
def keys(data: bytes) -> None:
    """Read the key of a record."""
    _one(_KEYS, _VALUE, data)


_EVENT = {
    "key": "a",
    "time": _NOON,
    "value": 0.25,
    "status": 500,
    "client": {"address": "10.0.0.1"},
}


@cache
def _framed(source_format: str) -> EventDecoder:
    schemas = SourceSchemas()
    schemas.add(1, SchemaText(json.dumps(ORDER)))
    schemas.add(2, SchemaText(json.dumps(_ALL_SORTS)))
    schemas.add(3, SchemaText(PROTO, kind="PROTOBUF"))
    for number in range(256):
        if number not in (1, 2, 3):
            schemas.lack(number, "there is no such schema")
    return EventDecoder(_declared(source_format=source_format), schemas=schemas)


def _framed_record(source_format: str, data: bytes) -> None:
    # Numbers of other schemas have been looked up before a decoder is asked.
    _one(_framed(source_format), data[:1] + b"\0\0\0" + data[4:] if len(data) > 4 else data)


_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_ALL_SORTS = {
    "type": "record",
    "name": "All",
    "fields": [
        {
            "name": "key",
            "type": ["null", "string", {"type": "enum", "name": "E", "symbols": ["A"]}],
        },
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "value", "type": ["double", "float", "int", _DECIMAL]},
        {"name": "client", "type": {"type": "map", "values": ["null", "string", "bytes"]}},
        {"name": "list", "type": {"type": "array", "items": "boolean"}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
    ],
}
_SORTS = {"key": "A", "time": 1, "value": 1.5, "client": {"address": "b"}, "list": [True]}


@decoder(
    "Avro",
    (
        framed(1, written(ORDER, _EVENT)),
        framed(2, written(_ALL_SORTS, {**_SORTS, "fixed": b"abc"})),
    ),
)
def avro(data: bytes) -> None:
    """Read a framed record of Avro."""
    _framed_record("avro", data)


_PROTO_VALUE = parsed_schema(SchemaText(PROTO, kind="PROTOBUF"), "protobuf").write(  # type: ignore[attr-defined]
    _EVENT, framed=True
)


@decoder("Protobuf", (framed(3, _PROTO_VALUE),))
def protobuf(data: bytes) -> None:
    """Read a framed record of Protobuf."""
    _framed_record("protobuf", data)


_HEADERS_OF_SCHEMAS = (HEADER_OF_ID, "apicurio.value.contentId", "apicurio.value.globalId")


@decoder(
    "framings",
    (
        b"\0" + framed(1, b"") + b"\n" + written(ORDER, _EVENT),
        b"\1" + (1).to_bytes(8, "big") + b"\n" + written(ORDER, _EVENT),
        b"\2" + bytes(7) + b"\1\n" + written(ORDER, _EVENT),
        b"\0\1" + bytes(16) + b"\n" + written(ORDER, _EVENT),
        b"\3\n\xc3\1" + bytes(8) + b"\2\2",
        b"\3\n\3\0" + bytes(16) + b"\2\2",
        b"\3\n\0" + (5).to_bytes(8, "big") + b"\2\2",
    ),
)
def framings(data: bytes) -> None:
    """Read a record whose schema a header names, or that is framed in another way: a byte that
    chooses the header, its content, a line feed, the value.
    """
    kind, (content, _, value) = data[:1], data[1:].partition(b"\n")
    names = [name for number, name in enumerate(_HEADERS_OF_SCHEMAS) if kind == bytes((number,))]
    headers = [(name, content) for name in names]
    (shown,) = framed_by_headers([value], [headers])
    with suppress(NotReadableError):
        if schema_of(shown or b"") not in range(256):
            return  # A registry is asked first.
    other_framing(shown or b"")
    _one(_framed("avro"), value, headers=headers)


@decoder(
    "schemas", (json.dumps(ORDER).encode(), json.dumps(_ALL_SORTS).encode()), UnusableSchemaError
)
def schemas(data: bytes) -> None:
    """Read an Avro schema, and a value by it."""
    schema = parsed_schema(SchemaText(data.decode("utf-8", "replace")), "avro")
    with suppress(ValueError):  # A NotReadableError is one.
        schema.json(b"\2\2\2\0\0\0\0")


_DEBEZIUM = EventDecoder(orders())


@decoder("Debezium", (json.dumps(it).encode() for it in CHANGES))
def debezium(data: bytes) -> None:
    """Read a change in an envelope."""
    _one(_DEBEZIUM, data)


@decoder("fetches", (with_checksum(some_fetch(Random(seed)).data) for seed in (2, 3, 5, 8, 13)))
def fetches(data: bytes) -> None:
    """Read fetched bytes as columns, and as aiokafka does: the same records, or the same error."""
    if len(data) >= 61:
        with suppress(Exception):
            data = with_checksum(data)
    fetch = Fetch(data, [], 0)
    try:
        theirs = fetched(fetch, 50, as_columns=False)
    except Exception as error:  # noqa: BLE001 - of the header, which is aiokafka's alone
        with suppress(type(error)):
            fetched(fetch, 50, as_columns=True)
        return
    if isinstance(theirs.error, UnicodeDecodeError):  # Of the name of a header.
        return
    ours = fetched(fetch, 50, as_columns=True)
    is_more = ours.error is None and theirs.error is not None
    if is_more and not isinstance(theirs.error, CorruptRecordException):
        return  # Of a batch without records, or by the numbers of snappy.
    assert (type(ours.error), str(ours.error)) == (type(theirs.error), str(theirs.error))
    assert ours.rows == theirs.rows[: len(ours.rows)]
    assert theirs.error is not None or len(ours.rows) == len(theirs.rows)


# What workers keep.

_MEANING = {"name": "t", "statistics": "count, epsilon 0.01"}
_CHECKPOINTS = (
    encode_checkpoint(Checkpoint(7, _NOON, Counters(7, 5, 1, 1)), _MEANING),
    encode_checkpoint(
        Checkpoint(
            9,
            _NOON,
            Counters(9, 5, 1, 1, 1, 1, {"a": 1}),
            "id",
            Loss(1, 2, 3),
            Recent(1, (1,), (2,)),
        ),
        _MEANING,
        Checkpoint(11),
        (Slot("count"), Slot("sum", 1, 2)),
        LogMark(8, 1, 77),
    ),
)


@decoder("checkpoints", _CHECKPOINTS)
def checkpoints(data: bytes) -> None:
    """Read a checkpoint of a changelog, and each of its parts."""
    for read in (stored_counters, stored_meaning, stored_slots, stored_mark):
        with suppress(SlidestatError):
            read(data)
    found = decode_checkpoint(data, _MEANING)
    decode_emitted(data, found)


_STANDINGS = encode_standings({b"12345678": Standing(True, False, 3, _NOON)})
_USED = np.array([1, 2, 3], "<i8").tobytes()
_STATES = (
    encode_key_state(_NOON, 7, _NOON, 3, (b"a", b"", b"bc")),
    encode_key_state(_NOON, 7, _NOON, 3, (b"a",), _USED),
    encode_key_state(_NOON, 7, _NOON, 3, (b"a",), _USED, _STANDINGS, b"\1\2"),
)


@decoder("key states", _STATES)
def key_states(data: bytes) -> None:
    """Read a state as a changelog has it; what was read is written as it was."""
    with suppress(SlidestatError):
        assert list(read_clock(data)) == read_clocks([data])[0].tolist()
    found = decode_key_state(data)
    assert encode_key_state(*found) == data
    needed_quotas({"k": found.used}, _NOON)
    with_nothing_written(data, 0)
    decode_standings(found.alerts)


_CHANGES = LastWritten(_declared(emit="change", statistics=(Count(), TopItems(field="key"))))


@decoder("last written", (b"\1\1", b"\1\1" + bytes(_CHANGES._whole_bytes - 2), b""))
def last_written(data: bytes) -> None:
    """Read what a state has of the last record of its key."""
    _CHANGES._decoded([data, b""], np.array([False, True]))


@decoder("provisional alerts", (msgspec.msgpack.encode({_NOON: [b"12345678", b"abcdefgh"]}),))
def provisional_alerts(data: bytes) -> None:
    """Read a row of alerts that were told provisionally."""
    Unconfirmed([("k", data)])


@decoder("labels of folders", (b'{"application_id":"a","cluster_id":"c"}',))
def labels_of_folders(data: bytes) -> None:
    """Read the label of a data folder."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _LABEL).write_bytes(data)
        _check_label(Path(folder), _Label("a", "c"))


@decoder("standings", (_STANDINGS,))
def standings(data: bytes) -> None:
    """Read the alerts of a state."""
    decode_standings(data)


@decoder(
    "notes",
    (
        encode_note({"key": [b"x" * 12]}).encode(),
        MovedFrom("s", "i", "t", 3, "k", LogMark(4, 1, 77)).text().encode(),
    ),
)
def notes(data: bytes) -> None:
    """Read what is noted with an offset, and an epoch: of other programs, nothing."""
    text = data.decode("utf-8", "replace")
    read_note(text, "key")
    note_of(text)
    epoch_of([("epoch", data)])


# Synopses, with checksums put right, so that damage gets in.


def _synopses() -> Iterable[bytes]:
    for family in FAMILIES.values():
        synopsis = family.create()
        values = np.arange(20) % 7 + 0.5
        columns = [] if family.column is None else [family.column(values)]
        synopsis.insert(np.arange(1, 60, 3), *columns)
        yield synopsis.to_bytes()


_SYNOPSES = tuple(_synopses())


@decoder("synopses", _SYNOPSES, SynopsisError)
def synopses(data: bytes) -> None:
    """Read a synopsis that can be merged; what was read is written as it was, and answers."""
    data = sealed(data) if len(data) >= 8 else data
    found = read_mergeable(data)
    found.check()
    with suppress(SynopsisError):
        summary = take_summary(data, 1)
        assert read_summary(summary).to_bytes() == summary


_EVERY = list(EVERY.values())


def _states() -> Iterable[bytes]:
    for number, entry in enumerate(_EVERY):
        synopsis = entry.create(100)
        entry.insert(synopsis, np.arange(1, 60, 3), np.arange(20) % 7 + 1)
        yield bytes((number,)) + synopsis.to_bytes()


@decoder("states of synopses", _states(), SynopsisError)
def states_of_synopses(data: bytes) -> None:
    """Read the state of any synopsis, which the first byte chooses, ask it, and go on with it."""
    entry = _EVERY[data[0] % len(_EVERY) if data else 0]
    state = sealed(data[1:]) if len(data) > 8 else data[1:]
    synopsis = type(entry.create(100)).from_bytes(state)
    assert type(synopsis).from_bytes(synopsis.to_bytes()).to_bytes() == synopsis.to_bytes()
    entry.answers(synopsis, 50, 100)
    entry.insert(synopsis, np.arange(101, 110), np.arange(9) + 1)
    entry.answers(synopsis, 50, 110)


@decoder("parts", (struct.pack("<B3I", 1, 2, 0, 1) + b"abc",), SynopsisError)
def parts(data: bytes) -> None:
    """Read a state that has a synopsis for each of several parts."""
    found = parts_of(data, 3)
    assert not data or sum(len(it or b"") for it in found) == len(data) - 13


def _merged() -> Iterable[bytes]:
    yield Bundle.of({}).to_bytes()
    for state in _SYNOPSES:
        with suppress(SynopsisError):
            yield Bundle.of({"a": state, "b": state}).to_bytes()
        with suppress(SynopsisError):
            yield take_summary(state, 10)


@decoder("merges", _merged(), SynopsisError)
def merges(data: bytes) -> None:
    """Read a bundle and a summary of a window."""
    data = sealed(data) if len(data) >= 8 else data
    for read in (Bundle.from_bytes, read_summary):
        with suppress(SynopsisError):
            found = read(data)
            assert found.to_bytes() == data


_PARTIES = _declared(publish="partition", statistics=(Count(), Quantiles()))
_REFEREE = Referee(name="r", of=_PARTIES, patience="1m")


@cache
def _party_records() -> PartyRecords:
    return PartyRecords(_PARTIES, RefereeAnswers(_REFEREE, 0, JsonCodec()))


_PUBLISHED = ExponentialHistogram.create(CountParameters(0.01, 3_600_000))
_PUBLISHED.insert(np.arange(_NOON - 100, _NOON - 1))
_CLOCK = b'{"tick_ms":1764072000000,"parties":2,"source_offset":5}'
_PLACE = json.dumps(["k", "count", "s/0", _NOON]).encode()


@decoder(
    "published records",
    (
        encode_key(ClockKey("t", "s/0")) + b"\n" + _CLOCK,
        *(
            encode_key(SynopsisKey("t", "count", "k", "s/0")) + b"\n" + it
            for it in (_PUBLISHED.to_bytes(), *_SYNOPSES[:2])
        ),
        _PLACE + b"\n",
    ),
    RefusedError,
)
def published_records(data: bytes) -> None:
    """Read a record of the topic of synopses: its key, a line feed, its value; and a row of a
    referee's store.
    """
    key, _, value = data.partition(b"\n")
    with suppress(*_MSGSPEC):
        decode_key(key)
    with suppress(*_MSGSPEC):
        PartyStreams(AnsweredTicks.of(_REFEREE)).restore(key.decode(), value)
    with suppress(*_MSGSPEC):
        PartyClocks(_REFEREE).restore(value)
    _party_records().read(key, value, _NOON)


# What others wrote for people and programs.

_EMISSION = (
    b'{"topology":"t","key":"k","window_end_ms":1700000000000,"figures":[{"statistic":'
    b'"count","estimate":1.0,"lower":1.0,"upper":1.0,"window_ms":60000}],"source_topic":"s",'
    b'"source_partition":0,"source_offset":1}'
)
_LETTERS = (
    b'{"topic":"s","partition":0,"offset":1,"reason":"late","detail":"",'
    b'"timestamp_ms":1}\n{"topic":"s","partition":0,"offset":2,"reason":"late","detail":"","timestamp_ms":1,'
    b'"value_base64":"AAE="}'
)


# It knows one schema.
_CODEC = avro_codec("t", "mock://fuzzed")
_FORMAT = AnyFormat("")
_FORMAT._avro = _CODEC
_IN_AVRO = _CODEC.encode(decode_emission(_EMISSION))


def _with_known_schema(data: bytes) -> bytes:
    return _IN_AVRO[:5] + data[5:] if data[:1] == b"\0" else data


@decoder("emissions", (_EMISSION, _IN_AVRO), NotAnEmissionError)
def emissions(data: bytes) -> None:
    """Read an emission in either format."""
    _FORMAT.decode(_with_known_schema(data))


_CHANGE = (
    b'{"topology":"t","alert":"a","state":"firing","key":"k","window_end_ms":1700000000000,"when":'
    b'"count_1m > 1","certainty":"certain","values":[],"source_topic":"s","source_partition":0,'
    b'"source_offset":1,"severity":"page","labels":{"team":"x"}}'
)
_RANKING = (
    b'{"topology":"t","ranking":"r","window_end_ms":1,"by":"count_1m","order":"largest","size":3,'
    b'"keys":1,"places":[],"source":"s","source_partition":0,"source_offset":1,"parties":["s/0"],'
    b'"absent":[{"party":"s/1","clock_ms":null}]}'
)
_PART = b'{"of":"r","keys":1,"contenders":[]}'
_READ_BACK: tuple[Callable[[bytes], object], ...] = (
    *(decode_alert_change, decode_emission, decode_key_answer, decode_key_history),
    *(decode_ranking_answer, decode_ranking, decode_part, decode_clock),
    *(msgspec.json.Decoder(it).decode for it in (KeyPage, KeyTable, RankingPart)),
    *(msgspec.json.Decoder(it).decode for it in (TopologyStatus, TopologyList, Fault)),
)


@decoder("answers", (_EMISSION, _CHANGE, _RANKING, _PART, _CLOCK, b'{"error":"a"}'), *_MSGSPEC)
def answers(data: bytes) -> None:
    """Read what a worker answers, and writes: changes of alerts, rankings, clocks."""
    for read in _READ_BACK:
        with suppress(*_MSGSPEC):
            msgspec.json.encode(read(data))


@decoder("watched records", (_CHANGE, _RANKING, _EMISSION, _IN_AVRO))
def watched_records(data: bytes) -> None:
    """Read a record as `watch` does: one of another kind is counted."""
    emitted = EmissionReader("", "t", [0])
    emitted._format = _FORMAT
    for reader in (AlertReader("", "t", [0]), emitted):
        read = reader._decoded(_with_known_schema(data), [("reason", data[:9]), ("topic", b"s")])
        assert (read is None) == (not reader.read)


@decoder(
    "samples",
    (
        b"\n".join(_JSON[:12]),
        b"\n".join(b'{"id":"%d","at":%d,"n":%d}' % (n, n, n) for n in range(9)),
    ),
)
def samples(data: bytes) -> None:
    """Propose a topology for records, a line each; it can be read."""
    lines = data.split(b"\n")[:20]
    records = tuple(SampledRecord(0, it[:3], it, _NOON + n, n) for n, it in enumerate(lines))
    sample = Sample("s", 1, len(records), records)
    topology_of(tomllib.loads(toml_text(propose(sample, survey(records), "t"))))


@decoder("letters", (_LETTERS,))
def letters(data: bytes) -> None:
    """Read the lines of `slidestat dlq show --json`."""
    read_letters(data, "-")


_HEADERS = DeadLetterHeaders("late", "", "s", 0, 1, "t").encode()


@decoder("headers", (b"\n".join(value for _, value in _HEADERS),), *_MSGSPEC)
def headers(data: bytes) -> None:
    """Read the headers of a letter, a line each."""
    names = (name for name, _ in _HEADERS)
    DeadLetterHeaders.decode(list(zip(names, data.split(b"\n"), strict=False)))


# Files of events. The first byte chooses the format.

_FORMATS = list(Format)
_FILES = FileRecords.of(
    _declared(statistics=(Count(), Sum(decimals=1), Distinct(field="code"))), {}, "ms"
)
_COLUMNS = Columns("key", "time", "value", more=("code",))
_CSV = b'key,time,value,code\r\nATL,978307200000,1,"a ""b"""\nb,2001-01-01T00:00:00Z,2.5,007\n'
_LINE = b'{"key":"k","time":978307200000,"value":1.50,"code":[1,null]}\n'


def _parquet() -> bytes:
    sink = BytesIO()
    columns = {
        "key": ["a", "b"],
        "time": [978307200000, 1],
        "value": [1.5, None],
        "code": ["x", "y"],
    }
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@decoder(
    "files of events",
    (b"\0" + _CSV, b"\1" + _CSV.replace(b",", b"\t"), b"\2" + _LINE * 2, b"\3" + _parquet()),
)
def files_of_events(data: bytes) -> None:
    """Read the rows of a file as produce sends them, and as a backfill reads them."""
    kind = _FORMATS[data[0] % len(_FORMATS)] if data else Format.CSV
    content = data[1:]
    if kind in (Format.CSV, Format.TSV):  # Of a row of other lengths pyarrow takes UTF-8 alone.
        content = content.decode("utf-8", "replace").encode()
    compression = None if kind is Format.PARQUET else compression_of("x", content)
    file = EventFile("x", kind, compression, len(content), content)
    with suppress(SlidestatError):
        for rows in Reader(file).batches(_COLUMNS.names):
            encode(rows, _COLUMNS)
    for _ in _FILES.read(Part(file, 0)):
        pass


@decoder(
    "times",
    (b"2023-11-14T22:13:20.123456Z", b"1700000000.5", b"2023-11-14 22:13:20+01:00", b"1e12"),
)
def times(data: bytes) -> None:
    """Read a text as a time in each format, alone and among others: the same."""
    text = data.decode("utf-8", "replace")
    alone, among = (pa.array(it, pa.large_string()) for it in ([text], ["1", text, "x"]))
    for known in TIME_FORMATS.values():
        assert texts_ms(alone, known)[0] == texts_ms(among, known)[1]


# What people declare and ask.

_TOML = (
    b'name = "t"\nsource = "s"\nspan = "1h"\nevery = "1m"\nwindows = ["1m"]\n'
    b'[[statistics]]\nkind = "quantile"\nfield = "took.ms"\nquantiles = [0.5, 0.99]\n',
    b'name = "t"\nsource = "s"\nspan = "30d"\nevery = "1m"\nwindows = ["5m", "1h"]\n'
    b'lateness = "5s"\nwhere = "a > 1"\nderived = ["count_5m / count_1h as r"]\n'
    b'emit = "change"\n[[statistics]]\nkind = "count"\nname = "count"\nwhere = "c = \'x\'"\n'
    b'[[alerts]]\nname = "a"\nwhen = "count_5m > 10 and r > 0.1"\nfor = "2m"\n',
)


@decoder("declarations", _TOML)
def declarations(data: bytes) -> None:
    """Read a declaration in TOML."""
    try:
        table = tomllib.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):  # `declared_in_toml` has a message for each.
        return
    topology_of(table)


@decoder("flags", (b"quantile:took.ms:quantiles=0.5,0.99:epsilon=0.02:name=q", b"count", b"30d"))
def flags(data: bytes) -> None:
    """Read a statistic in one flag, and a length of time."""
    text = data.decode("utf-8", "replace")
    given: dict[str, object] = {"name": "t", "source": "s", "every": "1m"}
    with suppress(SlidestatError):
        topology_of_flags({**given, "span": "1h", "statistics": [text]})
    topology_of_flags({**given, "span": text})


_EXPRESSIONS = (
    b"a > 1 and (b like 'u%' or not c is null) and d in (1, 2.5, -3) and e between 'x' and 'y'",
    b"case when a > 1 then coalesce(b, 'x') || lower(c) else substring(b, 2, 3) end = 'q'",
    b"try_cast(b as double) / a % 3 * -2 >= cast(a as bigint) or cast(b as timestamp) < 5",
)


_EVENTS = tuple(
    b'{"key":"k","time":1764072000000,"value":1,"a":%b,"b":%b,"c":%b,"d":%b,"e":%b}' % it
    for it in (
        (b"1", b'"u1"', b"null", b"2.5", b'"y"'),
        (b"-2.5", b'"5"', b'"X"', b"0", b"null"),
        (b"1e300", b'""', b'"1e999"', b"-3", b'"2020-01-01T00:00:00Z"'),
        (b'"1"', b"7", b"true", b"{}", b"[]"),
    )
)


@decoder("conditions", _EXPRESSIONS)
def conditions(data: bytes) -> None:
    """Read a condition in SQL, and evaluate it over events of either reader: it passes the same."""
    declared = _declared(where=data.decode("utf-8", "replace"), statistics=(Count(),))
    plan, structs = ScanPlan.of(declared), StructReader(declared)
    by_structs = EventDecoder(declared, structs).decode(_EVENTS, [], [])
    if plan is not None:
        kernels = EventDecoder(declared, Kernels(declared, plan, Counting(declared)))
        assert plain(kernels.decode(BinaryColumn.of(_EVENTS))) == plain(by_structs)


@decoder("computed fields", (it + b" as name" for it in _EXPRESSIONS))
def computed(data: bytes) -> None:
    """Read a computed field in SQL."""
    computed_fields([data.decode("utf-8", "replace")], "computed")


@decoder(
    "questions",
    (
        b"window=5m&window=1h&statistic=count&quantile=0.99&prefix=a%2Fb&limit=10",
        b"window=1h&rank=250&item=x&ago=10m&where=a+%3E+1",
        b"prefix=a&after=b&limit=10",
        b"key=a%2Fb",
    ),
)
def questions(data: bytes) -> None:
    """Read the query string of each route."""
    text = data.decode("latin-1")
    with suppress(SlidestatError):
        page_query(_declared(), text)
    for read in (key_of, key_in_query):
        with suppress(SlidestatError):
            read(text)
    key_query(_declared(statistics=(Count(), Quantiles())), text)
