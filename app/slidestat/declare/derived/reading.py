"""The fields that are read of each event, and the conditions under which they are."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeVar

from slidestat.declare.columns import Column, Columns
from slidestat.declare.derived.times import EventTimes
from slidestat.declare.expressions.computed_field import ComputedField, computed_fields
from slidestat.declare.expressions.expression import Expression, condition_of
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import (
    RECORD_KEY,
    RECORD_TIMESTAMP,
    Field,
    FieldPath,
    field_path,
    field_text,
    path_unless,
)
from slidestat.declare.statistics import Statistic

_What = TypeVar("_What")

TOMBSTONES = ("pass-over", "dead-letter")
SOURCE_FORMATS = ("json", "avro", "protobuf", "json-schema")
_BINARY = ("avro", "protobuf")


class ReadFields(EventTimes):
    """The fields of events that a topology reads."""

    key_field: Field
    time_field: Field
    value_field: Field
    where: str
    computed: Sequence[str]
    tombstones: str
    source_format: str
    source_schema: str
    source_message: str
    statistics: Sequence[Statistic]

    @cached_property
    def key_path(self) -> FieldPath | None:
        """The field of the key; None where it is the record's own."""
        return path_unless(self.key_field, "key_field", RECORD_KEY)

    @cached_property
    def time_path(self) -> FieldPath | None:
        """The field of the event time; None where it is the record's timestamp."""
        return path_unless(self.time_field, "time_field", RECORD_TIMESTAMP)

    @cached_property
    def value_path(self) -> FieldPath:
        return field_path(self.value_field, "value_field")

    @property
    def key_name(self) -> str:
        """Return the key's name for messages."""
        return RECORD_KEY if self.key_path is None else field_text(self.key_path)

    @property
    def key_expression(self) -> str:
        """The expression that computes the key, always written the same way; "" for the key of a
        field.
        """
        computed = self.computed_fields.get(self.key_path or ())
        return "" if computed is None else computed.text

    @property
    def time_name(self) -> str:
        """Return the event time's name for messages."""
        return RECORD_TIMESTAMP if self.time_path is None else field_text(self.time_path)

    @property
    def passes_tombstones_over(self) -> bool:
        """Return whether a record without a value is skipped, and makes no dead letter."""
        return self.tombstones == TOMBSTONES[0]

    @property
    def reads_binary(self) -> bool:
        """Return whether the source's format needs a schema to be read."""
        return self.source_format in _BINARY

    @property
    def takes_registry(self) -> bool:
        """Return whether the schemas of the source's records are in a registry."""
        return self.reads_binary and not self.source_schema

    @property
    def condition(self) -> Expression | None:
        """The condition on its events, None if it counts all."""
        return condition_of(self.where, "where")

    @cached_property
    def computed_fields(self) -> dict[FieldPath, ComputedField]:
        """Return the fields that are computed, by their paths."""
        return computed_fields(self.computed, "computed")

    @property
    def computed_texts(self) -> list[str]:
        """Return its computed fields, always written the same way, in the order of their names."""
        return [field.text for _, field in sorted(self.computed_fields.items())]

    @cached_property
    def asked_fields(self) -> list[tuple[FieldPath, Sort]]:
        """Return the fields that expressions read, each path with its sort."""
        own = [] if self.condition is None else [self.condition]
        computed = (known.expression for known in self.computed_fields.values())
        known = (*own, *self.columns.conditions, *computed)
        return [field for expression in known for field in expression.fields]

    @cached_property
    def expression_fields(self) -> dict[FieldPath, set[Sort]]:
        """Return the fields that expressions read, each path with the sorts that it is read as."""
        found: dict[FieldPath, set[Sort]] = {}
        for path, sort in self.asked_fields:
            found.setdefault(path, set()).add(sort)
        return found

    @cached_property
    def columns(self) -> Columns:
        """Return the fields that are read of each event besides its key and time."""
        conditions = (statistic.condition for statistic in self.statistics)
        return Columns.of(
            chain.from_iterable(map(self.columns_of, self.statistics)),
            (condition for condition in conditions if condition is not None),
        )

    @cached_property
    def chosen_columns(self) -> dict[int, tuple[int, ...]]:
        """The number columns that no statistic reads of all events, by their places: the places of
        the conditions under which it is read.
        """
        readers = (
            (self.columns.index(column), statistic.condition)
            for statistic in self.statistics
            for column in self.columns_of(statistic)
            if column.is_number
        )
        return _chosen(readers, self.columns.conditions)

    @cached_property
    def chosen_computed(self) -> dict[FieldPath, tuple[int, ...]]:
        """The computed fields that are not read of all events, by their paths: the places of the
        conditions under which they are.
        """
        readers = (
            (column.path, statistic.condition)
            for statistic in self.statistics
            for column in self.columns_of(statistic)
            if column.path in self.computed_fields and column.path != self.key_path
        )
        return _chosen(readers, self.columns.conditions)

    @cached_property
    def filling_columns(self) -> dict[int, float]:
        """The largest value of each number column whose values can fill a window, by its place.

        Windows of events cannot be filled: fewer events have smaller limits.
        """
        if self.span_length.of_events:
            return {}
        wanted = [self.columns_of(s) for s in self.statistics if not s.is_landmark]
        paths = {column.path for column in chain.from_iterable(wanted) if _is_limited(column)}
        return {
            place: column.limits.most
            for place, column in enumerate(self.columns.numbers)
            if column.path in paths and column.limits is not None
        }

    def columns_of(self, statistic: Statistic) -> list[Column]:
        span = self.span_length
        shares = span.of_events and not statistic.is_landmark
        return [
            Column(column.path, column.limits.shared_by(span.length))
            if shares and column.limits is not None and _is_limited(column)
            else column
            for column in statistic.columns(self.value_path)
        ]


def _chosen(
    readers: Iterable[tuple[_What, Expression | None]], conditions: Sequence[Expression]
) -> dict[_What, tuple[int, ...]]:
    """Return the indexes, among the conditions, of those under which something is read; leave out
    what is read unconditionally.
    """
    found: dict[_What, list[int | None]] = {}
    for what, condition in readers:
        place = None if condition is None else conditions.index(condition)
        found.setdefault(what, []).append(place)
    return {
        what: tuple(place for place in places if place is not None)
        for what, places in found.items()
        if None not in places
    }


def _is_limited(column: Column) -> bool:
    return column.limits is not None and not column.limits.are_any
