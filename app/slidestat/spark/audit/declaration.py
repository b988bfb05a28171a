"""What a topology computes, as an audit needs it: plain tables, nothing of the streaming side.

An audit recomputes what a worker said; so it takes the declaration, and shares no code with it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

Path = tuple[str, ...]
# Fields and whether they are read as items: one may be both a number and an item. Several are read
# as one item, of what each has.
ColumnName = tuple[tuple[Path, ...], bool]


class DeclaredStatistic(msgspec.Struct, frozen=True):
    """A statistic by the label of its figures; `paths` is empty if it reads times alone."""

    label: str
    kind: str
    paths: tuple[Path, ...]
    is_item: bool
    parameters: dict[str, Any]

    @property
    def column(self) -> ColumnName:
        """What it reads."""
        return self.paths, self.is_item


class Declaration(msgspec.Struct, frozen=True):
    """A topology; `span` and `windows` are in ms, or in events if `of_events`. Without a `key_path`
    keys are those of the Kafka records, without a `time_path` times are their timestamps.
    """

    name: str
    source: str
    key_path: Path | None
    time_path: Path | None
    time_format: str
    span: int
    of_events: bool
    windows: tuple[int, ...]
    every_ms: int
    lateness_ms: int
    forgets_keys: bool
    statistics: tuple[DeclaredStatistic, ...]

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """What is read of each event beside key and time, each once."""
        return tuple(dict.fromkeys(s.column for s in self.statistics if s.paths))


def declaration_of(table: Mapping[str, object]) -> Declaration:
    """The declaration in plain tables; raises msgspec.ValidationError for others."""
    return msgspec.convert(table, Declaration)
