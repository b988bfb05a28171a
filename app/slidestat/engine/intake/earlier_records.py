"""Records that were read before a statistic was added, and are read again after a restart.

They were judged without it: one that it would refuse was counted, and must be again, with all that
others read of it. So they are read and judged as they were, and what the new statistic alone reads,
and cannot, is missing. It begins behind them, but for one that lay far ahead and waits.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slidestat.declare.topology import WITHOUT_READERS, Topology
from slidestat.engine.checkpoints.checkpoint import Slots
from slidestat.engine.checkpoints.kept_statistics import fields_of
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.event_columns import EventColumns
from slidestat.engine.quota import Quota
from slidestat.engine.records import RecordBatch

_T = TypeVar("_T")


class Part(NamedTuple):
    """Records that were judged alike, their columns where they are known, and the quotas of keys by
    which they were charged, None for those of the topology.
    """

    batch: RecordBatch
    columns: EventColumns | None
    quota: Quota | None = None


class _Before(NamedTuple):
    """The judge of records before a change: making it costs more than reading a small batch."""

    topology: Topology
    decoder: EventDecoder
    quota: Quota


class EarlierRecords:
    """A reader of the records before a change of statistics, as they were read before it."""

    def __init__(self, topology: Topology, slots: Slots, decoder: EventDecoder) -> None:
        self._topology = topology
        self._slots = slots
        self._decoder = decoder
        self._changes = sorted({slot.first_offset for slot in slots if slot.meaning} - {0})
        # Meanings by the change that came after the records.
        self._before: dict[int, _Before | None] = {}

    def parts(
        self, batch: RecordBatch, decoded: EventColumns | None, next_offset: int
    ) -> Iterator[Part]:
        """Yield a batch and its columns, where they are known; split where some of it lies before a
        change.

        `next_offset` is the first that was not read since the restart.
        """
        last = self._changes[-1] if self._changes else 0
        if not len(batch) or batch.offsets[0] >= last:
            yield Part(batch, decoded)
            return
        batch = batch.since(next_offset)
        while len(batch) and (offset := int(batch.offsets[0])) < last:
            change = next(it for it in self._changes if it > offset)
            yield self._as_before(batch.until(change) or batch, change)
            batch = batch.since(change)
        if len(batch):
            yield Part(batch, None)

    def _judging_before(self, change: int) -> "_Before | None":
        if change not in self._before:
            topology = _judged_before(self._topology, self._slots, change)
            before = None
            if topology is not None:
                quota = Quota(self._topology, charging=topology)
                before = _Before(topology, self._decoder.of(topology), quota)
            self._before[change] = before
        return self._before[change]

    def _as_before(self, batch: RecordBatch, change: int) -> Part:
        before = self._judging_before(change)
        if before is None:
            return Part(batch, None)
        read = before.decoder.decode_batch(batch)
        now = self._decoder.decode_batch(batch)
        # The place of each event among those that can be read now.
        places = np.searchsorted(now.rows, read.rows)
        places[places == len(now.rows)] = 0
        is_there = now.rows[places] == read.rows if len(now.rows) else np.zeros(len(places), bool)
        own, old = self._topology.columns, before.topology.columns
        paths = [[column.path for column in it.numbers] for it in (own, old)]
        names = [[column.path for column in it.items] for it in (own, old)]
        mask = pa.array(places, mask=~is_there)
        columns = replace(
            read,
            numbers=_merged(
                paths, [_taken(it, places, is_there, np.nan) for it in now.numbers], read.numbers
            ),
            items=_merged(names, [it.take(mask) for it in now.items], read.items),
            conditions=_merged(
                [own.conditions, old.conditions],
                [_taken(it, places, is_there, False) for it in now.conditions],
                read.conditions,
            ),
        )
        return Part(batch, columns, before.quota)


def _merged(
    names: Sequence[Sequence[Hashable]], now: Sequence[_T], before: Sequence[_T]
) -> tuple[_T, ...]:
    """Return the columns of `names[0]`; where they are in `names[1]`, as they were read before."""
    read = dict(zip(names[1], before, strict=True))
    return tuple(read.get(name, column) for name, column in zip(names[0], now, strict=True))


def _taken(
    column: npt.NDArray[Any],
    places: npt.NDArray[np.int64],
    there: npt.NDArray[np.bool_],
    lacks: Any,
) -> npt.NDArray[Any]:
    """Return the values at these places, and `lacks` where there are none."""
    taken = np.full(len(places), lacks, column.dtype)
    taken[there] = column[places[there]]
    return taken


def _judged_before(topology: Topology, slots: Slots, change: int) -> Topology | None:
    """Return the topology by which records before the offset `change` were judged: without
    statistics that were added there or later; None if that is the topology itself.
    """
    later = {slot.meaning for slot in slots if slot.first_offset >= change}
    pairs = zip(topology.statistics, topology.runners, strict=True)
    kept = [statistic for statistic, runner in pairs if runner.meaning not in later]
    if len(kept) == len(topology.statistics):
        return None
    fields = zip(topology.computed, topology.computed_fields, strict=True)
    read = {topology.key_path, *fields_of(topology, kept)}
    return replace(
        topology,
        statistics=kept,
        computed=[text for text, path in fields if path in read],
        **WITHOUT_READERS,
    )
