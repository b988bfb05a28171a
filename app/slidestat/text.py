"""Figures, lengths, sizes and refusals as texts for people."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from math import floor, log10

from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.schemas.alert import FoundChange
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.emission import Figure, LostRecords
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS
from slidestat.schemas.query import ValueRank

# The numbers of a figure for people: only digits that its bounds make certain.

# Digits of half of the bounds' width.
_DIGITS = 3
# Beyond these, numbers are written with an exponent.
_LARGEST, _MOST_DECIMALS = 1e15, 12


def numbers_text(
    estimate: float | None, lower: float | None, upper: float | None
) -> tuple[str, str, str]:
    """Return estimate, lower and upper bound as texts, "-" for one that does not exist.

    Where the bounds lie apart, half of their width has three digits, and what is beyond is rounded
    away, in the bounds outward. Numbers that are exact, very large or very small have ten digits.
    """
    decimals = _decimals(estimate, lower, upper)
    return (
        _text(estimate, decimals, ROUND_HALF_EVEN),
        _text(lower, decimals, ROUND_FLOOR),
        _text(upper, decimals, ROUND_CEILING),
    )


def _decimals(estimate: float | None, lower: float | None, upper: float | None) -> int | None:
    """Return how many decimals are sure; None where ten digits are shown."""
    if estimate is None or lower is None or upper is None:
        return None
    half = upper / 2 - lower / 2  # Their difference may be too large.
    if not half > 0 or max(abs(estimate), abs(lower), abs(upper)) >= _LARGEST:
        return None
    decimals = max(0, _DIGITS - 1 - floor(log10(half)))
    return decimals if decimals <= _MOST_DECIMALS else None


def _text(number: float | None, decimals: int | None, rounding: str) -> str:
    if number is None:
        return "-"
    if decimals is None:
        return f"{number:,.10g}"
    # The shortest text of a double is the number that stands in the record.
    exact = Decimal(repr(float(number)))
    rounded = exact.quantize(Decimal(1).scaleb(-decimals), rounding) + 0
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(count: int, noun: str) -> str:
    """Return how many there are: 1 partition, 12,000 partitions."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# Durations as people write them.

_DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def human_duration(duration_ms: int) -> str:
    """Return the shortest exact text in one unit: 604800000 is "7d", 90000 is "90s"."""
    for unit, size_ms in _DURATIONS:
        if duration_ms % size_ms == 0 and duration_ms != 0:
            return f"{duration_ms // size_ms}{unit}"
    return "0s"


# Figures as people read them: a statistic with what qualifies it, a window, bounds, times.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """A figure with its emission's key, window end and marks."""

    key: str
    window_end_ms: int
    figure: Figure
    provisional: bool = False
    lost: LostRecords | None = None

    @property
    def marks(self) -> str:
        """Return the remarks on the figure, "" for none."""
        marks = ["provisional"] if self.provisional else []
        if self.lost is not None and self._may_lack(self.lost):
            marks.append(f"may lack {self.lost.records:,} lost records")
        if self.figure.counted_from_ms is not None:
            marks.append(f"counted since {iso_time(self.figure.counted_from_ms)}")
        return ", ".join(marks)

    def _may_lack(self, lost: LostRecords) -> bool:
        """Return whether the figure's own window, not just the longest, may lack lost records."""
        if self.window_end_ms <= lost.from_ms:
            return False
        length = self.figure.window_ms
        if length is None or lost.until_ms is None:
            return True
        return self.window_end_ms - length <= lost.until_ms


def cells(row: Row) -> tuple[str, ...]:
    """Return key, statistic, window, its end, estimate, lower, upper, and half the width of the
    bounds in per cent of the estimate. A figure or a share that does not exist is "-", as is the
    window of a derived figure, which has those of its parts.
    """
    f = row.figure
    return (
        printable(row.key),
        qualified(f),
        window_text(f) or "-",
        iso_time(row.window_end_ms),
        *numbers_text(f.estimate, f.lower, f.upper),
        _percent(f),
    )


def qualified(figure: Figure) -> str:
    """Return the statistic with all that identifies the figure in its window: quantile 0.99."""
    words = [printable(figure.statistic)]
    if figure.quantile is not None:
        words.append(short(figure.quantile))
    if figure.item is not None:
        words.append(f'"{printable(figure.item)}"')
    if figure.at_least is not None or figure.below is not None:
        words.append(_values(figure))
    return " ".join(words)


def bounds_text(figure: Figure) -> str:
    """Return a figure with its bounds, in words: quantile 0.99 250 in [245, 255]."""
    if figure.estimate is None:
        return f"{qualified(figure)} -"
    estimate, lower, upper = numbers_text(figure.estimate, figure.lower, figure.upper)
    return f"{qualified(figure)} {estimate} in [{lower}, {upper}]"


def change_text(change: FoundChange) -> str:
    """Return a change in words: from 100 in [99, 101] to 150 in [148, 152] since 12:00."""
    parts = (numbers_text(it.estimate, it.lower, it.upper) for it in (change.before, change.after))
    before, after = (f"{estimate} in [{low}, {high}]" for estimate, low, high in parts)
    return f"from {before} to {after} since {iso_time(change.since_ms)}"


def window_text(figure: Figure | ValueRank) -> str:
    """Return the length of a figure's window: 5m, 1,000 events, or all; "" of a derived figure,
    which has those of its parts.
    """
    if isinstance(figure, Figure) and figure.derived:
        return ""
    if figure.window is not None:
        return figure.window
    if figure.window_ms is not None:
        return human_duration(figure.window_ms)
    if figure.window_events is not None:
        return f"{figure.window_events:,} events"
    return "all"


def iso_time(time_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds if any; a sequence's number as it is."""
    if 0 <= time_ms < EARLIEST_TIME_MS:
        return f"{time_ms:,}"
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def timestamp_text(timestamp_ms: int) -> str:
    """Return a record's timestamp as ISO 8601 in UTC, to the second; one that has no date, such as
    one in microseconds, as the number that it is.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms:,} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def rfc3339(time_ms: int) -> str:
    """Return a time in UTC, always with milliseconds."""
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _values(figure: Figure) -> str:
    """Return the range of a figure's values as an interval; of "above" its threshold alone."""
    least, below = figure.at_least, figure.below
    if figure.statistic == "above" and least is not None and below is None:
        return short(least)
    left = "(-∞" if least is None else f"[{short(least)}"
    right = "∞" if below is None else short(below)
    return f"{left}, {right})"


def _percent(figure: Figure) -> str:
    if figure.estimate is None or figure.lower is None or figure.upper is None:
        return "-"
    half_width = figure.upper / 2 - figure.lower / 2  # Their difference may be too large.
    if half_width == 0:
        return "0.00"
    if figure.estimate == 0:
        return "-"
    return f"{100 * (half_width / abs(figure.estimate)):.2f}"


def short(number: float) -> str:
    """Return the shortest text that reads back as the number, without ".0"."""
    return repr(number).removesuffix(".0")


def printable(text: str) -> str:
    """Escape what would move the cursor: keys and items are anybody's text."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


# Reasons of refusals for people: how many there are of each, and what to do about one.

_ADVICE = {
    Reason.NULL_RECORD: 'With tombstones = "pass-over", records without a value are no letters.',
    Reason.NOT_JSON: 'Check source_format: what a schema registry\'s clients write is "avro",'
    ' "protobuf" or "json-schema".',
    Reason.NOT_AVRO: "Check source_format and the schema against what the producer writes.",
    Reason.NOT_PROTOBUF: "Check source_format and the schema against what the producer writes.",
    Reason.BAD_SCHEMA: "Check --schema-registry, and what the producer registers there.",
    Reason.MISSING_FIELD: "Check the names of key_field, time_field and the statistics' fields.",
    Reason.WRONG_TYPE: "Name a field that has what is read, or compute one with `computed`.",
    Reason.BAD_KEY: "Name a key_field of texts of 1 to 256 characters, or of whole numbers; those"
    " that IntegerSerializer and LongSerializer write as Kafka keys are bytes, and no texts.",
    Reason.BAD_TIME: 'Check time_field, and time_format: "ms", "s", "us", "ns", "iso8601".',
    Reason.FROM_THE_FUTURE: "Check time_field, time_format, and the Kafka timestamps that the"
    " producer gives its records; `ahead` says by how much a time may lie after its own.",
    Reason.NEGATIVE_VALUE: "Name a field that is never negative, or a statistic that takes such.",
    Reason.VALUE_TOO_LARGE: "Name another field, or give the statistic fewer `decimals`.",
    Reason.BAD_ITEM: "Name a field of shorter items, or compute one with `computed`.",
    Reason.NOT_COMPUTABLE: "Check conditions and computed fields against a record.",
    Reason.WINDOW_FULL: "Give the statistic fewer `decimals`, or a shorter span.",
}


def reasons_text(reasons: Mapping[Reason, int]) -> str:
    """Return the count of each reason, the most frequent first: 12 bad-time, 3 not-json."""
    most = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {reason.value}" for reason, count in most)


def advice_on(reason: Reason) -> str:
    """Return what to do where all records are refused for one reason."""
    return f"{_ADVICE[reason]} " if reason in _ADVICE else ""


# The detail of a letter has the words of the library that decodes JSON: these are for people.

_ABSENT = re.compile(r"Object missing required field `(?P<name>.+)`", re.DOTALL)
_EXPECTED = re.compile(
    r"Expected `(?P<types>[\w |]+)`"
    r"(?:, got `(?P<found>\w+)`| of length (?P<length>[<>])= (?P<most>\d+)"
    r"| (?P<side><=|<|>=) (?P<limit>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?))(?P<more>(?:[:,] .*)?)",
    re.DOTALL,
)
_TYPES = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "float": "a number",
    "int": "a whole number",
    "bool": "a truth value",
    "null": "null",
}
_NO_UTF_8 = re.compile(r"'utf-8' codec can't decode bytes? (?:(0x\w\w)|in) .*", re.DOTALL)
_HALF = re.compile(
    r"JSON is malformed: (?:unexpected end of hex escape|.* utf-16 surrogate pair)( \(byte \d+\))?"
)
_TRAILING = re.compile(r"JSON is malformed: trailing characters( \(byte \d+\))?")
MORE = "more follows behind the JSON of the record"
"""How `plain_detail` begins for a record of several values."""
_TRUNCATED, _TOO_LARGE = "Input data was truncated", "Number out of range"
# The limits of times, by their sides.
_OF_TIMES = {
    (side, ms * known.per_second / 1_000): f"is {where}, read as {known.text}"
    for known in TIME_FORMATS.values()
    if not (known.is_text or known.is_sequence)
    for side, ms, where in (
        (">", EARLIEST_TIME_MS, "before 1980"),
        ("<", LATEST_TIME_MS, "after 2099"),
    )
}


def plain_detail(detail: str) -> str:
    """Return the detail of a letter in plain words: `ms is a text, not a number` for ``ms: Expected
    `float`, got `str` ``. Details that it does not know are returned as they are.
    """
    if (broken := _NO_UTF_8.fullmatch(detail)) is not None:
        return f"the record is no UTF-8{f' ({broken[1]})' if broken[1] else ''}"
    for field, _, message in (("", "", detail), detail.partition(": ")):
        if (plain := _plain(field, message)) is not None:
            return plain
    return detail


def _plain(field: str, message: str) -> str | None:
    """Return what the library says of a field, or the record, in plain words; None if unknown."""
    subject = field or "the record"
    if _HALF.fullmatch(message):
        return f"{subject} has half of a character, such as \\ud83d alone: its text was cut there"
    if (trailing := _TRAILING.fullmatch(message)) is not None:
        return f"{MORE}{trailing[1] or ''}: a record is one event, so have each sent alone"
    if message == _TRUNCATED:
        return "the record ends before its JSON is complete"
    if message == _TOO_LARGE:
        return f"{subject} is beyond the largest double"
    if (absent := _ABSENT.fullmatch(message)) is not None:
        return f"{field}{'.' if field else ''}{absent['name']} is missing"
    expected = _EXPECTED.fullmatch(message)
    return None if expected is None else f"{subject} {_unexpected(expected)}{expected['more']}"


def _unexpected(expected: re.Match[str]) -> str:
    if (found := expected["found"]) is not None:
        types = expected["types"].split(" | ")
        if "float" in types and "int" in types:
            types.remove("int")
        *others, last = [name for one, name in _TYPES.items() if one in types] or [types[0]]
        wanted = f"{', '.join(others)} or {last}" if others else last
        return f"is {_TYPES.get(found, found)}, not {wanted}"
    if (length := expected["length"]) is not None:
        return "is empty" if length == ">" else f"has more than {expected['most']} characters"
    side, limit = expected["side"], expected["limit"]
    # The largest whole number is one less than the limit.
    edge = float(limit) + (side == "<=" and "int" in expected["types"])
    if (of_time := _OF_TIMES.get((side[0], edge))) is not None:
        return of_time
    if side == ">=":
        return "is negative" if edge == 0 else f"is below {limit}"
    return f"is above {limit}" if side == "<=" else f"is not below {limit}"


_UNITS = ("bytes", "kB", "MB", "GB")


def bytes_text(count: int) -> str:
    """Return a size to two or three digits: 285 bytes, 4.2 kB, 354 kB."""
    size = float(count)
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            break
        size /= 1_000
    digits = 1 if unit != _UNITS[0] and size < 9.95 else 0
    return f"{size:.{digits}f} {unit}"
