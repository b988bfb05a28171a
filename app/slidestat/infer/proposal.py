"""A topology for a topic that was looked at: which fields, which statistics, and why.

What is guessed is said, and written to a file that a person reads before it runs. Keys come first:
statistics of a key are those of its partition, so a key that the records are not partitioned by
would be counted in several places.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slidestat.declare.fields import RECORD_KEY, RECORD_TIMESTAMP, FieldPath, field_text, is_plain
from slidestat.declare.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.infer.disorder import disorder
from slidestat.infer.proposed_lengths import Windows, propose_lateness, propose_windows
from slidestat.infer.sampling import Sample
from slidestat.infer.survey import FieldSurvey, Survey, as_object, key_text, leaves

_ALMOST_ALL = 0.95
_TIME_NAMES = re.compile(
    r"(event_?)?(time|timestamp|ts|at|date|datetime|occurred_?at|created_?at)(_?ms)?", re.I
)
_VALUE_NAMES = re.compile(
    r".*(latency|duration|elapsed|took|ms|millis|seconds|bytes|size|amount|price|value|total|delay"
    r"|distance|temperature|score).*",
    re.I,
)
# As text lists them: an enumeration has few values, an identifier many.
_FEW = 50
_FLAGS = {"0", "1", "0.0", "1.0"}


@dataclass(frozen=True)
class Guess:
    """A field of the topology, and why it was taken."""

    value: str | tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Proposal:
    """A topology that `slidestat init` proposes; `warnings` are for a person to read first."""

    name: str
    source: str
    key: Guess
    time: Guess
    time_format: str
    value: Guess | None
    value_decimals: int
    value_is_signed: bool
    distinct: Guess | None
    top: Guess | None
    lateness: Guess
    windows: Windows
    keys_seen: int
    sampled: int
    warnings: tuple[str, ...]


def propose(sample: Sample, found: Survey, name: str) -> Proposal:
    """The topology that fits the sample best.

    Raises SlidestatError if no record is a JSON object.
    """
    if not found.objects:
        raise SlidestatError(
            f"None of {len(sample.records):,} records of {sample.topic!r} that were looked at is a"
            " JSON object.",
            "Events are JSON objects: `slidestat schema event` shows one.",
        )
    warnings: list[str] = []
    if found.others:
        warnings.append(
            f"{found.others:,} of {len(sample.records):,} sampled records are no JSON objects:"
            " they will be dead letters."
        )
    key, keys_seen = _key(sample, found, warnings)
    time, time_format, written = _time(found, warnings)
    order = disorder(sample, written, time_format)
    if order.refused:
        warnings.append(
            f"{order.refused:,} of {len(sample.records):,} sampled events lie more than"
            f" {Topology.ahead} after the time when they were produced: they will be dead letters."
        )
    taken = {key.value, time.value}
    numbers = [f for f in _common(found) if _is_measure(f) and _written(f.path) not in taken]
    value = _value(numbers, found)
    chosen = found.fields[_path(value.value)] if value is not None else None
    if chosen is not None and chosen.numbers < chosen.present:
        warnings.append(_some_are_not(chosen, chosen.present - chosen.numbers, "numbers"))
    texts = [f for f in _common(found) if f.texts == f.present and not f.formats]
    texts = [f for f in texts if _written(f.path) not in taken and f.longest <= 1_000]
    distinct, top = _items(texts, found)
    return Proposal(
        name=name,
        source=sample.topic,
        key=key,
        time=time,
        time_format=time_format,
        value=value,
        value_decimals=min(chosen.decimals, 6) if chosen is not None else 0,
        value_is_signed=bool(chosen.negatives) if chosen is not None else False,
        distinct=distinct,
        top=top,
        lateness=Guess(*propose_lateness(order)),
        windows=propose_windows(sample.topic_records, order.length, keys_seen),
        keys_seen=keys_seen,
        sampled=len(sample.records),
        warnings=tuple(warnings),
    )


def _common(found: Survey) -> list[FieldSurvey]:
    """The fields that almost all records have."""
    return [f for f in found.fields.values() if f.present >= _ALMOST_ALL * found.objects]


def _key(sample: Sample, found: Survey, warnings: list[str]) -> tuple[Guess, int]:
    if found.keyed >= _ALMOST_ALL * len(sample.records):
        matching = _fields_of_the_key(sample)
        for path, share in matching.items():
            if share >= _ALMOST_ALL:
                seen = len(found.fields[path].values)
                return Guess(_written(path), "the records are partitioned by it"), seen
        return Guess(RECORD_KEY, "the record's own key; no field repeats it"), len(found.keys)
    candidates = [f for f in _common(found) if not f.formats and f.texts + f.integers == f.present]
    candidates = [f for f in candidates if f.longest <= 256]
    if not candidates:
        raise SlidestatError(
            f"The records of {sample.topic!r} have no key, and no field that could be one.",
            "Produce them with a Kafka key, so that all records of a key are in one partition.",
        )
    best = min(candidates, key=lambda f: (len(f.path), abs(len(f.values) - _FEW)))
    if sample.partitions > 1:
        warnings.append(
            f"The records have no Kafka key: those of one {field_text(best.path)!r} lie in several"
            " partitions, and each would be counted apart. Produce them with that key."
        )
    return Guess(_written(best.path), "a guess: the records have no Kafka key"), len(best.values)


def _fields_of_the_key(sample: Sample) -> dict[FieldPath, float]:
    """How large a share of the records each field repeats the Kafka key in, shortest path first."""
    same: dict[FieldPath, int] = {}
    for record in sample.records:
        key, value = key_text(record), as_object(record)
        if key is None or value is None:
            continue
        for path, leaf in leaves(value):
            if isinstance(leaf, str | int) and not isinstance(leaf, bool) and str(leaf) == key:
                same[path] = same.get(path, 0) + 1
    ordered = sorted(same.items(), key=lambda item: (len(item[0]), item[0]))
    return {path: count / len(sample.records) for path, count in ordered}


def _time(found: Survey, warnings: list[str]) -> tuple[Guess, str, FieldPath | None]:
    candidates = []
    for seen in _common(found):
        for name, count in seen.formats.most_common(1):
            if count >= _ALMOST_ALL * seen.present:
                named = bool(_TIME_NAMES.fullmatch(seen.path[-1]))
                candidates.append((not named, len(seen.path), seen.path, name))
    if candidates:
        _, _, path, name = min(candidates)
        reason = f"times in {TIME_FORMATS[name].text}"
        seen = found.fields[path]
        if others := seen.present - seen.formats[name]:
            warnings.append(_some_are_not(seen, others, reason))
        return Guess(_written(path), reason), name, path
    warnings.extend(
        f"The times in {field_text(seen.path)!r} have no time zone, and a worker guesses none:"
        " write them with one (Z is UTC), or send the events with `slidestat produce`, which takes"
        " such times for UTC."
        for seen in _common(found)
        if seen.zoneless >= _ALMOST_ALL * seen.present
    )
    warnings.append(
        "No field of the records is a time: the timestamps of the Kafka records are taken, which"
        " say when an event was produced, or stored, not when it happened."
    )
    return Guess(RECORD_TIMESTAMP, "no field is a time"), "ms", None


def _some_are_not(seen: FieldSurvey, others: int, what: str) -> str:
    return (
        f"{others:,} of {seen.present:,} sampled values of {field_text(seen.path)!r} are no {what}:"
        " their records will be dead letters."
    )


def _is_measure(seen: FieldSurvey) -> bool:
    return seen.numbers >= _ALMOST_ALL * seen.present and not seen.formats and len(seen.values) > 1


def _value(numbers: Sequence[FieldSurvey], found: Survey) -> Guess | None:
    """The number that is most likely measured, not an identifier."""

    def likely(seen: FieldSurvey) -> tuple[bool, bool, bool, bool, int, FieldPath]:
        name = seen.path[-1]
        named = bool(_VALUE_NAMES.fullmatch(name))
        is_identifier = len(seen.values) == found.objects and seen.integers == seen.present
        is_flag = seen.values.keys() <= _FLAGS
        return name != "value", is_flag, not named, is_identifier, len(seen.path), seen.path

    if not numbers:
        return None
    best = min(numbers, key=likely)
    named = bool(_VALUE_NAMES.fullmatch(best.path[-1]))
    return Guess(_written(best.path), "a number, by its name" if named else "a number")


def _items(texts: Sequence[FieldSurvey], found: Survey) -> tuple[Guess | None, Guess | None]:
    """A text of many values, whose number is of interest, and one whose values come again."""
    varied = sorted(texts, key=lambda f: (-len(f.values), f.path))
    distinct = next((f for f in varied if len(f.values) > _FEW), None)
    repeated = [f for f in varied if 2 <= len(f.values) <= found.objects / 3]
    top = next((f for f in repeated if f is not distinct), None) or next(iter(repeated), None)
    return (
        Guess(_written(distinct.path), f"{len(distinct.values):,} values in the sample")
        if distinct is not None
        else None,
        Guess(_written(top.path), f"{len(top.values):,} values, which come again")
        if top is not None
        else None,
    )


def _written(path: FieldPath) -> str | tuple[str, ...]:
    return field_text(path) if is_plain(path) else path


def _path(written: str | tuple[str, ...]) -> FieldPath:
    return tuple(written.split(".")) if isinstance(written, str) else written
