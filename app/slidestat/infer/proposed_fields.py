"""Which fields of a topic are its key, time, value and items, and why.

Keys of records come first: a worker knows the events of its own partitions only, so a key by which
the records are not partitioned would be counted in several places.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from slidestat.declare.expressions.nodes import Call, FieldValue, Literal, Node, name_text, text_of
from slidestat.declare.fields import RECORD_KEY, RECORD_TIMESTAMP, FieldPath, field_text, is_plain
from slidestat.declare.statistics import Quantiles
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.engine.decoding.times import moments_of, remark_on_rounded
from slidestat.errors import SlidestatError
from slidestat.infer.sampling import Sample, key_column
from slidestat.infer.survey import (
    TIME_NAMES,
    TIME_WORDS,
    FieldSurvey,
    Survey,
    as_object,
    key_text,
    leaves,
    number_key,
)
from slidestat.schemas.event import MAX_KEY_LENGTH

# Guesses of what the events leave open: a person is asked, or is shown what was taken.

_MOST_CHOICES = 9

# Given what is asked for, and fields with a value of each: the place of the right one.
Ask = Callable[[str, Sequence[tuple[str, str]]], int]


@dataclass(frozen=True)
class Guess:
    """A field of the topology, and why it was taken."""

    value: str | tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Doubts:
    """The choices among fields that would do equally well: those in `given`, by what they are for;
    `ask` makes the others; without it the first field is taken, with a warning in `warnings`.
    """

    ask: Ask | None
    warnings: list[str]
    given: Mapping[str, str]

    def field(self, what: str, found: Survey) -> FieldSurvey | None:
        """Return the given field; None if none is. Raises SlidestatError for one no record has."""
        name = self.given.get(what)
        if name is None:
            return None
        for seen in found.fields.values():
            if name in (field_text(seen.path), ".".join(seen.path)):
                if seen.present < _ALMOST_ALL * found.objects:
                    missing = found.objects - seen.present
                    self.warnings.append(
                        f"{missing:,} of {found.objects:,} sampled records have no {name!r}, the"
                        f" {what}."
                    )
                return seen
        there = ", ".join(sorted(repr(field_text(seen.path)) for seen in found.fields.values()))
        raise SlidestatError(
            f"None of the sampled records has a field {name!r}.",
            f"Give --{what} one that they have: {there}.",
        )

    def settle(self, what: str, fields: Sequence[FieldSurvey]) -> FieldSurvey:
        """Return the field to take, of at least one, the likeliest first."""
        fields = fields[:_MOST_CHOICES]
        if len(fields) == 1:
            return fields[0]
        if self.ask is not None:
            asked = [(field_text(f.path), next(iter(f.values), "")) for f in fields]
            return fields[self.ask(what, asked)]
        first, *others = (repr(field_text(field.path)) for field in fields)
        self.warnings.append(
            f"The {what} is a guess: {first}, and not {', '.join(others)}. Change it in the file,"
            " or run `slidestat init` on a terminal, which asks."
        )
        return fields[0]


_ALMOST_ALL = 0.95
# Names of what is asked for most: durations, and whose they are.
_DURATION_NAMES = re.compile(
    r".*(latency|duration|elapsed|took|delay|millis|seconds).*|(.*_)?ms", re.I
)
_KEY_NAMES = re.compile(
    r"(service|endpoint|api|route|host|tenant|customer|account|device|sensor|store|region)"
    r"(_?(id|name))?",
    re.I,
)
_VALUE_NAMES = re.compile(
    r".*(latency|duration|elapsed|took|ms|millis|seconds|bytes|size|amount|price|value|total|delay"
    r"|qty|quantity|distance|temperature|score).*",
    re.I,
)
# UTC where the text has no zone.
_UTC = "iso8601-utc"
# Different values of a text: an enumeration has few, an identifier many.
_FEW = 50
_FLAGS = {"0", "1", "0.0", "1.0"}
_DATE_IN_DIGITS = re.compile(
    r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])(?:[0-9]{4}|[0-9]{6})?"
)
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", re.I)


def _no(what: str, given: FieldSurvey, wanted: str) -> SlidestatError:
    seen = ", ".join(repr(text[:60]) for text in list(given.values)[:3])
    return SlidestatError(
        f"{field_text(given.path)!r} cannot be the {what}, which is of {wanted}: it has {seen}.",
        f"Give another --{what}, or leave it out: the likeliest field is taken.",
    )


def common_fields(found: Survey) -> list[FieldSurvey]:
    """Return the fields that almost all records have."""
    return [f for f in found.fields.values() if f.present >= _ALMOST_ALL * found.objects]


def propose_key(sample: Sample, found: Survey, doubts: Doubts) -> tuple[Guess, int]:
    """Return the key, and the sample's number of keys; SlidestatError where no field can be it."""
    numbers = sum(number_key(record) is not None for record in sample.records)
    if doubts.given.get("key") == RECORD_KEY:
        if numbers:
            doubts.warnings.append(bytes_warning(numbers, len(sample.records)))
        return Guess(RECORD_KEY, "as given"), len(found.keys)
    given = doubts.field("key", found)
    if given is not None:
        if given.texts + given.integers < given.present or given.longest > MAX_KEY_LENGTH:
            raise _no("key", given, f"texts of up to {MAX_KEY_LENGTH} characters or whole numbers")
        return Guess(written(given.path), "as given"), len(given.values)
    if found.keyed + numbers >= _ALMOST_ALL * len(sample.records):
        matching = _fields_of_the_key(sample)
        for path, share in matching.items():
            if share >= _ALMOST_ALL:
                seen = len(found.fields[path].values)
                return Guess(written(path), "the records are partitioned by it"), seen
        if not numbers:
            return Guess(RECORD_KEY, "the record's own key; no field repeats it"), len(found.keys)
    if numbers:
        doubts.warnings.append(bytes_warning(numbers, len(sample.records)))
    candidates = [
        f for f in common_fields(found) if not _has_times(f) and f.texts + f.integers == f.present
    ]
    candidates = [f for f in candidates if f.longest <= MAX_KEY_LENGTH and not _is_often_empty(f)]
    if not candidates:
        raise SlidestatError(
            f"The records of {sample.topic!r} have no key{' that is text' if numbers else ''}, and"
            " no field that could be one.",
            "Produce them with a Kafka key, so that all records of a key are in one partition.",
        )
    candidates.sort(
        key=lambda f: (not _KEY_NAMES.fullmatch(f.path[-1]), len(f.path), abs(len(f.values) - _FEW))
    )
    best = doubts.settle("key", candidates)
    lack = "Kafka key that is text" if numbers else "Kafka key"
    lacking = len(sample.records) - found.keyed
    which = f"{lacking:,} of {len(sample.records):,} records" if found.keyed else "the records"
    return Guess(written(best.path), f"a guess: {which} have no {lack}"), len(best.values)


def _is_often_empty(seen: FieldSurvey) -> bool:
    return seen.values[""] > (1 - _ALMOST_ALL) * seen.present


def bytes_warning(numbers: int, records: int) -> str:
    """Return what is wrong with Kafka keys, given how many are numbers in bytes."""
    return (
        f"{numbers:,} of {records:,} records have a Kafka key of bytes, as IntegerSerializer and"
        f" LongSerializer write numbers: {RECORD_KEY} takes those for texts that happen to be such,"
        " and refuses the others. Name a field of the value, or have the producers send texts."
    )


def _fields_of_the_key(sample: Sample) -> dict[FieldPath, float]:
    """Return the share of records in which each field repeats the Kafka key, short paths first."""
    same: dict[FieldPath, int] = {}
    for record in sample.records:
        key, value = key_text(replace(record, key=key_column(record.key))), as_object(record)
        if key is None and (number := number_key(record)) is not None:
            key = str(number)
        if key is None or value is None:
            continue
        for path, leaf in leaves(value):
            if isinstance(leaf, str | int) and not isinstance(leaf, bool) and str(leaf) == key:
                same[path] = same.get(path, 0) + 1
    ordered = sorted(same.items(), key=lambda item: (len(item[0]), item[0]))
    events = sum(record.value is not None for record in sample.records)
    return {path: count / events for path, count in ordered}


# When a change was made in the database, in Debezium's envelope.
CHANGED_AT = ("source", "ts_ms")


def propose_time(
    found: Survey, doubts: Doubts, *, has_envelope: bool = False
) -> tuple[Guess, str, FieldPath | None]:
    """Return the time, its format and its path; Kafka's timestamp where no field is a time."""
    if has_envelope and any(seen.path == CHANGED_AT for seen in common_fields(found)):
        reason = "when the row was changed in the database"
        return Guess(written(CHANGED_AT), reason), "ms", CHANGED_AT
    if doubts.given.get("time") == RECORD_TIMESTAMP:
        return Guess(RECORD_TIMESTAMP, "as given"), "ms", None
    given, candidates = doubts.field("time", found), []
    if given is not None and _format(given) is None:
        raise _no("time", given, "times in one format")
    for seen in common_fields(found) if given is None else [given]:
        if (name := _format(seen)) is not None:
            named = bool(TIME_NAMES.fullmatch(seen.path[-1]))
            candidates.append((not named, len(seen.path), seen.path, name))
    if candidates:
        candidates.sort()
        likely = [seen for seen in candidates if seen[0] == candidates[0][0]]
        seen = doubts.settle("time", [found.fields[path] for _, _, path, _ in likely])
        name = next(name for _, _, path, name in likely if path == seen.path)
        reason = f"times in {TIME_FORMATS[name].text}"
        if seen.texts == seen.present and not TIME_FORMATS[name].is_text:
            reason += ", as texts"
        if others := seen.present - _times_in(seen, name):
            doubts.warnings.append(some_are_not(seen, others, reason))
        return Guess(written(seen.path), reason), name, seen.path
    for seen in common_fields(found):
        if seen.formats.total() >= _ALMOST_ALL * seen.present:
            shares = " and ".join(
                f"{count:,} in {TIME_FORMATS[name].text}"
                for name, count in seen.formats.most_common()
            )
            doubts.warnings.append(
                f"{field_text(seen.path)!r} has times in several formats, {shares}, and a topology"
                " reads one: have the producers write one."
            )
    for seen in filter(is_time_unread, common_fields(found)):
        example = next(iter(seen.values))
        fault = (
            "in which no time is read: have the producers write ISO 8601, or a number since 1970"
        )
        if seen.texts and moments_of(pa.array([example])).are_times[0]:
            fault = f'which time_format = "{_UTC}" takes for the first moment of the day'
        doubts.warnings.append(
            f"{field_text(seen.path)!r} has {'texts' if seen.texts else 'numbers'} such as"
            f" {example!r}, {fault}."
        )
    doubts.warnings.append(
        "No field of the records is a time: the timestamps of the Kafka records are taken, which"
        " say when an event was produced, or stored, not when it happened."
    )
    return Guess(RECORD_TIMESTAMP, "no field is a time"), "ms", None


def _format(seen: FieldSurvey) -> str | None:
    """Return the format in which almost all values are times, preferably that of most of them; None
    if there is none.
    """
    formats = [name for name, _ in seen.formats.most_common(1)]
    if _UTC in seen.formats:
        formats.append(_UTC)
    return next((f for f in formats if _times_in(seen, f) >= _ALMOST_ALL * seen.present), None)


def _times_in(seen: FieldSurvey, time_format: str) -> int:
    """Return how many of a field's values are times in a format: the format with UTC for missing
    zones also takes values with zones.
    """
    return seen.formats[time_format] + (seen.formats["iso8601"] if time_format == _UTC else 0)


def some_are_not(seen: FieldSurvey, others: int, what: str) -> str:
    """Return the warning that some of a field's values are refused."""
    return (
        f"{others:,} of {seen.present:,} sampled values of {field_text(seen.path)!r} are no {what}:"
        " their records will be dead letters."
    )


def is_measure(seen: FieldSurvey) -> bool:
    """Return whether a field has numbers that differ and are not times."""
    is_number = seen.numbers >= _ALMOST_ALL * seen.present or is_number_text(seen)
    is_kept = seen.largest <= Quantiles().limits.most
    is_time = _has_times(seen) or _is_date_in_digits(seen)
    return is_number and is_kept and not is_time and len(seen.values) > 1


def _is_duration(seen: FieldSurvey) -> bool:
    """Return whether the name of a field, or of an object around it, says that it is a duration."""
    return any(map(_DURATION_NAMES.fullmatch, seen.path))


def _has_times(seen: FieldSurvey) -> bool:
    """Return whether more of a field's values are times than by chance."""
    return seen.formats.total() > (1 - _ALMOST_ALL) * seen.present


def is_time_unread(seen: FieldSurvey) -> bool:
    """Return whether a field named as a time has texts in no format, or dates in digits."""
    are_texts = seen.texts == seen.present > 0 and not seen.formats
    are_texts &= not seen.number_texts or all(map(remark_on_rounded, seen.values))
    is_named = bool(TIME_NAMES.fullmatch(seen.path[-1]))
    return is_named and (are_texts or _is_date_in_digits(seen))


def _is_date_in_digits(seen: FieldSurvey) -> bool:
    """Return whether a field's values are dates such as 20251125, also with a time of day."""
    is_named = bool(TIME_WORDS.search(seen.path[-1]))
    return is_named and bool(seen.values) and all(map(_DATE_IN_DIGITS.fullmatch, seen.values))


def is_number_text(seen: FieldSurvey) -> bool:
    """Return whether a field has texts of numbers, measurements by their fractions or their name:
    most other texts of digits are identifiers.
    """
    is_named = bool(_VALUE_NAMES.fullmatch(seen.path[-1]))
    is_text = seen.numbers + seen.number_texts >= _ALMOST_ALL * seen.present > seen.numbers
    return is_text and (seen.decimals > 0 or is_named)


# With groups of thousands, a comma for the point, a unit or a currency; not what a cast reads.
_SPOILED_NUMBER = re.compile(
    r"(?![-+]?[0-9.]*\Z)\W{0,4}[0-9][0-9.,' \u00a0\u202f]*\W?[^\W\d]{0,3}\W?"
)


# Decimals as Kafka Connect writes them in JSON.
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def is_number_unread(seen: FieldSurvey) -> bool:
    """Return whether a field has the name of a measurement, and texts of numbers that are none to
    anything that reads them.
    """
    if seen.texts != seen.present or not _VALUE_NAMES.fullmatch(seen.path[-1]):
        return False
    spoiled = sum(map(bool, map(_SPOILED_NUMBER.fullmatch, seen.values.elements())))
    is_spoiled = spoiled >= _ALMOST_ALL * seen.present and not is_number_text(seen)
    return is_spoiled or _has_base64(seen)


def _has_base64(seen: FieldSurvey) -> bool:
    is_padded = any(text.endswith("=") for text in seen.values)
    return is_padded and all(map(_BASE64.fullmatch, seen.values))


def number_unread(seen: FieldSurvey) -> str:
    """Return the warning that no number is read of a field."""
    advice = "have the producers write numbers, with a point and without a unit"
    if _has_base64(seen):
        advice = (
            "they may be decimals of Kafka Connect in base64, so have it write texts or numbers"
            " (decimal.handling.mode=string in Debezium, decimal.format=NUMERIC in JsonConverter)"
        )
    return (
        f"{field_text(seen.path)!r} has texts such as {next(iter(seen.values))!r}, in which no"
        f" number is read: {advice}."
    )


def _is_identifier(seen: FieldSurvey, found: Survey) -> bool:
    return len(seen.values) == found.objects and seen.integers == seen.present


def propose_value(numbers: Sequence[FieldSurvey], found: Survey, doubts: Doubts) -> Guess | None:
    """Return the number that is most likely a measurement, not an identifier."""

    def unlike(seen: FieldSurvey) -> tuple[bool, bool, bool, bool, bool]:
        name = seen.path[-1]
        named = bool(_VALUE_NAMES.fullmatch(name))
        is_identifier = _is_identifier(seen, found)
        is_flag = seen.values.keys() <= _FLAGS
        is_text = is_number_text(seen)
        return name != "value", is_flag, not named, is_identifier, is_text

    def order(seen: FieldSurvey) -> tuple[object, ...]:
        return unlike(seen), not _is_duration(seen), len(seen.path), seen.path

    given = doubts.field("value", found)
    if given is not None:
        if not is_measure(given):
            raise _no("value", given, "numbers that differ")
        return Guess(written(given.path), "as given")
    if not numbers:
        return None
    ordered = sorted(numbers, key=order)
    likely = [seen for seen in ordered if unlike(seen) == unlike(ordered[0])]
    best = doubts.settle("value", likely)
    named = bool(_VALUE_NAMES.fullmatch(best.path[-1]))
    reason = "a text of numbers" if is_number_text(best) else "a number"
    return Guess(written(best.path), f"{reason}, by its name" if named else reason)


def cast_of(seen: FieldSurvey, found: Survey, function: str = "cast") -> tuple[str, str]:
    """Return the name of a computed field that no event has, and its declaration: the number that a
    text writes, by `cast` or `try_cast`.
    """
    names = {path[0] for path in found.fields}
    name = f"{seen.path[-1]}_number"
    while name in names:
        name += "_"
    cast = Call(function, (FieldValue(seen.path), Literal("double")))
    return name, f"{text_of(cast)} as {name_text(name)}"


def propose_items(texts: Sequence[FieldSurvey], found: Survey) -> tuple[Guess | None, Guess | None]:
    """Return a text with many values, whose number is of interest, and one whose values repeat."""
    varied = sorted(texts, key=lambda f: (-len(f.values), f.path))
    distinct = next((f for f in varied if len(f.values) > _FEW), None)
    repeated = [f for f in varied if 2 <= len(f.values) <= found.objects / 3]
    top = next((f for f in repeated if f is not distinct), None) or next(iter(repeated), None)
    return (
        Guess(written(distinct.path), f"{len(distinct.values):,} values in the sample")
        if distinct is not None
        else None,
        Guess(written(top.path), f"{len(top.values):,} values, which come again")
        if top is not None
        else None,
    )


class Objective(NamedTuple):
    """A service-level objective that the fields of a topic suggest."""

    name: str
    good: str
    share: str


_STATUS_NAME = re.compile(r"((http|response)_?)?(status|code)(_?code)?", re.I)


def propose_objectives(found: Survey, value: Guess | None) -> list[Objective]:
    """Return the objectives of a field of HTTP status codes, and of the value if its name is that
    of a duration, with a limit that 99 % of the sampled values keep.
    """
    objectives = []
    statuses = (f for f in common_fields(found) if _STATUS_NAME.fullmatch(f.path[-1]))
    if (status := next(filter(_is_http_status, statuses), None)) is not None:
        field: Node = FieldValue(status.path)
        if status.texts:
            field = Call("cast", (field, Literal("double")))
        good = text_of(Call("<", (field, Literal(500.0))))
        objectives.append(Objective("availability", good, "0.999"))
    took = None if value is None else found.fields.get(path_of(value.value))
    if took is not None and _is_duration(took) and not took.negatives:
        good = text_of(Call("<=", (FieldValue(took.path), Literal(_limit(took)))))
        objectives.append(Objective("latency", good, "0.99"))
    return objectives


def _is_http_status(seen: FieldSurvey) -> bool:
    return all(len(text) == 3 and text.isdigit() and "1" <= text[0] <= "5" for text in seen.values)


class Ranges(NamedTuple):
    """A field in whose ranges the value may be summed, and the edges of these."""

    by: Guess
    edges: Sequence[float]


def propose_ranges(
    numbers: Sequence[FieldSurvey], found: Survey, value: Guess | None
) -> Ranges | None:
    """Return another measure than the value, neither a code nor an identifier, with edges that a
    half, and almost all, of its sampled values do not pass; None without one.
    """
    if value is None:
        return None
    for seen in sorted(numbers, key=lambda it: (len(it.path), it.path)):
        is_code = is_number_text(seen) or _STATUS_NAME.fullmatch(seen.path[-1])
        is_other = written(seen.path) != value.value and seen.negatives == 0
        if is_other and not is_code and not _is_identifier(seen, found) and len(seen.values) > _FEW:
            edges = sorted({_limit(seen, share) for share in (50, 90, 99)})
            return Ranges(Guess(written(seen.path), "the value's sums in its ranges"), edges)
    return None


def _limit(seen: FieldSurvey, share: int = 99) -> float:
    """Return the least of 1, 2, 5, 10, 20 ... that a share, in %, of the values are at most."""
    values = sorted(float(text) for text in seen.values.elements() if _NUMBER.fullmatch(text))
    most = values[len(values) * share // 100] if values else 1.0
    limits = (step * 10.0**power for power in range(-9, 300) for step in (1, 2, 5))
    return next((limit for limit in limits if limit >= most), most)


def written(path: FieldPath) -> str | tuple[str, ...]:
    """Return the path as a topology has it: names with a dot or an operator as a list."""
    return field_text(path) if is_plain(path) else path


def path_of(text: str | tuple[str, ...]) -> FieldPath:
    """Return the path of a field as a topology has it."""
    return tuple(text.split(".")) if isinstance(text, str) else text
