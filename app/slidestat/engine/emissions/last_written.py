"""At which ticks a key's record is written, where its figures decide that.

With `emit = "change"` the newest record of a key is to be true at every tick: for each figure, the
bounds at this tick lie within the bounds that were written last, widened by the tolerance, and the
figure is NULL if and only if it was. A tick at which that is not so is written. Lists of items have
no bounds to go by: any difference is written. With `having` a tick is written only if the condition
may hold, and once when it certainly does not hold any more.

What was written last is kept in the state of the key, so that what is written follows from the
order of the records, and crashes leave no trace:

    version u8, status u8   whether the condition could hold in the record, or that there is none
    of emit = "change", if there is a record, little-endian:
    kind 8 bytes            a digest of the names of its figures, and of the marks on them
    lower, upper f64        of each figure that is no item of a list: all lowers, then all uppers
    lists 16 bytes          a digest of the items that were listed; only where there are lists

So 2 bytes, or 10 and 16 for each figure, and 16 for all lists. Bounds are kept as they were
written: the tolerance may be changed.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from sys import float_info
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt

from slidestat.declare.alerts import figure_name
from slidestat.declare.derived import EMIT_ALWAYS, EMIT_CHANGE
from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.intervals import Intervals, Numbers
from slidestat.declare.expressions.nodes import Node
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Loss
from slidestat.engine.emissions.added_figures import AddedFigures
from slidestat.engine.emissions.emission import FigureTable
from slidestat.errors import SlidestatError
from slidestat.schemas.emission import Figure
from slidestat.synopses.core.arrays import Bools, Floats, Integers

# Larger than the relative error of two roundings.
_ROUNDING = 2.0**-50
_UNBOUNDED = np.array((-np.inf, np.inf))
_VERSION = 1
_HEAD = struct.Struct("<BB")
_KIND, _LISTS = 8, 16

# The newest record of a key: there is none; the condition could hold in it; it certainly did not;
# nothing is known, as it was written before records were kept.
_NONE, _HELD, _CEASED, _UNKNOWN = range(4)

NEVER_WRITTEN = _HEAD.pack(_VERSION, _NONE)
"""The state of a key for which nothing was written."""


def is_within(lowers: Floats, uppers: Floats, known: Floats, tolerance: Fraction) -> Bools:
    """Return bool[n]: whether all intervals float64[n, figures] lie within the `known` ones
    float64[n, figures, 2], widened by the tolerance, exactly; a NaN only within a NaN.
    """
    is_low = _is_above(lowers, known[..., 0], tolerance)
    is_high = _is_above(-uppers, -known[..., 1], tolerance)
    within: Bools = np.all(is_low & is_high, axis=1)
    return within


def _is_above(lowers: Floats, known: Floats, tolerance: Fraction) -> Bools:
    """Return where lowers >= known - tolerance * |known|, or both are NaN."""
    found: Bools = (lowers >= known) | (np.isnan(lowers) & np.isnan(known))
    if not tolerance:
        return found
    with np.errstate(all="ignore"):
        limits = known * np.where(known > 0, float(1 - tolerance), float(1 + tolerance))
        # Two roundings: of the factor, and of the product.
        off = _ROUNDING * np.abs(limits) + float_info.min
        found |= lowers > limits + off
        is_near = ~found & (lowers >= limits - off) & np.isfinite(lowers) & np.isfinite(known)
    for place in zip(*np.nonzero(is_near), strict=True):
        end = Fraction(known[place])
        found[place] = Fraction(lowers[place]) >= end - tolerance * abs(end)
    return found


@dataclass(frozen=True, slots=True)
class Candidates:
    """The answers of n queries: `groups` int64[n], each one's place among the keys, rising; `lives`
    int64[n], how often its key was forgotten before; `ticks` int64[n], rising for each key;
    whether the key may be written there, bool[n]; and whether it is where the condition holds,
    bool[n], as far as figures do not decide.
    """

    groups: Integers
    lives: Integers
    ticks: Integers
    is_shown: Bools
    is_due: Bools


@dataclass(frozen=True, slots=True)
class Chosen:
    """The queries that are written, bool[n]; and of the keys of which something else is kept now,
    int64[k] each: their places, the bytes, and the first query that changed them.
    """

    wanted: Bools
    groups: Integers
    kept: list[bytes]
    first: Integers


class _Newest:
    """The newest records of G keys, while their queries go by."""

    def __init__(self, keys: int, figures: int) -> None:
        self.status = np.full(keys, _UNKNOWN, np.int8)
        self.kinds = np.zeros((keys, _KIND), np.uint8)
        self.bounds = np.full((keys, figures, 2), np.nan)
        self.lists = np.zeros((keys, _LISTS), np.uint8)


class LastWritten:
    """A chooser of the ticks at which keys are written, by what was written of them last."""

    def __init__(
        self, topology: Topology, starts: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Create the chooser; `starts` are the times from which added figures count, by name."""
        self._figures = FigureTable(topology, topology.window_lengths, starts)
        self._size = len(self._figures.numbered)
        self._added = AddedFigures(topology, starts)
        self._reach = topology.emission_reach
        self._by_change = topology.emit == EMIT_CHANGE
        self._always = topology.emit == EMIT_ALWAYS
        self._tolerance = topology.tolerated
        self._has_lists = self._figures.numbers is None
        models = self._figures.numbered.models()
        self._derives = bool(topology.derived_figures)
        self._is_derived = np.array([model.derived for model in models], bool)
        self._names = repr(
            (
                [_identity(model) for model in models],
                *([figure.text for figure in topology.derived_figures],) * self._derives,
                *topology.calendar_windows.values(),
                topology.labels,
                sorted(starts.items()),
            )
        )
        self._kinds: dict[tuple[int, bool], bytes] = {}
        self._having = topology.condition_to_emit
        self.has_condition = self._having is not None
        self._past = topology.past_figures
        self._columns = {name: places[0] for name, places in topology.names_over_windows.items()}
        # A forgotten key may have left a record in which the condition holds, and is not known when
        # it comes back: it is written once, then, where the condition does not hold.
        self._may_be_left = self._having is not None and self._may_hold_of_forgotten(
            self._having, topology
        )

    def choose(
        self,
        kept: Sequence[bytes],
        is_new: Bools,
        lives: Integers,
        asked: Candidates,
        answered: Mapping[Runner, Answered],
        loss: Loss | None,
        unknown_until: int,
    ) -> Chosen:
        """Choose the queries that are written. `kept` is what is kept of each of G keys, and
        `is_new` bool[G] are those that had no state; `lives` int64[G] is how often each was
        forgotten in all; up to the tick `unknown_until` it is not known what was written.
        """
        groups, rows = asked.groups, len(asked.groups)
        table = self._table(answered, rows)
        holds = self._may_hold(table, answered)
        newest = self._decoded(kept, is_new)
        bounds = self._bounds(table)
        kinds = self._kinds_of(asked.ticks, loss)
        lists = self._lists(answered, rows)
        wanted = np.zeros(rows, bool)
        starts = np.searchsorted(groups, np.arange(len(kept) + 1))
        lengths = np.diff(starts)
        first = np.full(len(kept), -1)
        life = np.zeros(len(kept), np.int64)
        for step in range(int(lengths.max(initial=0))):
            keys = np.flatnonzero(lengths > step)
            row = starts[keys] + step
            is_reborn = asked.lives[row] != life[keys]
            life[keys] = asked.lives[row]
            newest.status[keys[is_reborn]] = _NONE
            status = newest.status[keys]
            if self._by_change:
                differs = status != _HELD
                differs |= (newest.kinds[keys] != kinds[row]).any(axis=1)
                differs |= (newest.lists[keys] != lists[row]).any(axis=1)
                differs |= ~is_within(
                    bounds[row, :, 0], bounds[row, :, 1], newest.bounds[keys], self._tolerance
                )
            else:
                differs = asked.is_due[row] | self._always
            has_ended = (status == _HELD) | (status == _UNKNOWN)
            has_ended |= (status == _NONE) & self._may_be_left
            written = np.where(holds[row], differs, has_ended)
            is_known = asked.ticks[row] > unknown_until
            written &= is_known & asked.is_shown[row]
            wanted[row[written]] = True
            now = np.where(written, np.where(holds[row], _HELD, _CEASED), status)
            now[~is_known] = _UNKNOWN
            newest.status[keys] = now
            is_other = (now != status) | (written & self._by_change)
            is_first = is_other & (first[keys] < 0)
            first[keys[is_first]] = row[is_first]
            keys, row = keys[written], row[written]
            newest.kinds[keys], newest.lists[keys] = kinds[row], lists[row]
            newest.bounds[keys] = bounds[row]
        # Nothing has been written for a key since it began anew.
        newest.status[lives > life] = _NONE
        changed = np.flatnonzero(first >= 0)
        return Chosen(wanted, changed, self._encoded(newest, changed), first[changed])

    def _bounds(self, table: Floats) -> Floats:
        """Return the bounds of figures, float64[n, figures, 2], from estimates, lowers and uppers:
        NaN where a figure does not exist. Where one has no bound, that is the estimate, and of a
        derived one infinite: it may be anything.
        """
        estimates, bounds = table[..., :1], table[..., 1:]
        ends = np.where(self._is_derived[:, np.newaxis], _UNBOUNDED, estimates)
        bounds = np.where(np.isnan(bounds), ends, bounds)
        return np.where(np.isnan(estimates), np.nan, bounds)

    def _table(self, answered: Mapping[Runner, Answered], rows: int) -> Floats:
        if not self._size:
            return np.empty((rows, 0, 3))
        return self._figures.numbered.table(answered)

    def _may_hold(self, table: Floats, answered: Mapping[Runner, Answered]) -> Bools:
        """Return bool[n]: where the condition may hold."""
        if self._having is None:
            return np.ones(len(table), bool)
        past = {call: figure.of(answered) for call, figure in self._past.items()}
        truths = self._figures.numbered.truths(self._having, table, self._columns, past)
        return truths.may_be_true

    def _kinds_of(self, ticks: Integers, loss: Loss | None) -> npt.NDArray[np.uint8]:
        """Return the kind of the record of each tick, uint8[n, 8]."""
        lost = np.zeros(len(ticks), bool) if loss is None else loss.concerns(ticks, self._reach)
        stages = self._added.stages(ticks)
        found = np.empty((len(ticks), _KIND), np.uint8)
        for stage, is_lossy in {*zip(stages.tolist(), lost.tolist(), strict=True)}:
            kind = self._kinds.setdefault((stage, is_lossy), self._kind(stage, is_lossy))
            found[(stages == stage) & (lost == is_lossy)] = np.frombuffer(kind, np.uint8)
        return found

    def _kind(self, stage: int, is_lossy: bool) -> bytes:
        text = f"{self._names} {stage} {is_lossy}"
        return hashlib.blake2b(text.encode(), digest_size=_KIND).digest()

    def _lists(self, answered: Mapping[Runner, Answered], rows: int) -> npt.NDArray[np.uint8]:
        """Return a digest of the listed items of each answer, uint8[n, 16]."""
        found = np.zeros((rows, _LISTS), np.uint8)
        if self._has_lists and self._by_change:
            encode = msgspec.json.encode
            for row, figures in enumerate(self._figures.listed(answered)):
                digest = hashlib.blake2b(encode(figures), digest_size=_LISTS).digest()
                found[row] = np.frombuffer(digest, np.uint8)
        return found

    def _may_hold_of_forgotten(self, having: Expression, topology: Topology) -> bool:
        """Return whether the condition may hold of a key with empty windows of time."""
        if topology.forget_ms is None:
            return False
        empties = {
            label
            for label, statistic in zip(topology.labels, topology.statistics, strict=True)
            if KINDS.get(statistic.kind) is type(statistic) and statistic.has_windows
        }
        of_time = not topology.span_length.of_events
        models = self._figures.numbered.models()

        def of_forgotten(place: int) -> Numbers:
            # A number of no events is 0 or NULL.
            reach = 0.0 if of_time and models[place].statistic in empties else np.inf
            return Numbers.within(reach, 1)

        past: dict[Node, Numbers] = dict.fromkeys(self._past, Numbers.within(0.0, 1))
        figures = {
            path: self._figures.numbered.of_place(
                self._columns[figure_name(path)], 1, of_forgotten, past
            )
            for path in having.paths
        }
        return bool(Intervals(1, figures, past).truths(having.node).may_be_true[0])

    def _decoded(self, kept: Sequence[bytes], is_new: Bools) -> _Newest:
        """Return the newest records from their bytes; raises SlidestatError for any others."""
        newest = _Newest(len(kept), self._size)
        newest.status[is_new] = _NONE
        whole = self._whole_bytes
        places = [place for place, stored in enumerate(kept) if stored]
        for place in places:
            version, status = kept[place][: _HEAD.size].ljust(_HEAD.size, b"\0")
            if version > _VERSION:
                raise SlidestatError(
                    f"What is stored of the last record has version {version}.",
                    "Run the version that wrote it, or reset the topology's state.",
                )
            if version < _VERSION or status > _CEASED:
                raise SlidestatError(
                    "What is stored of the last record is damaged.",
                    "Delete the worker's data folder; it is restored from the changelog.",
                )
            newest.status[place] = status
        places = [place for place in places if len(kept[place]) == whole]
        if not places or not self._by_change:
            return newest
        data = np.frombuffer(b"".join([kept[place] for place in places]), np.uint8)
        data = data.reshape(len(places), whole)[:, _HEAD.size :]
        newest.kinds[places] = data[:, :_KIND]
        end = _KIND + 16 * self._size
        numbers = np.ascontiguousarray(data[:, _KIND:end]).view("<f8")
        newest.bounds[places] = numbers.reshape(len(places), 2, self._size).transpose(0, 2, 1)
        if self._has_lists:
            newest.lists[places] = data[:, end:]
        return newest

    @property
    def _whole_bytes(self) -> int:
        return _HEAD.size + _KIND + 16 * self._size + _LISTS * self._has_lists

    def _encoded(self, newest: _Newest, groups: Integers) -> list[bytes]:
        """Return what is kept of the newest records of some keys; b"" where nothing is known."""
        parts = [newest.kinds[groups]]
        bounds = newest.bounds[groups].transpose(0, 2, 1).reshape(len(groups), 2 * self._size)
        parts.append(np.ascontiguousarray(bounds, "<f8").view(np.uint8))
        if self._has_lists:
            parts.append(newest.lists[groups])
        rows = np.concatenate(parts, axis=1)
        found = []
        for row, status in zip(rows, newest.status[groups].tolist(), strict=True):
            has_figures = self._by_change and status in (_HELD, _CEASED)
            is_nothing = status == _UNKNOWN or (status == _NONE and self._having is None)
            head = b"" if is_nothing else _HEAD.pack(_VERSION, status)
            found.append(head + row.tobytes() if has_figures else head)
        return found


def _identity(figure: Figure) -> tuple[object, ...]:
    return (
        *(figure.statistic, figure.window_ms, figure.window_events),
        *(figure.quantile, figure.at_least, figure.below, figure.item),
    )
