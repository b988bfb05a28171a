"""A sample of a topic: runs of records spread over each partition, from its first to its newest.

Runs, not single records: in a run the disorder of neighbours shows, and between runs that of hours.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from confluent_kafka import Consumer, KafkaException, Message

from slidestat.engine.decoding.formats.envelope import DEBEZIUM, payload_of, unwrapped
from slidestat.engine.decoding.formats.source_schemas import (
    AVRO,
    PROTOBUF,
    NotReadableError,
    Registry,
    UnusableSchemaError,
    framed_by_headers,
    framing_of,
    has_long_number,
    other_framing,
    schema_of,
    schemas_of,
)
from slidestat.engine.decoding.formats.translations import FramedValues
from slidestat.engine.records import Headers
from slidestat.errors import SlidestatError
from slidestat.extras import module_of_extra
from slidestat.kafka.connection import require_topic
from slidestat.kafka.read.scan import headers_of, offset_bounds, open_scanner, reading, scan_ranges
from slidestat.options import JSON
from slidestat.produce.cells import NOT_JSON

_RUNS = 20
_MOST_PARTITIONS = 32
# On a busy machine a broker takes seconds to answer, and a name with a slip would be missed.
_PATIENCE_S = 5.0
# Once a partition has no leader, each further one has this long.
_IMPATIENCE_S = 1.0
# Each doubles how many offsets are read for a record that is still wanted: 64 in all.
_MOST_ROUNDS = 6


@dataclass(frozen=True)
class SampledRecord:
    """A record of the sample; `timestamp_ms` is Kafka's."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    offset: int = 0
    headers: Headers = ()


@dataclass(frozen=True)
class Sample:
    """A sample: records in the order of each partition, and how many the topic has in all, by the
    share of the offsets looked at that have one. The topic's values are in `source_format` and an
    `envelope`, those here JSON without one.
    """

    topic: str
    partitions: int
    topic_records: int
    records: tuple[SampledRecord, ...]
    source_format: str = JSON
    envelope: str = ""

    @property
    def records_per_second(self) -> float | None:
        """The topic's rate on the whole, by Kafka's timestamps; None where they give none."""
        times = [record.timestamp_ms for record in self.records]
        between = max(times) - min(times)
        return 1000 * (self.topic_records - 1) / between if between else None


def sample_topic(bootstrap: str, topic: str, records: int) -> Sample:
    """Return a sample of a topic, of about `records` records, in runs that are spread evenly over
    the offsets of each partition: the first and the newest are among them. Partitions have equal
    shares, and what one lacks the others give.

    Reads without joining a group. Raises SlidestatError for a topic that is missing or empty.
    """
    partitions = require_topic(bootstrap, topic)
    with reading(bootstrap, topic) as consumer:
        bounds, total = {}, 0
        for partition in range(partitions):
            low, high = offset_bounds(consumer, topic, partition)
            bounds[partition] = (low, high)
            total += high - low
        runs = list(_runs(bounds, _shares(bounds, records)))
        found = tuple(
            _sampled(message) for run in runs for message in scan_ranges(consumer, topic, run)
        )
        looked_at = sum(end - start for run in runs for start, end in run.values())
    if not found:
        raise SlidestatError(
            f"The topic {topic!r} is empty, or all of it waits behind a transaction that has not"
            " ended: there is nothing to look at.",
            "Come back when events are on it, or write a topology by hand:"
            " docs/declare-a-topology.md shows how.",
        )
    # Not every offset has a record: transactions leave markers, and compaction gaps.
    return Sample(topic, partitions, round(total * len(found) / looked_at), found)


def sample_ends(bootstrap: str, topic: str, partitions: int, records: int) -> list[SampledRecord]:
    """Return the first records of a topic's partitions, and the newest: `records` that have a
    value, or a few more, in some tens of milliseconds. Further ones are read where offsets have
    none: tombstones, what a transaction has left, and gaps of a compaction. More than 32 partitions
    are looked at only as long as fewer records are known, for five seconds.

    Reads without joining a group. Reading stops where a broker gives nothing for five seconds, and
    raises none of its errors: the next read of the topic will raise them.
    """
    found: list[SampledRecord] = []
    consumer = open_scanner(bootstrap)
    try:
        unread = _known_bounds(consumer, topic, partitions, records)
        wanted = records
        for growth in range(_MOST_ROUNDS):
            shares = _shares(unread, wanted << growth)
            heads, unread, tails = _parted(unread, shares)
            for ranges in (heads, tails):
                found += map(_sampled, scan_ranges(consumer, topic, ranges, silence_s=_PATIENCE_S))
            wanted = records - sum(record.value is not None for record in found)
            if wanted <= 0 or not unread:
                break
    except KafkaException:
        pass
    finally:
        consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


Bounds = Mapping[int, tuple[int, int]]
"""By partition: the first offset, and the one after the last."""


def _known_bounds(consumer: Consumer, topic: str, partitions: int, records: int) -> Bounds:
    """Return where the records lie, for enough partitions to have this many; a partition that no
    broker leads has none, and costs some 20 s at most.
    """
    every = -(-partitions // _MOST_PARTITIONS)
    numbers = [number for first in range(every) for number in range(first, partitions, every)]
    patience_s, until = _PATIENCE_S, time.monotonic() + _PATIENCE_S
    bounds: dict[int, tuple[int, int]] = {}
    known = 0
    for place, number in enumerate(numbers):
        are_further, lacks_some = place >= _MOST_PARTITIONS, patience_s < _PATIENCE_S
        if are_further and known >= records:
            break
        if (are_further or lacks_some) and time.monotonic() > until:
            break
        try:
            bounds[number] = offset_bounds(consumer, topic, number, patience_s)
        except KafkaException:
            # The first one had the time in which a new topic gets its leaders. Partitions that have
            # them answer soon, and are not passed over for it.
            if not lacks_some:
                patience_s, until = _IMPATIENCE_S, time.monotonic() + _PATIENCE_S
            continue
        known += bounds[number][1] - bounds[number][0]
    return bounds


def _shares(bounds: Bounds, records: int) -> dict[int, int]:
    """Return how many offsets to read of each partition: equally many, as far as it has them."""
    lengths = {number: high - low for number, (low, high) in bounds.items()}
    shares, left = {}, records
    for place, number in enumerate(sorted(lengths, key=lengths.__getitem__)):
        shares[number] = min(lengths[number], -(-left // (len(lengths) - place)))
        left -= shares[number]
    return shares


def _parted(bounds: Bounds, shares: Mapping[int, int]) -> tuple[Bounds, Bounds, Bounds]:
    """Part a share of each partition from its beginning and its end; return the beginnings, what is
    left between, and the ends.
    """
    heads, rests, tails = {}, {}, {}
    for number, (low, high) in bounds.items():
        head = low + -(-shares[number] // 2)
        tail = high - shares[number] // 2
        heads[number], tails[number] = (low, head), (tail, high)
        if head < tail:
            rests[number] = (head, tail)
    return heads, rests, tails


def _runs(bounds: Bounds, shares: Mapping[int, int]) -> Iterator[dict[int, tuple[int, int]]]:
    """Yield the offsets to read, by partition: one run of each partition at once."""
    for place in range(_RUNS):
        found = {}
        for partition, (low, high) in bounds.items():
            share = shares[partition]
            runs = max(1, min(_RUNS, share))
            if high - low <= share:
                found[partition] = (low, high if place == 0 else low)
            elif place < runs:
                # The last one ends at the newest record.
                length = share // runs
                start = low + (place + (runs == 1)) * (high - low - length) // max(1, runs - 1)
                found[partition] = (start, start + length)
        yield found


def _sampled(message: Message) -> SampledRecord:
    return SampledRecord(
        message.partition() or 0,
        _bytes(message.key()),
        _bytes(message.value()),
        message.timestamp()[1],
        message.offset() or 0,
        headers_of(message),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


# The format of sampled records, and their translation into JSON.


def readable(sample: Sample, registry: str) -> Sample:
    """Return the sample with JSON for the values that need a schema registry, if most of them are
    framed for one.

    `registry` is its address. Values that cannot be read are left as they are. Raises
    SlidestatError if there is no registry, or it does not answer, and if no value can be read.
    """
    values = [record.value for record in sample.records if record.value is not None]
    if 2 * sum(map(_is_object, values)) > len(values):
        return sample  # The schema id in a header is not needed.
    sample = replace(sample, records=tuple(map(_framed, sample.records)))
    values = [record.value for record in sample.records if record.value is not None]
    framed = [value for value in values if schemas_of([value])]
    if 2 * len(framed) <= len(values):
        return sample
    contents = {value: value[len(framing_of(value)) :] for value in framed}
    if sum(map(_is_object, contents.values())) > len(contents) / 2:
        return _translated(sample, "json-schema", contents)
    if 2 * sum(map(has_long_number, framed)) > len(framed):
        raise SlidestatError(
            f"Records of {sample.topic!r} begin with a zero byte, but not with the number of a"
            " schema in four.",
            f"Most of them: {other_framing(max(framed, key=has_long_number))}.",
        )
    if not registry:
        raise SlidestatError(
            f"Records of {sample.topic!r} are as the clients of a schema registry write them.",
            "Say where the registry is with --schema-registry.",
        )
    needed = module_of_extra("slidestat.kafka.schema_registry", "A schema registry", "avro")
    return _read_by_schemas(sample, framed, needed.SchemaRegistry(registry))


def _framed(record: SampledRecord) -> SampledRecord:
    (value,) = framed_by_headers([record.value], [record.headers])
    return replace(record, value=value)


def _read_by_schemas(sample: Sample, framed: list[bytes], registry: Registry) -> Sample:
    for number in sorted(registry.schemas.unknown(framed), key=str):
        why = registry.look_up(number)
        if why is not None:
            # The reason ends with what to do about it: a password, a CA, another address.
            raise SlidestatError(
                f"Schema {number} could not be read: {why}.",
                "Do what the brackets say, and try again.",
            )
    source_format = _format_of(framed, registry)
    read, reason = FramedValues(registry.schemas, source_format), ""
    texts = {}
    for value in framed:
        try:
            texts[value] = read(value)
        except (NotReadableError, UnusableSchemaError) as error:
            reason = reason or str(error)
    if not texts:
        raise SlidestatError(
            f"No record of {sample.topic!r} that was looked at can be read by its schema:"
            f" {reason}.",
            "Events are JSON, or Avro, Protobuf or JSON with a schema of the registry.",
        )
    return _translated(sample, source_format, texts)


def _format_of(framed: Sequence[bytes], registry: Registry) -> str:
    """Return the format of most values that the registry has a schema of."""
    kinds: Counter[str] = Counter()
    for value in framed:
        try:
            kinds[registry.schemas.of(schema_of(value)).kind] += 1
        except UnusableSchemaError:  # There is none.
            continue
    return "protobuf" if kinds[PROTOBUF] > kinds[AVRO] else "avro"


def _translated(sample: Sample, source_format: str, texts: dict[bytes, bytes]) -> Sample:
    records = tuple(
        record if record.value is None else replace(record, value=texts.get(record.value, b""))
        for record in sample.records
    )
    return replace(sample, records=records, source_format=source_format)


# Samples of Debezium's envelope: the row, and what of the envelope describes it.


def without_envelope(sample: Sample) -> Sample:
    """Return the sample with the rows of changes, if most of its values are such in Debezium's
    envelope, none for a change without one; and their keys, of one column, as its text.
    """
    rows: dict[bytes, bytes | None] = {}
    values = [record.value for record in sample.records if record.value is not None]
    for value in values:
        with contextlib.suppress(NotReadableError):
            if value not in rows and _is_change(value):
                rows[value] = _row_of(value)
    if 2 * sum(value in rows for value in values) <= len(values):
        return sample
    records = tuple(
        replace(
            record,
            key=key_column(record.key),
            value=record.value and rows.get(record.value, record.value),
        )
        for record in sample.records
    )
    return replace(sample, records=records, envelope=DEBEZIUM)


def _is_change(value: bytes) -> bool:
    fields = payload_of(value) or {}
    return "op" in fields and "source" in fields and not {"before", "after"}.isdisjoint(fields)


def _row_of(value: bytes) -> bytes | None:
    text = unwrapped(value)
    if text is None:
        return None
    event = msgspec.json.decode(text)
    for name in ("before", "after", "transaction", "ts_us", "ts_ns"):
        event.pop(name, None)
    event["source"] = {"ts_ms": (event["source"] or {}).get("ts_ms")}
    return msgspec.json.encode(event)


def key_column(key: bytes | None) -> bytes | None:
    """Return the value of a Kafka key that is a text in JSON, or an object of one column, as Kafka
    Connect writes keys; any other key as it is.
    """
    try:
        value = msgspec.json.decode(key or b"")
        if isinstance(value, dict):
            (value,) = (payload_of(key or b"") or {}).values()
            value = msgspec.json.decode(value)
        elif not isinstance(value, str):
            return key
    except (*NOT_JSON, ValueError):
        return key
    is_key = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value).encode() if is_key else key


_decode = msgspec.json.Decoder(float_hook=float).decode


def json_object(text: bytes) -> dict[str, object] | None:
    """Return the object that a text of JSON is, None if it is none. A number beyond all doubles is
    infinite in it: a worker reads past such a number where it reads others.
    """
    try:
        value: object = _decode(text)
    except NOT_JSON:
        return None
    return value if isinstance(value, dict) else None


def _is_object(text: bytes) -> bool:
    return json_object(text) is not None
