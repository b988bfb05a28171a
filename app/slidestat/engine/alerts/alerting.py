"""The alerts of a partition: the state of each for a key, tick by tick, and the changes
that are emitted.

A key's alerts change only at ticks, in their order, starting from what its state has of them; so
they follow from the order of the records, as the emissions do. A condition that holds waits until
it has held `for` ticks in a row, then the alert fires; it is resolved by its resolution, by an
empty window of which the condition does not hold, or when the key is forgotten: at that tick no
alert begins.
"""

import hashlib
import struct
from collections.abc import Container, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import fields, replace

from slidestat.declare.alerts import AFTER, BEFORE, Alert, figure_name
from slidestat.declare.derived import PastFigure
from slidestat.declare.expressions.changes import ChangingFigure
from slidestat.declare.expressions.evidence import Change
from slidestat.declare.expressions.expression import Expression
from slidestat.declare.expressions.intervals import Numbers, Truths
from slidestat.declare.expressions.nodes import Node, reads_of
from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.declare.times.calendar_windows import starts_at
from slidestat.declare.topology import Topology
from slidestat.engine.alerts.unconfirmed import Unconfirmed
from slidestat.engine.checkpoints.checkpoint import Loss
from slidestat.engine.emissions.added_figures import WHOLE, AddedFigures
from slidestat.engine.emissions.emission import (
    FigureTable,
    NumberedFigures,
    at_end,
    joint_confidence,
)
from slidestat.engine.emissions.output_records import AlertRecord
from slidestat.engine.keys.key_timers import AlertTicks, Place
from slidestat.engine.keys.states import Beside
from slidestat.errors import SlidestatError
from slidestat.schemas.alert import (
    AlertChange,
    AlertState,
    Certainty,
    FoundChange,
    Measured,
    alert_key,
)
from slidestat.schemas.emission import Figure, LostRecords
from slidestat.schemas.sequence import kinds
from slidestat.synopses.core.arrays import Bools, Floats, Integers

# The state of a key's alerts, and its bytes in the key's state.
#
#   version u8, then of each alert that waits or fires, in order of id, little-endian
#   id 8 bytes     of its name
#   phase u8       bit 0: fires; bit 1: was only likely so far
#   ticks u32      for so many ticks in a row it has been true
#   since i64      the window end of the first of these; of one that fires, at which it began to
#
# An alert that neither waits nor fires has no entry, and a key without entries no bytes. Entries of
# alerts that are no longer declared are dropped when the bytes are next written.

_VERSION = 1
_HEAD = struct.Struct("<B")
_ENTRY = struct.Struct("<8sBIq")
_FIRES, _LIKELY = 1, 2


class Standing(NamedTuple):
    """An alert of a key that waits for more ticks, or fires."""

    is_firing: bool
    is_certain: bool
    ticks: int
    since: int


@cache
def alert_id(name: str) -> bytes:
    """Return the 8 bytes that identify an alert, by its name."""
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def encode_standings(standings: Mapping[bytes, Standing]) -> bytes:
    """Return the bytes of standings by the alerts' ids; b"" if there are none."""
    if not standings:
        return b""
    entries = (
        _ENTRY.pack(
            name,
            _FIRES * standing.is_firing + _LIKELY * (not standing.is_certain),
            standing.ticks,
            standing.since,
        )
        for name, standing in sorted(standings.items())
    )
    return b"".join((_HEAD.pack(_VERSION), *entries))


def decode_standings(data: bytes) -> dict[bytes, Standing]:
    """Read standings; raises SlidestatError for bytes that are none."""
    if not data:
        return {}
    (version,) = _HEAD.unpack_from(data)
    if version > _VERSION:
        raise SlidestatError(
            f"A stored state of alerts has version {version}.",
            "Run the version that wrote it, or reset the topology's state.",
        )
    if (len(data) - _HEAD.size) % _ENTRY.size:
        raise SlidestatError(
            "A stored state of alerts is damaged.", "Delete the worker's data folder."
        )
    return {
        name: Standing(bool(phase & _FIRES), not phase & _LIKELY, ticks, since)
        for name, phase, ticks, since in _ENTRY.iter_unpack(data[_HEAD.size :])
    }


# The alerts of a topology, computed: of many emissions at once, what is true and how surely.


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome for n emissions, bool[n] each: whether the alert's condition holds and whether
    that is certain; whether the alert would be resolved, and whether that is certain. `change` is
    what it is about, if it looks for one, and `is_there` whether one is left.
    """

    holds: Bools
    holds_surely: Bools
    resolves: Bools
    resolves_surely: Bools
    change: Change | None = None
    is_there: Bools | None = None

    def found_change(
        self, row: int, tick: int, delta: float, kind: type[FoundChange]
    ) -> FoundChange | None:
        """Return the change at an emission, as a record has it; None if there is none."""
        if self.change is None or self.is_there is None or not self.is_there[row]:
            return None
        before, after = (
            Measured(*(number if np.isfinite(number) else None for number in numbers[row].tolist()))
            for numbers in (self.change.before, self.change.after)
        )
        return kind(tick - int(self.change.ages[row]), before, after, delta)


class Rule:
    """An alert over the figures of an emission, which are in `columns` of a table by the names that
    it has for them, and over the figures of the past that it reads; it fires after so many `ticks`.

    Where its condition is not true, it is resolved also by a resolution that is NULL, and by
    windows without events: no figure of those could fall any more.
    """

    def __init__(
        self,
        alert: Alert,
        ticks: int,
        columns: Mapping[str, int],
        figures: NumberedFigures,
        past: Mapping[Node, PastFigure] = MappingProxyType({}),
        changing: ChangingFigure | None = None,
    ) -> None:
        self.name = alert.name
        self.texts = alert.texts
        self.delta = alert.delta
        self.id = alert_id(alert.name)
        self.ticks = ticks
        self.columns = list(dict.fromkeys(columns.values()))
        models = figures.models()
        self.models = [models[column] for column in self.columns]
        reads = {
            (columns[name], ago)
            for asked in (alert.condition, alert.resolution)
            if asked is not None
            for path, ago in reads_of(asked.node)
            if (name := figure_name(path)) in columns
        }
        # A figure of now and that of before each have a chance of their own to miss.
        self.confidence = joint_confidence(models[column].confidence for column, _ in reads)
        self._certain = alert.certain
        self._when, self._resolve = alert.condition, alert.resolution
        self._columns = columns
        self._past = past
        # The time since the last of the windows that it reads ended.
        self.ago = max((figure.runner.ago for figure in past.values()), default=0)
        self.covered = self.models
        self._changing = changing
        if changing is not None:
            self.ago = max(self.ago, changing.beyond)
            self.covered = [*self.models, *(models[place] for place in changing.places)]
        self._figures = figures

    def figures(self, row: Floats) -> list[Figure]:
        """Return the figures that the alert reads, from the float64[figures, 3] of an emission."""
        return [
            replace(model, estimate=numbers[0], lower=numbers[1], upper=numbers[2])
            for model, numbers in zip(self.models, row[self.columns].tolist(), strict=True)
        ]

    def judge(
        self,
        table: Floats,
        is_empty: Bools,
        whole: Bools | None = None,
        answered: Mapping[Runner, Answered] = MappingProxyType({}),
    ) -> Judged:
        """Judge figures, float64[n, figures, 3]: estimates, lowers, uppers; `answered` has those of
        the past. `is_empty`, bool[n], marks windows without events. Only of those that are `whole`,
        bool[n], None for all, bounds make anything certain.
        """
        past = {call: figure.of(answered) for call, figure in self._past.items()}
        found, is_new, is_there = self._found(answered, len(table), whole)
        others = {} if found is None else _numbers_of(found, is_there)
        when = self._truths(self._when, table, past, others)
        # A firing alert resolves at half of that change, so that a value at the limit does not
        # flap.
        is_true, is_sure = when.is_true & is_there, when.surely_true & is_there
        holds, surely = is_true & is_new, is_sure & is_new
        resolves, resolves_surely = ~is_true, when.surely_not_true | ~is_there
        ends = is_empty & resolves
        if self._resolve is not None:
            other = self._truths(self._resolve, table, past, others)
            is_null = ~other.is_true & ~other.is_false
            is_surely_null = ~other.may_be_true & ~other.may_be_false
            resolves = other.is_true | ((is_null | is_empty) & resolves)
            resolves_surely = other.surely_true | ((is_surely_null | is_empty) & resolves_surely)
        if whole is not None:
            surely, resolves_surely = surely & whole, resolves_surely & whole
        if self._certain:
            judged = surely, surely, resolves_surely | ends, resolves_surely
        else:
            judged = holds, surely & holds, resolves, resolves_surely & resolves
        return Judged(*judged, found, None if found is None else is_there)

    def _found(
        self, answered: Mapping[Runner, Answered], rows: int, whole: Bools | None
    ) -> tuple[Change | None, Bools, Bools]:
        """Return the change at each emission, None if the alert looks for none, and where there is
        evidence enough to begin to fire, and to go on.
        """
        if self._changing is None:
            always = np.ones(rows, dtype=bool)
            return None, always, always
        found = self._changing.found(answered)
        needed = self._changing.needed(self.delta)
        is_whole = np.ones(rows, dtype=bool) if whole is None else whole
        return (
            found,
            (found.evidence >= needed) & is_whole,
            (found.evidence >= needed / 2) & is_whole,
        )

    def _truths(
        self,
        expression: Expression | None,
        table: Floats,
        past: Mapping[Node, Numbers],
        others: Mapping[str, Numbers],
    ) -> Truths:
        if expression is None:
            never = np.zeros(len(table), dtype=bool)
            return Truths(~never, never, ~never, never, never)
        return self._figures.truths(expression, table, self._columns, past, others)


def _numbers_of(found: Change, is_there: Bools) -> dict[str, Numbers]:
    """Return what a change is from and to; NULL where there is none."""
    return {
        name: Numbers.of(np.where(is_there[:, np.newaxis], numbers, np.nan))
        for name, numbers in ((BEFORE, found.before), (AFTER, found.after))
    }


def rules_of(topology: Topology, figures: NumberedFigures) -> list[Rule]:
    """Return the rules of a topology's alerts; `figures` are those of an emission except those of
    lists, as a table has them.
    """
    return [
        Rule(alert, ticks, read.places, figures, past, changing)
        for alert, read, ticks, past, changing in zip(
            topology.alerts,
            topology.alert_figures,
            topology.alert_ticks,
            topology.alert_past_figures,
            topology.alert_changes,
            strict=True,
        )
    ]


_SURE: float = next(field.default for field in fields(AlertChange) if field.name == "confidence")
_encode = msgspec.json.Encoder().encode


class Evaluated(NamedTuple):
    """Evaluations by key and tick, int64[n] each: the places of their keys, their ticks, the
    offsets of the records that led to them, and the times of the last events before them. Ticks
    that are not due, bool[n], are made only while an alert of the key waits or fires.
    """

    groups: Integers
    ticks: Integers
    source_offsets: Integers
    last_times: Integers
    is_due: Bools


class _Change(NamedTuple):
    """An alert that fires or is resolved."""

    state: AlertState
    is_certain: bool
    since: int


class Alerting:
    """The alerts of one source partition."""

    def __init__(
        self,
        topology: Topology,
        topic: str,
        partition: int,
        starts: Mapping[str, int] = MappingProxyType({}),
        unconfirmed: Unconfirmed | None = None,
    ) -> None:
        """Create the alerting of a partition; `starts` maps names of added figures to the times
        from which they are counted, `unconfirmed` are the provisional changes.
        """
        self._added = AddedFigures(topology, starts)
        self._calendar = topology.calendar_windows
        self._figures = FigureTable(topology, topology.window_lengths, starts).numbered
        self._rules = rules_of(topology, self._figures)
        self._topology = topology.name
        self._source = (topic, partition)
        self._kinds = kinds(is_sequence=topology.is_sequence)
        self._ticks = AlertTicks(topology)
        ago = max(rule.ago for rule in self._rules)
        longest = int(max(topology.window_lengths)) + ago
        self._longest = longest if topology.sees_span_alone else None
        # Each window with how long ago it ended. A window of last events always exists. The others
        # exist when the one that begins first does.
        of_events = topology.span_length.of_events
        self._windows = [
            []
            if of_events
            else [
                *((it, 0) for it in read.windows),
                *((it.runner.window, it.runner.ago) for it in past.values()),
            ]
            for read, past in zip(topology.alert_figures, topology.alert_past_figures, strict=True)
        ]
        self._is_provisional = False
        self.unconfirmed = unconfirmed or Unconfirmed()
        # The keys for which each alert fires.
        self.firing: dict[str, set[str]] = {rule.name: set() for rule in self._rules}

    def found(self, key: str, standings: bytes) -> bool:
        """Note the alerts that fire for a stored key; return whether one waits or fires."""
        known = self._known(standings)
        for rule in self._rules:
            if rule.id in known and known[rule.id].is_firing:
                self.firing[rule.name].add(key)
        return bool(known)

    def follow(
        self,
        keys: Sequence[str],
        standings: Sequence[bytes],
        answered: Mapping[Runner, Answered],
        evaluated: Evaluated,
        forgotten: Container[Place],
        loss: Loss | None,
    ) -> tuple[list[Beside], list[int], list[tuple[Place, AlertRecord]]]:
        """Evaluate the alerts of keys by the figures that `answered` has. Return the keys whose
        alerts have changed; the places of those of which one waits or fires; and the records of the
        changes, each with its place. `standings` are those of the keys before; at `forgotten`
        places a key ends.
        """
        if not len(evaluated.groups):
            return [], [group for group, before in enumerate(standings) if before], []
        table = self._figures.table(answered)
        judged = self._judged(table, evaluated, answered)
        concerned = self._concerned(keys, standings, judged, evaluated)
        now = {group: self._known(standings[group]) for group in np.flatnonzero(concerned).tolist()}
        lost = self._lost_at(evaluated.ticks, loss)
        since, last_ticks = dict[int, int](), dict[int, int]()
        records: list[tuple[Place, AlertRecord]] = []
        is_again = self._ticks.are_again(evaluated.ticks).tolist()
        groups, ticks, offsets, _, is_due = (column.tolist() for column in evaluated)
        for row in np.flatnonzero(concerned[evaluated.groups]).tolist():
            group, place = groups[row], (ticks[row], keys[groups[row]])
            standing = now[group]
            if not (standing or is_due[row]):
                continue
            before = dict(standing)
            told_again = self._settle(place) | (_firing(standing) if is_again[row] else set())
            for rule, one in zip(self._rules, judged, strict=True):
                change = _go_on(standing, rule, one, row, ticks[row], place in forgotten)
                if change is not None:
                    self._fires(rule.name, place[1], is_so=change.state is AlertState.FIRING)
                elif rule.id in told_again:
                    change = _as_it_is(standing.get(rule.id), one, row, ticks[row])
                else:
                    continue
                record = self._kinds.alert_change(
                    self._topology,
                    rule.name,
                    place[1],
                    place[0],
                    change.state,
                    Certainty.CERTAIN if change.is_certain else Certainty.LIKELY,
                    change.since,
                    self._figures_at(ticks[row], rule.figures(table[row])),
                    *self._source,
                    offsets[row],
                    forgotten=place in forgotten,
                    # msgspec leaves out the default itself alone.
                    confidence=_SURE if rule.confidence == _SURE else rule.confidence,
                    lost=lost[row],
                    provisional=self._is_provisional,
                    change=one.found_change(row, ticks[row], rule.delta, self._kinds.found_change)
                    if change.state is AlertState.FIRING
                    else None,
                    **rule.texts,
                )
                records.append((place, self._written(record)))
            last_ticks[group] = ticks[row]
            if standing != before:
                since.setdefault(group, offsets[row])
        changed = [
            Beside(keys[group], encode_standings(now[group]), last_ticks[group], offset)
            for group, offset in since.items()
        ]
        return changed, [group for group, standing in now.items() if standing], records

    def _fires(self, alert: str, key: str, *, is_so: bool) -> None:
        """Note that an alert fires for a key, or does so no more."""
        keys = self.firing[alert]
        (keys.add if is_so else keys.discard)(key)

    def _figures_at(self, end: int, figures: Sequence[Figure]) -> list[Figure]:
        return self._added.marked(at_end(self._calendar, figures, end), end)

    def _lost_at(self, ticks: Integers, loss: Loss | None) -> list[LostRecords | None]:
        """Return for each tick the loss that its windows may lack."""
        if loss is None:
            return [None] * len(ticks)
        record = loss.as_record(self._kinds.lost_records)
        concerned = loss.concerns(ticks, self._longest).tolist()
        return [record if is_concerned else None for is_concerned in concerned]

    def _judged(
        self, table: Floats, evaluated: Evaluated, answered: Mapping[Runner, Answered]
    ) -> list[Judged]:
        """Return the outcomes of each rule."""
        return [
            rule.judge(
                table,
                self._is_empty(windows, evaluated),
                self._whole(rule, evaluated.ticks),
                answered,
            )
            for rule, windows in zip(self._rules, self._windows, strict=True)
        ]

    def _concerned(
        self,
        keys: Sequence[str],
        standings: Sequence[bytes],
        judged: Sequence[Judged],
        evaluated: Evaluated,
    ) -> Bools:
        """Return, as bool of each key, whether an alert of it may change or be taken back."""
        concerned = np.array([bool(before) for before in standings])
        for one in judged:
            concerned[evaluated.groups[one.holds & evaluated.is_due]] = True
        if self.unconfirmed.of:
            concerned |= [key in self.unconfirmed.of for key in keys]
        return concerned

    def holding(
        self, answered: Mapping[Runner, Answered], groups: Integers, ticks: Integers, is_due: Bools
    ) -> list[int]:
        """Return the places of the keys of which a condition holds at a tick that is due."""
        table = self._figures.table(answered)
        holds = np.zeros(len(groups), dtype=bool)
        for rule in self._rules:
            holds |= rule.judge(
                table, np.zeros(len(groups), dtype=bool), self._whole(rule, ticks), answered
            ).holds
        places: list[int] = np.unique(groups[holds & is_due]).tolist()
        return places

    def await_final(self, records: Sequence[AlertRecord]) -> None:
        """Note changes to be written provisionally: each is written as final at its tick."""
        for record in records:
            _, name, key, tick = msgspec.json.decode(record.key)
            self.unconfirmed.note((tick, key), alert_id(name), record)

    def _settle(self, place: Place) -> set[bytes]:
        """Return the alerts that were written provisionally at a place, which is final now."""
        provisional = set(self.unconfirmed.at(place))
        if provisional and not self._is_provisional:
            self.unconfirmed.settle(place)
        return provisional

    def provisional(self) -> "Alerting":
        """Return the same alerts for a trial, whose changes are provisional."""
        trial = copy(self)
        trial._is_provisional = True
        trial.firing = {name: set() for name in self.firing}
        return trial

    @staticmethod
    def _is_empty(windows: Sequence[tuple[int, int]], evaluated: Evaluated) -> Bools:
        """Return bool[n]: where none of these windows, each that long ago, has an event."""
        if not windows:
            return np.zeros(len(evaluated.ticks), dtype=bool)
        starts = [starts_at((window,), evaluated.ticks - ago) for window, ago in windows]
        is_empty: Bools = evaluated.last_times < np.min(starts, axis=0)
        return is_empty

    def kept(self, standings: bytes) -> bytes:
        """Return `standings` without those of alerts that are not declared."""
        return encode_standings(self._known(standings)) if standings else standings

    def _whole(self, rule: Rule, ticks: Integers) -> npt.NDArray[np.bool_] | None:
        """Return bool[n]: where all figures that the alert reads are complete; None if always."""
        if not self._added:
            return None
        return ticks - rule.ago >= max(map(self._added.whole_from, rule.covered), default=WHOLE)

    def _known(self, standings: bytes) -> dict[bytes, Standing]:
        """Return the standings of alerts that are declared."""
        stored = decode_standings(standings)
        return {rule.id: stored[rule.id] for rule in self._rules if rule.id in stored}

    def _written(self, change: AlertChange) -> AlertRecord:
        end = change.window_end_ms
        key = alert_key(change.topology, change.alert, change.key, end)
        return AlertRecord(key, _encode(change), end)


def _go_on(
    standings: dict[bytes, Standing], rule: Rule, judged: Judged, row: int, tick: int, is_end: bool
) -> _Change | None:
    """Apply an emission to an alert of a key; return the change, if it is to be emitted."""
    before = standings.get(rule.id)
    if before is not None and before.is_firing:
        if not (is_end or judged.resolves[row]):
            return None
        del standings[rule.id]
        is_certain = is_end or bool(judged.resolves_surely[row])
        return _Change(AlertState.RESOLVED, is_certain, before.since)
    if is_end or not judged.holds[row]:
        standings.pop(rule.id, None)
        return None
    is_certain = bool(judged.holds_surely[row])
    ticks, since = 1, tick
    if before is not None:
        ticks, since = before.ticks + 1, before.since
        is_certain &= before.is_certain
    if ticks < rule.ticks:
        standings[rule.id] = Standing(False, is_certain, ticks, since)
        return None
    standings[rule.id] = Standing(True, is_certain, 0, tick)
    return _Change(AlertState.FIRING, is_certain, since)


def _firing(standings: Mapping[bytes, Standing]) -> set[bytes]:
    """Return the ids of the alerts that fire."""
    return {name for name, standing in standings.items() if standing.is_firing}


def _as_it_is(standing: Standing | None, judged: Judged, row: int, tick: int) -> _Change:
    """Return the change by which something provisional is taken back: to what is so."""
    if standing is not None and standing.is_firing:
        return _Change(AlertState.FIRING, standing.is_certain, standing.since)
    is_certain = standing is not None or bool(judged.resolves_surely[row])
    return _Change(AlertState.RESOLVED, is_certain, tick)
