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
from dataclasses import dataclass

import msgspec

from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.time_format import TIME_FORMATS
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import Refusal, refuse_future
from slidestat.engine.decoding.formats.framing import NotReadableError, UnusableSchemaError
from slidestat.engine.decoding.formats.source_schemas import SourceSchemas
from slidestat.engine.decoding.formats.translations import translation_of
from slidestat.engine.decoding.record_type import record_type
from slidestat.engine.decoding.struct_conditions import StructConditions
from slidestat.errors import SlidestatError
from slidestat.infer.read_names import AbsentName, SampledEvent, absent_names, names_in
from slidestat.infer.sampling import SampledRecord
from slidestat.infer.survey import time_format
from slidestat.produce.cells import NOT_JSON
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.text.refusal_text import advice_on, reasons_text

FEWEST = 10
FEWEST_OF_OPTIONAL = 100
_SHOWN = 8
_ANYWAY = "start with --anyway"


@dataclass(frozen=True)
class Judgement:
    """The findings in `records`, tombstones aside: how many are taken in, `passed_over` by the
    topology's condition, or `refused`, with an example of these; names that no event has, those
    that events have, and conditions of statistics that hold for none. `meant` is the time format,
    or timestamps, that the records seem to have, "" where they are as declared.
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
                f"{topology.name} reads {names}, which none of {events:,} records of"
                f" {topology.source!r} has that were looked at.",
                f"{guess}{self._have()}Correct the declaration; for a field that is rare, or only"
                f" to come, {_ANYWAY}.",
            )
        if self.refuses_all and self.example is not None:
            record, refusal = self.example
            return SlidestatError(
                f"{topology.name} would refuse all of {self.refused.total():,} records of"
                f" {topology.source!r} that were looked at ({reasons_text(self.refused)}), such as"
                f" the one of partition {record.partition}, offset {record.offset}:"
                f" {refusal.reason.value}, {refusal.detail}.",
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
    values = [record.value for record in found]
    stamps = [record.timestamp_ms for record in found]
    decoder = EventDecoder(topology, schemas=schemas)
    columns = decoder.decode(values, [record.key for record in found], stamps)
    if not topology.is_sequence:
        columns = refuse_future(columns, stamps, topology.ahead_ms)
    refused = Counter(refusal.reason for refusal in columns.refusals)
    example = None
    if refused:
        most = refused.most_common(1)[0][0]
        first = next(refusal for refusal in columns.refusals if refusal.reason is most)
        example = found[first.row], first
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
    )


def _events(
    topology: Topology, values: Sequence[bytes | None], schemas: SourceSchemas
) -> list[SampledEvent]:
    """Return the records that are JSON objects, or are translated to one from another format."""
    conditions = StructConditions(topology, record_type(topology))
    translate = None
    if topology.source_format != "json":
        translate = translation_of(topology, schemas)
    events = []
    for value in values:
        try:
            text = value if value is None or translate is None else translate(value)
            fields = msgspec.json.decode(text or b"")
        except (*NOT_JSON, NotReadableError, UnusableSchemaError):
            continue
        if not isinstance(fields, dict):
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
    if stamps and all(0 < stamp < EARLIEST_TIME_MS <= 1_000 * stamp for stamp in stamps):
        return (
            f"The Kafka timestamps of the records are of 1970 ({stamps[0]} ms): they seem to be"
            " seconds, and Kafka's are milliseconds. Have the producer write these. "
        )
    path = topology.time_path
    if path is None or topology.is_sequence:
        return ""
    values = [_value(event.fields, path) for event in events]
    formats = Counter(time_format(value) for value in values)
    if not formats or topology.time_format in formats:
        return ""
    likeliest, count = formats.most_common(1)[0]
    if likeliest is None or 2 * count <= len(values):
        return ""
    times = TIME_FORMATS[likeliest]
    example = next(value for value in values if time_format(value) == likeliest)
    if not times.is_text and times.to_ms([example], 1)[0] > max(stamps) + topology.ahead_ms:
        return ""  # Digits of a date, 2025112511, look like seconds of a later year.
    return (
        f"{field_text(path)} seems to have {TIME_FORMATS[likeliest].text}: write"
        f' time_format = "{likeliest}". '
    )


def _value(fields: Mapping[str, object], path: FieldPath) -> object:
    value: object = fields
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
