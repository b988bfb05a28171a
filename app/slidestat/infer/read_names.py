"""Find the names that a declaration reads, and those of them that no record of a sample has.

An event is evidence for a name if it has it, or has the object in which it would be; null in place
of an object around it is no evidence. Names are looked for where a worker would look: those of
`where` in all records, others in the events that it takes, those of a statistic with a condition in
the events that this takes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.nodes import Call, Node, fields_of
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.record_type import reads_key
from slidestat.errors import near_name

# In place of a condition of `columns.conditions`: all records; the events that `where` takes.
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
    """A name that a declaration reads: in which of its fields it is written, and of which events it
    is read. Without one that `is_needed` a record is refused; one that `may_lack` is expected to be
    absent at times, as an expression asks for that.
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
    """A name that is missing in all of the `events` events that are evidence for it; `near` is the
    likeliest of the names that they have.
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
    """Return the names that are in no event from which they are read, if any event is evidence for
    them.
    """
    absent = []
    for name in read_names(topology):
        read = [it.fields for it in events if any(map(it.is_read_by, name.readers))]
        told = [_tells(fields, name.path) for fields in read]
        if any(told) or told.count(False) == 0:
            continue
        known = dict.fromkeys(text for fields in read for text in names_in(fields))
        near = near_name(field_text(name.path), known)
        absent.append(AbsentName(name, told.count(False), near))
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
    """Return whether an event has a field; None where it does not tell."""
    for name in path:
        if value is None:
            return None
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def names_in(fields: Mapping[str, object], above: FieldPath = ()) -> Iterator[str]:
    """Yield the names of an event's fields as a declaration has them, those of objects before those
    in them.
    """
    for name, value in fields.items():
        yield _declared((*above, name))
        if isinstance(value, dict) and len(above) < _DEEPEST:
            yield from names_in(value, (*above, name))


def _declared(path: FieldPath) -> str:
    """Return a path as a declaration has it: a list where a name has a dot."""
    if any("." in name for name in path):
        return f"'{msgspec.json.encode(path).decode()}'"
    return field_text(path)
