"""Dead letters and late records: which are open, and sending corrected ones to the source again.

A letter is open until a mark with its key is on its topic: a record without a value and with the
header `sent_again`. Corrected record and mark are written in one transaction, so that none is sent
twice, whatever breaks off; a letter that a replay writes again, with the same key, stays closed.
"""

import base64
import binascii
import codecs
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from confluent_kafka import Consumer, KafkaException, Message, Producer

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import produce_with, require_topic
from slidestat.kafka.read.scan import headers_of, reading, scan
from slidestat.kafka.settings import client_config
from slidestat.options import COMPRESSION
from slidestat.repartition.moved_from import MOVED_FROM
from slidestat.schemas import dead_letter

_SENT_FROM = "sent_again_from"
_TRANSACTION_S = 60.0
# Other programs may write such headers, too.
_COUNT = re.compile(rb"[0-9]{1,18}")
_IN_ONE_TRANSACTION = 10_000


class LetterHeader(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A header of the record; without a value it is null."""

    name: str
    value: str | None = None
    value_base64: str | None = None


class Letter(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A letter as a line of JSON, for a person or a program to correct.

    `value` and `key` are text; bytes that are no UTF-8 are in `value_base64` and `key_base64`. For
    a record too large for a letter they are its beginning, and `original_value_bytes`,
    `original_key_bytes` and `original_header_count` are the original sizes.
    """

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    offset: Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
    reason: str
    detail: str
    timestamp_ms: Annotated[int, msgspec.Meta(lt=2**62)]
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: tuple[LetterHeader, ...] = ()
    original_key_bytes: int | None = None
    original_value_bytes: int | None = None
    original_header_count: int | None = None


# The form in which confluent-kafka takes headers.
_Header = tuple[str, str | bytes | None]

_decode = msgspec.json.Decoder(Letter).decode


@dataclass(frozen=True)
class Sent:
    """The result of sending dead letters again: the number sent, how many of these were not
    changed, and how many belong to no letter of the topic, and how many were closed before.
    """

    sent: int
    closed_before: int
    unchanged: int = 0
    unknown: int = 0


def open_letters(bootstrap: str, topic: str, reason: str | None = None) -> Iterator[Letter]:
    """Yield the open letters of a topic in its order, of one reason if that is given.

    The topic is read twice, as marks are behind the letters. Memory grows with the marks. Raises
    SlidestatError for a topic that cannot be read.
    """
    starts = _beginnings(bootstrap, topic)
    with reading(bootstrap, topic) as consumer:
        closed, _ = _closed_and_known(consumer, topic, starts)
        given: set[bytes] = set()
        for message in scan(consumer, topic, starts):
            letter = _letter(message)
            if letter is None or (key := _key(letter)) in closed or key in given:
                continue
            if reason is None or letter.reason == reason:
                given.add(key)  # A letter written twice is one.
                yield letter


def read_letters(text: bytes, file: str) -> list[Letter]:
    """Return the letters of lines of JSON, from `file`; blank lines are skipped.

    Raises SlidestatError for the first line that is no letter.
    """
    letters = []
    for number, line in enumerate(text.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
        if not line.strip():
            continue
        try:
            letters.append(_decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SlidestatError(
                f"Line {number} of {file} is no letter: {error}.",
                "Nothing was sent. Write lines as `slidestat dlq show --json` does.",
            ) from error
    return letters


def send_again(
    bootstrap: str, topology: Topology, letter_topic: str, letters: Sequence[Letter]
) -> Sent:
    """Send corrected letters to the topology's source, each once, and leave out those that are
    closed already. With several sources, each goes to the one that its record came from.

    Raises SlidestatError for a letter of another source, for one with two corrections, and if the
    broker fails. Then what was sent is marked, and the same letters can be given again.
    """
    given: dict[bytes, Letter] = {}
    for letter in letters:
        if letter.topic != topology.events_topic:
            raise SlidestatError(
                f"A letter is of the topic {letter.topic!r}, and {topology.name} reads"
                f" {topology.events_topic!r}.",
                "Nothing was sent. Give the letters of this topology.",
            )
        cut = (letter.original_value_bytes, letter.original_key_bytes, letter.original_header_count)
        if any(size is not None for size in cut):
            raise SlidestatError(
                f"The letter about {letter.topic}/{letter.partition}/{letter.offset} holds only the"
                " beginning of the record.",
                "Nothing was sent. Copy the whole record from the source, and remove"
                " original_value_bytes, original_key_bytes and original_header_count; or leave this"
                " letter out.",
            )
        _origin(topology, letter)
        if _content(given.setdefault(_key(letter), letter)) != _content(letter):
            raise SlidestatError(
                f"The letter about {letter.topic}/{letter.partition}/{letter.offset} is given twice"
                " with two corrections.",
                "Nothing was sent. Give one of them.",
            )
    sent = closed_before = 0
    try:
        producer = _producer(bootstrap, letter_topic)
        # Now that what a sender before has left open is committed or aborted.
        starts = _beginnings(bootstrap, letter_topic)
        with reading(bootstrap, letter_topic) as consumer:
            closed, known = _closed_and_known(consumer, letter_topic, starts, given.keys())
        new = [letter for key, letter in given.items() if key not in closed]
        batch: list[Letter] = []
        for letter in letters:
            key = _key(letter)
            if key in closed:
                closed_before += 1
                continue
            closed.add(key)
            batch.append(letter)
            if len(batch) == _IN_ONE_TRANSACTION:
                sent += _send(producer, topology, letter_topic, batch)
                batch = []
                producer = _producer(bootstrap, letter_topic)
        sent += _send(producer, topology, letter_topic, batch)
    except KafkaException as error:
        raise SlidestatError(
            f"{sent:,} letters were sent, then the broker refused: {error.args[0].str()}.",
            "Give the same letters again: those that were sent are left out.",
        ) from error
    before = [(letter, known.get(_key(letter))) for letter in new]
    return Sent(
        sent,
        closed_before,
        unchanged=sum(was is not None and _content(was) == _content(it) for it, was in before),
        unknown=sum(was is None for _, was in before),
    )


def _producer(bootstrap: str, letter_topic: str) -> Producer:
    """Return a producer for one transaction alone: a late request to end it could end a second one
    halfway. Raises KafkaException.
    """
    producer = Producer(
        {
            **client_config(bootstrap),
            "transactional.id": f"slidestat-dlq-{letter_topic}",
            "partitioner": "murmur2_random",
            "compression.type": COMPRESSION.value,
            "message.max.bytes": 64 << 20,
        }
    )
    producer.init_transactions(_TRANSACTION_S)
    return producer


def _send(producer: Producer, topology: Topology, letter_topic: str, letters: list[Letter]) -> int:
    if not letters:
        return 0
    producer.begin_transaction()
    for letter in letters:
        key = _bytes(letter.key, letter.key_base64)
        source, number = _origin(topology, letter)
        # Without a key it belongs where it was.
        partition = -1 if key is not None else number
        place = f"{letter.topic}/{letter.partition}/{letter.offset}"
        value = _bytes(letter.value, letter.value_base64)
        sent_again = [*_record_headers(topology, letter), (_SENT_FROM, place.encode())]
        mark = [(dead_letter.SENT_AGAIN, place.encode())]
        time = max(letter.timestamp_ms, 0)
        produce_with(producer, source, partition, key, value, sent_again, time)
        produce_with(producer, letter_topic, letter.partition, _key(letter), None, mark, time)
    producer.commit_transaction(_TRANSACTION_S)
    return len(letters)


def _beginnings(bootstrap: str, topic: str) -> dict[int, int]:
    return dict.fromkeys(range(require_topic(bootstrap, topic)), 0)


def _closed_and_known(
    consumer: Consumer, topic: str, starts: dict[int, int], wanted: Collection[bytes] = ()
) -> tuple[set[bytes], dict[bytes, Letter]]:
    """Return the keys of closed letters, and those of the `wanted` letters that are there."""
    closed: set[bytes] = set()
    known: dict[bytes, Letter] = {}
    for message in scan(consumer, topic, starts):
        key = message.key()
        if not isinstance(key, bytes):
            continue
        if message.value() is None and dead_letter.SENT_AGAIN in _headers(message):
            closed.add(key)
        elif key in wanted and (letter := _letter(message)) is not None:
            known[key] = letter
    return closed, known


def _content(letter: Letter) -> tuple[bytes | None, bytes | None, list[_Header]]:
    """Return the record: its key, its value, its headers. Raises SlidestatError for invalid base64,
    and for a letter that has both a text and base64, as it is not clear which one holds.
    """
    headers: list[_Header] = [(it.name, _bytes(it.value, it.value_base64)) for it in letter.headers]
    key = _bytes(letter.key, letter.key_base64)
    return key, _bytes(letter.value, letter.value_base64), headers


def _headers(message: Message) -> dict[str, bytes]:
    """Return the newest value of each name: a letter's own headers follow those of its record."""
    return {name: value for name, value in headers_of(message) if value is not None}


def _letter(message: Message) -> Letter | None:
    """Return the letter of a record, None for a mark and for what no worker has written."""
    headers = _headers(message)
    try:
        decoded = dead_letter.DeadLetterHeaders.decode(headers.items())
    except (msgspec.ValidationError, UnicodeDecodeError):
        return None
    key, key_base64 = _text(headers.get(dead_letter.ORIGINAL_KEY))
    value = message.value()
    text, value_base64 = _text(value if isinstance(value, bytes) else None)
    return Letter(
        topic=decoded.topic,
        partition=decoded.partition,
        offset=decoded.offset,
        reason=decoded.reason,
        detail=decoded.detail,
        timestamp_ms=message.timestamp()[1],
        key=key,
        key_base64=key_base64,
        value=text,
        value_base64=value_base64,
        headers=tuple(
            LetterHeader(name, *_text(value))
            for name, value in dead_letter.original_headers(headers_of(message))
        ),
        original_key_bytes=_count(headers.get(dead_letter.KEY_BYTES)),
        original_value_bytes=_count(headers.get(dead_letter.VALUE_BYTES)),
        original_header_count=_count(headers.get(dead_letter.HEADER_COUNT)),
    )


def _record_headers(topology: Topology, letter: Letter) -> list[_Header]:
    """Return the record's own headers, without those for where it was sent or moved from."""
    ours = {_SENT_FROM, MOVED_FROM} if topology.sources else {_SENT_FROM}
    return [
        (header.name, _bytes(header.value, header.value_base64))
        for header in letter.headers
        if header.name not in ours
    ]


def _origin(topology: Topology, letter: Letter) -> tuple[str, int]:
    """Return the topic that a letter's record was on before it was moved, and its partition."""
    if not topology.sources:
        return topology.source, letter.partition
    # The mover's header stands behind those that the record had.
    places = [it.value or "" for it in letter.headers if it.name == MOVED_FROM]
    source, _, place = places[-1].partition("/") if places else ("", "", "")
    number = place.partition("/")[0]
    if not topology.sources_among([source]) or not number.isdecimal():
        raise SlidestatError(
            f"The letter about {letter.topic}/{letter.partition}/{letter.offset} has no header"
            f" {MOVED_FROM} with the source that its record was on.",
            "Nothing was sent. Leave the header as `slidestat dlq show --json` has it, or produce"
            " the record to one of the sources.",
        )
    return source, int(number)


def _count(raw: bytes | None) -> int | None:
    return int(raw) if raw is not None and _COUNT.fullmatch(raw) else None


def _text(raw: bytes | None) -> tuple[str | None, str | None]:
    """Return (text, None), or (None, base64) for bytes that are no UTF-8."""
    if raw is None:
        return None, None
    try:
        return raw.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(raw).decode()


def _bytes(text: str | None, encoded: str | None) -> bytes | None:
    if encoded is None:
        return None if text is None else text.encode()
    if text is not None:
        raise SlidestatError(
            f"A letter has the text {text[:40]!r}, and base64 beside it.",
            "Nothing was sent. Give the corrected text in value or key, without value_base64 or"
            " key_base64.",
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise SlidestatError(
            f"{encoded[:40]!r} is not base64.",
            "Nothing was sent. Give the corrected text in value or key, without value_base64 or"
            " key_base64.",
        ) from None


def _key(letter: Letter) -> bytes:
    return dead_letter.dead_letter_key(letter.topic, letter.partition, letter.offset)
