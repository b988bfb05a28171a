"""The fields of a topology's records, as kernels look for them."""

from dataclasses import dataclass
from math import nextafter
from typing import Any, get_args

import numpy as np

from slidestat.declare.columns import MAX_ITEM_LENGTH, Limits
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.json_scan.plan import (
    DECIMAL,
    DEEPEST_FIELD,
    FALSE,
    INNER,
    MOST_FIELDS,
    NAME_END,
    NAME_START,
    NOTHING,
    OUTER,
    TAKES,
    TEXT,
    TRUE,
    WHOLE,
    Found,
    Plan,
)
from slidestat.engine.decoding.record_type import reads_key
from slidestat.schemas.event import MAX_KEY_LENGTH

_ANY = NOTHING | TEXT | WHOLE | DECIMAL | FALSE | TRUE
_OF_SORT = {
    Sort.NUMBER: NOTHING | WHOLE | DECIMAL,
    Sort.TEXT: NOTHING | TEXT,
    Sort.TRUTH: NOTHING | FALSE | TRUE,
    Sort.ANY: _ANY,
}
_INT64 = (-(2**63), 2**63 - 1)
_NO_LIMIT = (-np.inf, np.inf)
_ANY_LENGTH = (0, 2**63 - 1)


@dataclass
class Sought:
    """A field that is looked for: the sorts of values that are plain for it, whether it must be
    there, and what is read of it: a double or an int64 within its limits, or its raw text, which
    has so many `characters` if it is a string.
    """

    takes: int = _ANY
    is_required: bool = False
    has_double: bool = False
    has_whole: bool = False
    characters: tuple[int, int] = _ANY_LENGTH
    limits: tuple[float, float] = _NO_LIMIT
    whole_limits: tuple[int, int] = _INT64


@dataclass(frozen=True)
class ScanPlan:
    """A kernel's plan, the fields that are `sought`, and where they are in what it finds."""

    plan: Plan
    sought: dict[FieldPath, Sought]
    places: dict[FieldPath, int]

    def room(self, records: int) -> Found:
        """Return empty arrays for the fields of a number of records."""
        shape = (len(self.places), records)
        return Found(
            is_plain=np.empty(records, bool),
            sorts=np.zeros(shape, np.uint8),
            starts=np.empty(shape, np.int64),
            ends=np.empty(shape, np.int64),
        )

    @classmethod
    def of(cls, topology: Topology) -> "ScanPlan | None":
        """Return the plan of a topology; None if its records have more than kernels can look for:
        times as texts, or too many fields.
        """
        if topology.time_path is not None and topology.times.is_text:
            return None
        sought = _sought(topology)
        deepest = max(map(len, sought), default=0)
        objects = {path[:depth] for path in sought for depth in range(1, len(path))}
        if len(sought) + len(objects) > MOST_FIELDS or deepest > DEEPEST_FIELD:
            return None
        return _planned(sought)


def _sought(topology: Topology) -> dict[FieldPath, Sought]:
    """Return the fields that a topology reads; each takes what suits all its readers."""
    found: dict[FieldPath, Sought] = {}
    key, time = topology.key_path, topology.time_path
    if time is not None:
        found[time] = _time(topology)
    computed = topology.computed_fields
    if key is not None and reads_key(topology):
        length = (1, MAX_KEY_LENGTH)
        found[key] = Sought(TEXT | WHOLE, is_required=True, characters=length)
    for column in (c for c in topology.columns.items if c.path not in computed):
        field = found.setdefault(column.path, Sought(characters=(0, MAX_ITEM_LENGTH)))
        field.takes &= ~DECIMAL  # It is formatted again: 1e2 is the item 100.0.
    for place, column in enumerate(topology.columns.numbers):
        if column.path in computed:
            continue
        field = found.setdefault(column.path, Sought())
        field.takes &= _OF_SORT[Sort.NUMBER]
        field.has_double = True
        limits = Limits() if place in topology.chosen_columns else column.limits or Limits()
        field.limits = (limits.least, limits.most)
    for path, sorts in topology.expression_fields.items():
        for sort in sorts:
            field = found.setdefault(path, Sought())
            field.takes &= _OF_SORT[sort]
            field.has_double |= sort is Sort.NUMBER and not field.has_whole
    for field in found.values():
        if field.is_required:
            field.takes &= ~NOTHING
        if not field.has_double:
            # Whether it is too large is not checked.
            field.takes &= ~DECIMAL
    return found


def _time(topology: Topology) -> Sought:
    kind, earliest, latest = _time_type(topology)
    if kind is int:
        limits = (int(earliest), int(latest) - 1)
        return Sought(WHOLE, is_required=True, has_whole=True, whole_limits=limits)
    below = nextafter(latest, -np.inf)
    takes = WHOLE | DECIMAL
    return Sought(takes, is_required=True, has_double=True, limits=(earliest, below))


def _time_type(topology: Topology) -> tuple[type, float, float]:
    """Return what times are read as, and their limits: from the first, and below the second."""
    kind, meta = get_args(topology.times.type)
    return kind, meta.ge, meta.lt


def _planned(sought: dict[FieldPath, Sought]) -> ScanPlan:
    tree: dict[str, Any] = {}
    for path in sought:
        inner = tree
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = {}
    # Object by object, so that the fields of each are side by side.
    objects: list[FieldPath] = [()]
    fields: dict[FieldPath, int] = {}
    firsts, outer = [0], []
    for number, around in enumerate(objects):
        inner = tree
        for name in around:
            inner = inner[name]
        for name, content in inner.items():
            fields[*around, name] = len(fields)
            outer.append(number)
            if content:
                objects.append((*around, name))
        firsts.append(len(fields))
    all_of = [sought.get(path) or _object(path, sought) for path in fields]
    names = [path[-1].encode("utf-8", "surrogatepass") for path in fields]
    table = np.empty((len(fields), 5), np.int64)
    table[:, NAME_END] = np.cumsum([len(name) for name in names])
    table[:, NAME_START] = table[:, NAME_END] - [len(name) for name in names]
    table[:, OUTER] = outer
    table[:, INNER] = [objects.index(path) if path in objects else -1 for path in fields]
    table[:, TAKES] = [field.takes for field in all_of]
    plan = Plan(
        names=np.frombuffer(b"".join(names), np.uint8),
        fields=table,
        firsts=np.array(firsts, np.int64),
        required=np.array([sum(1 << i for i, f in enumerate(all_of) if f.is_required)], np.int64),
        followers=np.full(len(fields) + len(objects), -1, np.int64),
        path=np.empty(DEEPEST_FIELD, np.int64),
    )
    return ScanPlan(plan, sought, fields)


def _object(path: FieldPath, sought: dict[FieldPath, Sought]) -> Sought:
    """Return the requirement for an object on the way to fields: it may be missing, or null, where
    all of them may.
    """
    is_required = any(
        field.is_required for other, field in sought.items() if other[: len(path)] == path
    )
    return Sought(0 if is_required else NOTHING, is_required=is_required)
