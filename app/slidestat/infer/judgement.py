"""Judge a declaration by sampled records of its source: names that none of them has, and what a
worker would refuse.

How many records suffice to refuse a declaration:

- Ten, for a name without which no event is counted (key, time), and where all would be refused: if
  half of the records have such a name, ten in a row lack it once in a thousand times.
- A hundred, for what an event may lack: a field of 3 % of the events is in none of a hundred once
  in twenty times. Better to ask then (`--anyway`) than to leave a slip unsaid.
- No number, for a name that an expression expects to be absent (`is null`, `coalesce`): it is
  noted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import Call, Node, fields_of
from slidestat.declare.fields import RECORD_KEY, RECORD_TIMESTAMP, FieldPath, field_text
from slidestat.declare.times.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import Refusal, refuse_future
from slidestat.engine.decoding.formats.source_schemas import (
    NotReadableError,
    SourceSchemas,
    UnusableSchemaError,
    framed_by_headers,
)
from slidestat.engine.decoding.formats.translations import translation_of
from slidestat.engine.decoding.record_type import reads_key, record_type
from slidestat.engine.decoding.struct_values import StructConditions
from slidestat.engine.decoding.times import event_times
from slidestat.errors import SlidestatError, near_name
from slidestat.infer.proposed_fields import bytes_warning
from slidestat.infer.sampling import SampledRecord, json_object
from slidestat.infer.survey import number_key, time_format, value_at
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import is_in_seconds
from slidestat.text import advice_on, plain_detail, reasons_text

# Find the names that a declaration reads, and those of them that no record of a sample has.
#
# An event is evidence for a name if it has it, or has the object in which it would be; null in
# place of an object around it is no evidence. Names are looked for where a worker would look: those
# of `where` in all records, others in the events that it takes, those of a statistic with a
# condition in the events that this takes.

# Stand for a condition of `columns.conditions`: all records; the events that `where` takes.
ALL_RECORDS, TAKEN = -2, -1
_DEEPEST = 8


class SampledEvent(NamedTuple):
    """The fields of a record that is a JSON object, whether the topology's `where` takes it, and
    which of its `columns.conditions` hold.
    """

    fields: Mapping[str, object]
    is_taken: bool
    conditions: Sequence[bool]

    def is_read_by(self, reader: int) -> bool:
        """Return whether a reader of a name reads it of this event."""
        if reader == ALL_RECORDS:
            return True
        return self.is_taken and (reader == TAKEN or bool(self.conditions[reader]))


@dataclass
class ReadName:
    """A name that a declaration reads: the field of the declaration that has it, and the events of
    which it is read. Without one that `is_needed` a record is refused; one that `may_lack` is
    expected to be absent at times, as an expression asks for that.
    """

    path: FieldPath
    places: list[str] = field(default_factory=list)
    readers: set[int] = field(default_factory=set)
    is_needed: bool = False
    may_lack: bool = False

    @property
    def text(self) -> str:
        """Return the name and where it is written."""
        return f"{field_text(self.path)!r} ({', '.join(self.places)})"


class AbsentName(NamedTuple):
    """A name that none of the `events` events has which should have it; `near` is the most similar
    of the names that they have.
    """

    name: ReadName
    events: int
    near: str | None


def read_names(topology: Topology) -> list[ReadName]:
    """Return the names that a topology reads from its records, each once."""
    found: dict[FieldPath, ReadName] = {}
    for path, place, reader, is_needed in _readings(topology):
        name = found.setdefault(path, ReadName(path))
        if place not in name.places:
            name.places.append(place)
        name.readers.add(reader)
        name.is_needed |= is_needed
    lacked = {path for known in _expressions(topology) for path in _tested(known.node)}
    for path, name in found.items():
        name.may_lack = path in lacked and not name.is_needed
    return list(found.values())


def absent_names(topology: Topology, events: Sequence[SampledEvent]) -> list[AbsentName]:
    """Return the names that no event has where they are read, if any event is evidence of it."""
    absent = []
    for name in read_names(topology):
        read = [it.fields for it in events if any(map(it.is_read_by, name.readers))]
        has_it = [_tells(fields, name.path) for fields in read]
        if any(has_it) or has_it.count(False) == 0:
            continue
        known = dict.fromkeys(text for fields in read for text in names_in(fields))
        if name.is_needed:
            known |= dict.fromkeys((RECORD_KEY, RECORD_TIMESTAMP))
        near = near_name(field_text(name.path), known)
        absent.append(AbsentName(name, has_it.count(False), near))
    return absent


def _readings(topology: Topology) -> Iterator[tuple[FieldPath, str, int, bool]]:
    """Yield path, place in the declaration, reader, and whether each event must have it."""
    computed = topology.computed_fields
    conditions = topology.columns.conditions
    if topology.condition is not None:
        for path in topology.condition.paths:
            yield path, "where", ALL_RECORDS, False
    if topology.time_path is not None:
        yield topology.time_path, "time_field", TAKEN, True
    used: dict[FieldPath, set[int]] = {}
    if topology.key_path in computed:
        used[topology.key_path] = {TAKEN}
    elif topology.key_path is not None and reads_key(topology):
        yield topology.key_path, "key_field", TAKEN, True
    for label, statistic in zip(topology.labels, topology.statistics, strict=True):
        reader = TAKEN
        if statistic.condition is not None:
            reader = conditions.index(statistic.condition)
            for path in statistic.condition.paths:
                yield path, f"where of {label}", TAKEN, False
        for column in topology.columns_of(statistic):
            if column.path in computed:
                used.setdefault(column.path, set()).add(reader)
            else:
                yield column.path, label, reader, False
    for path, known in computed.items():
        for reader in used.get(path, ()):
            for read in known.expression.paths:
                yield read, f"computed {field_text(path)}", reader, False


def _expressions(topology: Topology) -> Iterator[Expression]:
    if topology.condition is not None:
        yield topology.condition
    yield from topology.columns.conditions
    yield from (known.expression for known in topology.computed_fields.values())


def _tested(node: Node) -> Iterator[FieldPath]:
    """Yield the fields that an expression expects to be absent at times."""
    if isinstance(node, Call):
        if node.operator in ("is null", "coalesce"):
            yield from fields_of(node)
        for operand in node.operands:
            yield from _tested(operand)


def _tells(value: object, path: FieldPath) -> bool | None:
    """Return whether an event has a field; None where that cannot be known."""
    for name in path:
        if value is None:
            return None
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def names_in(fields: Mapping[str, object], above: FieldPath = ()) -> Iterator[str]:
    """Yield the names of an event's fields as declared, an object's before those of its fields."""
    for name, value in fields.items():
        yield _declared((*above, name))
        if isinstance(value, dict) and len(above) < _DEEPEST:
            yield from names_in(value, (*above, name))


def _declared(path: FieldPath) -> str:
    """Return a path as a declaration has it: a list where a name has a dot."""
    if any("." in name for name in path):
        return f"'{msgspec.json.encode(path).decode()}'"
    return field_text(path)


FEWEST = 10
FEWEST_OF_OPTIONAL = 100
_SHOWN = 8
_ANYWAY = "start with --anyway"


@dataclass(frozen=True)
class Judgement:
    """The findings in `records`, tombstones aside: how many are taken in, `passed_over` by the
    topology's condition, or `refused`, with an example of these; names that no event has, those
    that events have, and conditions of statistics that hold for none. `meant` is the time format,
    or timestamps, that the records seem to have, "" where they are as declared. `in_bytes` records
    have a key that is read and is a number.
    """

    topology: Topology
    records: int
    passed_over: int
    refused: Counter[Reason]
    example: tuple[SampledRecord, Refusal] | None
    absent: Sequence[AbsentName]
    fields: Sequence[str]
    idle_conditions: Sequence[str]
    meant: str
    in_bytes: int

    @property
    def refuses_all(self) -> bool:
        """Return whether a worker would refuse all, of enough records."""
        refused = self.refused.total()
        return refused >= FEWEST and refused + self.passed_over == self.records

    @property
    def notes(self) -> list[str]:
        """Return what may be right, and should be looked at."""
        notes = [
            f"{absent.name.text} is in none of {absent.events:,}"
            for absent in self.absent
            if not self._is_slip(absent)
        ]
        if self.records >= FEWEST and self.passed_over == self.records:
            notes.append("`where` passes over all of them")
        notes += [f"{what} holds for none" for what in self.idle_conditions]
        if self.in_bytes:
            notes.append(bytes_warning(self.in_bytes, self.records))
        if self.refused:
            notes.append(f"dead letters would be {reasons_text(self.refused)}")
        return notes

    def error(self) -> SlidestatError | None:
        """Return what is wrong with the declaration; None if nothing is found."""
        topology = self.topology
        if slips := [absent for absent in self.absent if self._is_slip(absent)]:
            names = " and ".join(absent.name.text for absent in slips)
            near = dict.fromkeys(absent.near for absent in slips if absent.near is not None)
            guess = f"Did you mean {', '.join(near)}? " if near else ""
            events = max(absent.events for absent in slips)
            return SlidestatError(
                f"{topology.name} reads {names}, and none of the {events:,} records of"
                f" {topology.sources_text!r} that were looked at has"
                f" {'it' if len(slips) == 1 else 'any of them'}.",
                f"{guess}{self._have()}Correct the declaration; for a field that is rare, or only"
                f" to come, {_ANYWAY}.",
            )
        if self.refuses_all and self.example is not None:
            record, refusal = self.example
            return SlidestatError(
                f"{topology.name} would refuse all of {self.refused.total():,} records of"
                f" {topology.sources_text!r} that were looked at ({reasons_text(self.refused)}),"
                f" such as the one of partition {record.partition}, offset {record.offset}:"
                f" {refusal.reason.value}, {plain_detail(refusal.detail)}.",
                f"{self.meant or advice_on(refusal.reason)}Correct the declaration; to have such"
                f" records set aside as dead letters, {_ANYWAY}.",
            )
        return None

    def _have(self) -> str:
        if not self.fields:
            return ""
        more = len(self.fields) - _SHOWN
        shown = ", ".join(self.fields[:_SHOWN])
        return f"They have {shown}{f' and {more} more' if more > 0 else ''}. "

    def _is_slip(self, absent: AbsentName) -> bool:
        if absent.name.may_lack:
            return False
        needed = absent.name.is_needed or self.refuses_all
        return absent.events >= (FEWEST if needed else FEWEST_OF_OPTIONAL)


def judge(
    topology: Topology, sampled: Sequence[SampledRecord], schemas: SourceSchemas | None = None
) -> Judgement:
    """Judge a topology by records of its source; `schemas` are theirs, if they take any."""
    found = [it for it in sampled if it.value is not None or not topology.passes_tombstones_over]
    values: Sequence[bytes | None] = [record.value for record in found]
    headers = [record.headers for record in found]
    stamps = [record.timestamp_ms for record in found]
    decoder = EventDecoder(topology, schemas=schemas)
    columns = decoder.decode(values, [record.key for record in found], stamps, headers)
    if not topology.is_sequence:
        columns = refuse_future(columns, stamps, topology.ahead_ms)
    refused = Counter(refusal.reason for refusal in columns.refusals)
    example = None
    if refused:
        most = refused.most_common(1)[0][0]
        first = next(refusal for refusal in columns.refusals if refusal.reason is most)
        example = found[first.row], first
    if topology.is_framed:
        values = framed_by_headers(values, headers)
    events = _events(topology, values, schemas or SourceSchemas())
    fields = dict.fromkeys(name for event in events for name in names_in(event.fields))
    return Judgement(
        topology,
        len(found),
        len(columns.passed_over),
        refused,
        example,
        absent_names(topology, events),
        list(fields),
        list(_idle_conditions(topology, events)),
        _meant(topology, events, stamps),
        sum(number_key(it) is not None for it in found) if topology.key_field == RECORD_KEY else 0,
    )


def remark_on_refused(topology: Topology, sample: Sequence[SampledRecord]) -> str:
    """Return a remark on the records of a sample that the proposed topology would refuse; "" if it
    takes all. Records that are no JSON, or are of wrong clocks, are left to the proposal, which
    knows more about them.
    """
    # Sampled records are in JSON, whatever the source has.
    plain = replace(topology, source_format="json", source_schema="", envelope="")
    found = judge(plain, sample)
    others = Counter(found.refused)
    del others[Reason.NOT_JSON], others[Reason.FROM_THE_FUTURE]
    if not others or found.example is None:
        return ""
    record, refusal = found.example
    return (
        f"{others.total():,} of {found.records:,} sampled records would be dead letters"
        f" ({reasons_text(others)}), such as the one of partition {record.partition}, offset"
        f" {record.offset}: {refusal.detail}."
    )


def _events(
    topology: Topology, values: Sequence[bytes | None], schemas: SourceSchemas
) -> list[SampledEvent]:
    """Return the records that are JSON objects, or are translated to one from another format."""
    conditions = StructConditions(topology, record_type(topology))
    translate = None
    if not topology.reads_plain_json:
        translate = translation_of(topology, schemas)
    events = []
    for value in values:
        try:
            text = value if value is None or translate is None else translate(value)
        except (NotReadableError, UnusableSchemaError):
            continue
        fields = json_object(text or b"")
        if fields is None:
            continue
        judged = conditions.of_record(text or b"") if conditions else None
        if judged is None:
            events.append(SampledEvent(fields, not conditions, ()))
        else:
            holds = [bool(condition[0]) for condition in judged.conditions]
            events.append(SampledEvent(fields, bool(judged.counted[0]), holds))
    return events


def _idle_conditions(topology: Topology, events: Sequence[SampledEvent]) -> Iterator[str]:
    taken = [event.conditions for event in events if event.is_taken]
    if len(taken) < FEWEST_OF_OPTIONAL:
        return
    for place, known in enumerate(topology.columns.conditions):
        if not any(conditions[place] for conditions in taken):
            yield f"the condition {known.text!r} of a statistic"


def _meant(topology: Topology, events: Sequence[SampledEvent], stamps: Sequence[int]) -> str:
    """Return how times are written, or timestamps, where that is not as declared."""
    if stamps and all(map(is_in_seconds, stamps)):
        return (
            f"The Kafka timestamps of the records are of 1970 ({stamps[0]} ms): they seem to be"
            " seconds, and Kafka's are milliseconds. Have the producer write these. "
        )
    path = topology.time_path
    if path is None or topology.is_sequence:
        return ""
    values = [value_at(event.fields, path) for event in events]
    formats = Counter(time_format(value) for value in values)
    if not formats or topology.time_format in formats:
        return ""
    likeliest, count = formats.most_common(1)[0]
    if likeliest is None or 2 * count <= len(values):
        return ""
    times = TIME_FORMATS[likeliest]
    example = next(value for value in values if time_format(value) == likeliest)
    if not times.is_text and event_times([example], times)[0] > max(stamps) + topology.ahead_ms:
        return ""  # Digits of a date, 2025112511, look like seconds of a later year.
    return (
        f"{field_text(path)} seems to have {TIME_FORMATS[likeliest].text}: write"
        f' time_format = "{likeliest}". '
    )
