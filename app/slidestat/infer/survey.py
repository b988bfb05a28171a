"""Survey the fields of sampled records: how often each is there, of what sort, how varied."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from math import inf

import pyarrow as pa

from slidestat.declare.fields import FieldPath, is_readable
from slidestat.engine.decoding.times import SPACES, moments_of, remark_on_rounded
from slidestat.infer.sampling import SampledRecord, json_object
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, MAX_KEY_LENGTH

_DEEPEST = 4
# Names of times, the likeliest ones; and what a name has that may be one's.
TIME_NAMES = re.compile(
    r"(event_?)?(time|timestamp|ts|at|date|datetime|occurred_?at|created_?at)(_?ms)?", re.I
)
TIME_WORDS = re.compile(
    r"(?i:time|date|stamp|epoch|created|modified|occurred|happened)"
    r"|(?:^|[\W_])(?i:ts|at|on)(?:$|[\W_])|[a-z](?:Ts|At|On)$"
)
# A time under any other name lies near its record's timestamp: events are produced soon after they
# happen.
_NEAR_MS = 7 * 86_400_000
# Numbers by a cast and by a worker's reader of times, without codes such as 007.
_NUMBER_TEXT = re.compile(
    r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
)
_TIME_OF_DAY = re.compile(r"[Tt ][0-9]")
_MOST_FIELDS = 500
_NUMBER_BYTES = (4, 8)
# Times of these formats lie in ranges that do not touch.
_PER_MS = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}


@dataclass
class FieldSurvey:
    """A field: in how many records it has which sort of value, and its values as text;
    `number_texts` are those that are the texts of numbers, none of 007.
    """

    path: FieldPath
    present: int = 0
    numbers: int = 0
    integers: int = 0
    texts: int = 0
    number_texts: int = 0
    negatives: int = 0
    decimals: int = 0
    largest: float = 0
    longest: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Survey:
    """The fields of the records that are JSON objects, by path; how many records are none; and how
    many have a key, and whether it is text.
    """

    fields: dict[FieldPath, FieldSurvey]
    objects: int
    others: int
    keyed: int
    keys: Counter[str]


def survey(records: Sequence[SampledRecord]) -> Survey:
    """Look at every field of every record, four levels deep at most."""
    fields: dict[FieldPath, FieldSurvey] = {}
    keys: Counter[str] = Counter()
    objects = others = keyed = 0
    for record in records:
        if (key := key_text(record)) is not None:
            keys[key] += 1
            keyed += 1
        read = as_object(record)
        if read is None:
            others += record.value is not None  # A tombstone is passed over.
            continue
        objects += 1
        for path, value in leaves(read):
            if path not in fields and len(fields) >= _MOST_FIELDS:
                continue
            _look(fields.setdefault(path, FieldSurvey(path)), value, record.timestamp_ms)
    return Survey(fields, objects, others, keyed, keys)


def as_object(record: SampledRecord) -> dict[str, object] | None:
    """Return the JSON object of a record, None if it is none."""
    return json_object(record.value or b"")


def key_text(record: SampledRecord) -> str | None:
    """Return a record's Kafka key as text, None without one, or with one that cannot be a key, or
    is a number in bytes.
    """
    try:
        text = record.key.decode() if record.key else ""
    except UnicodeDecodeError:
        return None
    is_text = 1 <= len(text) <= MAX_KEY_LENGTH and number_key(record) is None
    return text if is_text else None


def number_key(record: SampledRecord) -> int | None:
    """Return the number in a record's Kafka key as Kafka's IntegerSerializer and LongSerializer
    write it: 4 or 8 bytes that have a zero byte or are no text. Otherwise return None.
    """
    key = record.key
    if key is None or len(key) not in _NUMBER_BYTES:
        return None
    if b"\0" not in key:
        with suppress(UnicodeDecodeError):
            key.decode()
            return None
    return int.from_bytes(key, "big", signed=True)


def value_at(fields: object, path: FieldPath) -> object:
    """Return what an event has at a path; None for null and for nothing."""
    for name in path:
        fields = fields.get(name) if isinstance(fields, dict) else None
    return fields


def leaves(value: dict[str, object], path: FieldPath = ()) -> Iterator[tuple[FieldPath, object]]:
    """Yield (path, value) of all values that can be named and are neither objects nor lists."""
    for name, inner in value.items():
        if not is_readable(name):
            continue
        if isinstance(inner, dict):
            if len(path) + 1 < _DEEPEST:
                yield from leaves(inner, (*path, name))
        elif not isinstance(inner, list):
            yield (*path, name), inner


def time_format(value: object) -> str | None:
    """Return the format in which a value is a time of 1980 to 2100, None if in none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        for name, per_ms in _PER_MS.items():
            if EARLIEST_TIME_MS * per_ms <= value < LATEST_TIME_MS * per_ms:
                return name
        return None
    if isinstance(value, str) and 8 <= len(value) <= 40:
        return _text_format(value.strip(SPACES))
    return None


def _text_format(text: str) -> str | None:
    """Return the format of a text in ISO 8601, with a time of day, or of a number."""
    if _NUMBER_TEXT.fullmatch(text):
        return None if remark_on_rounded(text) else time_format(float(text))
    if not _TIME_OF_DAY.search(text):
        return None
    moment = moments_of(pa.array([text]))
    if not moment.are_times[0]:
        return None
    return "iso8601" if moment.are_zoned[0] else "iso8601-utc"


def _is_time(name: str, value: object, found: str, timestamp_ms: int) -> bool:
    """Return whether a value that is within the range of a format is a time. Texts in ISO 8601 are;
    numbers and their texts by their field's name, and numbers if the record's timestamp is near:
    others are ids, telephone numbers, or bytes.
    """
    if found not in _PER_MS or TIME_WORDS.search(name):
        return True
    if not isinstance(value, int | float):
        return False
    return abs(value / _PER_MS[found] - timestamp_ms) <= _NEAR_MS


def _look(seen: FieldSurvey, value: object, timestamp_ms: int) -> None:
    if value is None:
        return
    seen.present += 1
    if isinstance(value, bool) or value in (inf, -inf):
        return
    if isinstance(value, int | float):
        seen.numbers += 1
        seen.integers += isinstance(value, int)
        seen.negatives += value < 0
        seen.largest = max(seen.largest, abs(value))
        seen.decimals = max(seen.decimals, _decimals(Decimal(repr(value)).normalize()))
    elif isinstance(value, str):
        seen.texts += 1
        seen.longest = max(seen.longest, len(value))
        text = value.strip(SPACES)
        if _NUMBER_TEXT.fullmatch(text) and abs(float(text)) < inf:
            seen.number_texts += 1
            seen.negatives += float(text) < 0
            seen.largest = max(seen.largest, abs(float(text)))
            seen.decimals = max(seen.decimals, _decimals(Decimal(text)))
    found = time_format(value)
    if found is not None and _is_time(seen.path[-1], value, found, timestamp_ms):
        seen.formats[found] += 1
    seen.values[value if isinstance(value, str) else repr(value)] += 1


def _decimals(number: Decimal) -> int:
    """Return the number of digits after the point, as written."""
    return max(0, -int(number.as_tuple().exponent))
