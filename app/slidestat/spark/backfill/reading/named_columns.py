"""Which columns of files hold what a topology reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, functions as f

from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.topology import Topology

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""How many of a unit of time are a second."""


def column_of(name: str) -> Column:
    """Return the column of this very name, whatever it has of Spark's syntax."""
    return f.col("`" + name.replace("`", "``") + "`")


@dataclass(frozen=True)
class NamedColumns:
    """The names of columns: of the key, of the time, whose whole numbers count `time_unit`, and of
    each other field that statistics and expressions read. Cells `are_texts` in CSV: there a column
    of numbers is one of texts as soon as one cell is no number.
    """

    key: str
    time: str
    time_unit: str
    fields: Mapping[FieldPath, str]
    are_texts: bool = False

    @classmethod
    def of(
        cls,
        topology: Topology,
        given: Mapping[str, str],
        time_unit: str,
        *,
        are_texts: bool = False,
    ) -> "NamedColumns":
        """Return the names of a topology's columns: a field's own name where none is `given` for
        it.
        """
        fields = {path: field_text(path) for path in _paths(topology)}
        return cls(
            given.get(topology.key_name, topology.key_name),
            given.get(topology.time_name, topology.time_name),
            time_unit,
            {path: given.get(name, name) for path, name in fields.items()},
            are_texts,
        )

    def all(self) -> list[str]:
        """Return all of them, each once."""
        return list(dict.fromkeys((self.key, self.time, *self.fields.values())))


def _paths(topology: Topology) -> Iterator[FieldPath]:
    """Yield the fields that statistics and expressions read, each once, but for key and time."""
    columns = topology.columns
    read = (column.path for column in (*columns.numbers, *columns.items))
    own = (topology.key_path, topology.time_path, *topology.computed_fields)
    yield from dict.fromkeys(
        path for path in (*read, *topology.expression_fields) if path not in own
    )
