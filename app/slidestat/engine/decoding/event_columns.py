"""The result of decoding a batch: columns of events, refusals, and records passed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.engine.checkpoints.checkpoint import NO_TIME
from slidestat.schemas.dead_letter import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that cannot be counted: its row in the batch, and why."""

    row: int
    reason: Reason
    detail: str


def _no_rows() -> npt.NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Readable events: `rows` int64[m] in the batch, `keys` m texts, numbered or plain, `times`
    int64[m], `numbers` float64[m] and `items` m texts for each of the topology's columns, NaN and
    null where an event lacks the field, `conditions` bool[m] for each of its conditions; the
    refusals; and the other rows of the batch, which the topology does not count, `passed_over`
    int64[p], with their times, NO_TIME where they have none.
    """

    rows: npt.NDArray[np.int64]
    keys: pa.Array
    times: npt.NDArray[np.int64]
    numbers: tuple[npt.NDArray[np.float64], ...]
    items: tuple[pa.Array, ...]
    refusals: list[Refusal]
    conditions: tuple[npt.NDArray[np.bool_], ...] = ()
    passed_over: npt.NDArray[np.int64] = field(default_factory=_no_rows)
    passed_over_times: npt.NDArray[np.int64] = field(default_factory=_no_rows)


def refuse_future(columns: EventColumns, timestamps: npt.ArrayLike, ahead: int) -> EventColumns:
    """Refuse the events whose time lies more than `ahead` ms after their record's timestamp; what
    is passed over has no time there.

    `timestamps` are those of all records of the batch; one that is not positive is ignored.
    """
    stamps = np.asarray(timestamps, np.int64)
    by, wrong = _ahead(columns.times, stamps[columns.rows], ahead)
    _, no_times = _ahead(columns.passed_over_times, stamps[columns.passed_over], ahead)
    if no_times.any():
        times = np.where(no_times, NO_TIME, columns.passed_over_times)
        columns = replace(columns, passed_over_times=times)
    if not wrong.any():
        return columns
    refusals = [
        Refusal(row, Reason.FROM_THE_FUTURE, f"{ms} ms after the record's own timestamp")
        for row, ms in zip(columns.rows[wrong].tolist(), by[wrong].tolist(), strict=True)
    ]
    return without(columns, dict(zip(np.flatnonzero(wrong).tolist(), refusals, strict=True)))


def _ahead(
    times: npt.NDArray[np.int64], stamps: npt.NDArray[np.int64], ahead: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return by how much times lie after their timestamps, and where that is too much."""
    by = times - stamps
    return by, (by > ahead) & (stamps > 0)


def without(
    columns: EventColumns,
    errors: Mapping[int, Refusal],
    others: Sequence[int] | npt.NDArray[np.int64] = (),
) -> EventColumns:
    """Return the columns without the events at the places of `errors`, which are refused, and at
    `others`.
    """
    kept = np.ones(len(columns.rows), bool)
    kept[[*errors]] = False
    kept[np.asarray(others, np.int64)] = False
    if kept.all():
        return columns
    places = np.flatnonzero(kept)
    taken = pa.array(places)
    return replace(
        columns,
        rows=columns.rows[places],
        keys=columns.keys.take(taken),
        times=columns.times[places],
        numbers=tuple(column[places] for column in columns.numbers),
        items=tuple(column.take(taken) for column in columns.items),
        refusals=sorted([*columns.refusals, *errors.values()], key=lambda refusal: refusal.row),
        conditions=tuple(column[places] for column in columns.conditions),
    )
