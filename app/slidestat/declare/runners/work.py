"""Events of many keys and questions to them, as a batch gives them to each synopsis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.declare.expressions.expression import Expression
from slidestat.declare.fields import FieldPath
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.item_ids import item_ids

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class ItemColumn(NamedTuple):
    """Items of events: the different `texts`, and int64[n] `codes`, where each event's is there; -1
    for an event that has none.
    """

    texts: Sequence[str]
    codes: Int64s

    def ids(self, seed: int = 0) -> Int64s:
        """Return each event's item as a number, int64[n]: a hash of its text with a seed."""
        return item_ids(self.texts, seed)[self.codes]


@dataclass(frozen=True, slots=True)
class Work:
    """Events and queries of G groups (keys), as `synopses.core.batch.Batch` has them.

    `numbers` and `items` have the events' values of each field that is read, NaN or a code of -1
    where an event lacks it; `windows` int64[W] the lengths of the windows that each of the Q
    queries asks for; `conditions` for which events each condition holds.
    """

    starts: Int64s
    times: Int64s
    numbers: Mapping[FieldPath, Float64s]
    items: Mapping[FieldPath, ItemColumn]
    query_starts: Int64s
    query_times: Int64s
    windows: Int64s
    conditions: Mapping[Expression, npt.NDArray[np.bool_]] = field(default_factory=dict)
    _made: dict[str, Batch] = field(default_factory=dict, repr=False, compare=False)

    @property
    def batch(self) -> Batch:
        """Return the events and the queries as synopses take them: checked once for all."""
        if "all" not in self._made:
            self._made["all"] = Batch(self.starts, self.times, None, *self.queries)
        return self._made["all"]

    @property
    def queries(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return the queries as arrays."""
        return self.query_starts, self.query_times, self.windows

    def values(self, field: FieldPath) -> tuple[Int64s, Int64s, Float64s]:
        """Return starts, times and values of the events that have the field."""
        values = self.numbers[field]
        starts, times, rows = self._where(~np.isnan(values))
        return starts, times, values if rows is None else values[rows]

    def values_of(self, field: FieldPath) -> Batch:
        """Return the events that have the field, with its values, as a batch for synopses."""
        values = self.numbers[field]
        there = ~np.isnan(values)
        if there.all():
            return self.batch.holding(values)
        rows = np.flatnonzero(there)
        return self.batch.taking(rows, values[rows])

    def items_of(self, *fields: FieldPath) -> tuple[Batch, list[ItemColumn]]:
        """Return the events that have all of the fields, as a batch for synopses, and their
        items.
        """
        columns = [self.items[field] for field in fields]
        there = np.logical_and.reduce([column.codes >= 0 for column in columns])
        if there.all():
            return self.batch, columns
        rows = np.flatnonzero(there)
        chosen = [column._replace(codes=column.codes[rows]) for column in columns]
        return self.batch.taking(rows), chosen

    def weighed(self, field: FieldPath, weight: FieldPath) -> tuple[Batch, ItemColumn, Int64s]:
        """Return the events that have both fields, their items, and whole weights from 1 on."""
        items, weights = self.items[field], self.numbers[weight]
        rows = np.flatnonzero((items.codes >= 0) & ~np.isnan(weights))
        items, weights = items._replace(codes=items.codes[rows]), weights[rows]
        return self.batch.taking(rows), items, np.maximum(np.rint(weights), 1).astype(np.int64)

    def chosen(self, condition: Expression) -> "Work":
        """Return the same work over the events for which a condition holds."""
        return self._among(self.conditions[condition]) if len(self.times) else self

    def among(self, there: npt.NDArray[np.bool_]) -> "Work":
        """Return the same work over the events in the mask `there`, bool[n], with their
        conditions.
        """
        if not len(self.times) or there.all():
            return self
        conditions = {it: holds[there] for it, holds in self.conditions.items()}
        return replace(self._among(there), conditions=conditions)

    def _among(self, there: npt.NDArray[np.bool_]) -> "Work":
        starts, times, rows = self._where(there)
        if rows is None:
            return self
        return replace(
            self,
            starts=starts,
            times=times,
            numbers={path: values[rows] for path, values in self.numbers.items()},
            items={
                path: items._replace(codes=items.codes[rows]) for path, items in self.items.items()
            },
            _made={"all": self.batch.taking(rows)},
        )

    def _where(self, there: npt.NDArray[np.bool_]) -> tuple[Int64s, Int64s, Int64s | None]:
        """Return starts and times of the events in the mask `there`, and their rows; None if all
        are.
        """
        if there.all():
            return self.starts, self.times, None
        rows = np.flatnonzero(there)
        return np.searchsorted(rows, self.starts), self.times[rows], rows


def require_question(work: Work) -> None:
    """Raise SynopsisError for work with events, which a question cannot take in."""
    if len(work.times):
        raise SynopsisError("a question takes no events in")
