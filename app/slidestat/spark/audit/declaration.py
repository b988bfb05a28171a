"""A topology's declaration as an audit needs it: plain tables, nothing of the streaming side.

An audit recomputes a worker's output; so it takes the declaration, and shares no code with the
worker. A referee's declaration is that of its topology, with the streams that it answers for.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

import msgspec

from slidestat.schemas.emission import Figure
from slidestat.spark.audit.calendar import calendar_of
from slidestat.synopses.core.arrays import Integers

Path = tuple[str, ...]
# Fields, whether they are read as items (one may be both a number and an item), and the condition
# on events to be taken in, "" for all. Several fields are read as one item, of what each has.
ColumnName = tuple[tuple[Path, ...], bool, str]
# The window of a figure: the name of one of the calendar, or window_ms, and window_events.
WindowPlace = tuple[int | str | None, int | None]

# The `publish` of a topology that has one state a partition, in place of keys.
_WHOLE_PARTITIONS = "partition"

UNMARKED = ""
"""In place of a fingerprint, of emissions from before there were any."""


class DeclaredSeries(msgspec.Struct, frozen=True):
    """The fields that distinguish a statistic's figures in a window."""

    quantile: float | None
    at_least: float | None
    below: float | None
    item: str | None = None


class DeclaredStatistic(msgspec.Struct, frozen=True):
    """A statistic by the label of its figures; `paths` is empty if it reads times alone. It has a
    figure for each of `series` in each window, or once in an emission if it is not `is_windowed`;
    `series` is None if items have figures. `where` is the condition on its events, "" if it takes
    all.
    """

    label: str
    kind: str
    paths: tuple[Path, ...]
    is_item: bool
    is_landmark: bool
    series: tuple[DeclaredSeries, ...] | None
    parameters: dict[str, Any]
    where: str = ""
    has_windows: bool = True

    @property
    def is_windowed(self) -> bool:
        """Return whether it has figures in each window, and not once in an emission."""
        return self.has_windows and not self.is_landmark

    @property
    def column(self) -> ColumnName:
        """Return the column that it reads."""
        return self.paths, self.is_item, self.where

    @property
    def takes_all(self) -> bool:
        """Return whether it takes in every event, whatever is in it."""
        return not self.paths and not self.where


class DeclaredPart(msgspec.Struct, frozen=True):
    """A figure that is read: the label of its statistic, the length of its window, or the name of
    one of the calendar, None without one, which of the statistic's figures it is, and how long ago
    its window ended.
    """

    label: str
    window: int | str | None
    series: DeclaredSeries
    ago: int = 0


class DeclaredDerived(msgspec.Struct, frozen=True):
    """A figure that is computed from others, by an expression over their numbers from "0" on."""

    name: str
    expression: str
    parts: tuple[DeclaredPart, ...]


class ReadFigure(msgspec.Struct, frozen=True):
    """A figure that `having` reads by a path: of a statistic, or a derived one and its parts."""

    path: Path
    parts: tuple[DeclaredPart, ...]
    derived: str = ""


class DeclaredRanking(msgspec.Struct, frozen=True):
    """A ranking of keys by a figure, which is read as a derived one; with a condition, as that of a
    topology, and as it was written.
    """

    name: str
    by: DeclaredDerived
    order: Literal["largest", "smallest"]
    size: int
    written_having: str = ""
    having: str = ""
    having_figures: tuple[ReadFigure, ...] = ()


class Declaration(msgspec.Struct, frozen=True):
    """A topology; `span` and `windows` are in ms, or in events if `of_events`; of windows of the
    calendar of `time_zone` there are names. Without a `key_path`
    keys are those of the Kafka records, without a `time_path` times are their timestamps.
    Keys end with the span if it `forgets_keys`, else after `forget_after_ms` without an event.
    A key is emitted after its events, or after every so many of them in `every_events`.
    `computed` has the expressions of the fields that no record has, by their names. The keys that
    it would `publish` for a referee it does not emit.

    A referee answers for `parties`, a topology by its name, over all partitions of the source: for
    each key of `answers_for`, or, if it `answers_for_all`, for all events under the source's name.
    With `rankings` it writes these alone, of the keys of all partitions.
    """

    name: str
    source: str
    key_path: Path | None
    time_path: Path | None
    time_format: str
    span: int
    of_events: bool
    windows: tuple[int | str, ...]
    every_ms: int
    lateness_ms: int
    forgets_keys: bool
    statistics: tuple[DeclaredStatistic, ...]
    every_events: int = 0
    where: str = ""
    computed: tuple[tuple[str, str], ...] = ()
    tombstones: str = "pass-over"
    forget_after_ms: int | None = None
    emit: Literal["events", "windows", "always", "change"] = "events"
    tolerance: str = "0"
    having: str = ""
    having_figures: tuple[ReadFigure, ...] = ()
    derived: tuple[DeclaredDerived, ...] = ()
    time_zone: str = ""
    time_zone_rules: str = ""
    publish: tuple[str, ...] = ()
    parties: str = ""
    answers_for: tuple[str, ...] = ()
    answers_for_all: bool = False
    rankings: tuple[DeclaredRanking, ...] = ()

    @property
    def is_of_referee(self) -> bool:
        """Return whether it is the declaration of a referee's streams."""
        return bool(self.parties) and not self.rankings

    @property
    def letters_of(self) -> str:
        """The topology whose letters are the records that were refused."""
        return self.parties or self.name

    @property
    def is_sequence(self) -> bool:
        """Return whether event times, and lengths in ms, are numbers of a sequence."""
        return self.time_format == "sequence"

    @property
    def forget_ms(self) -> int | None:
        """The silence after which a key starts from nothing; None if it never does."""
        return self.span if self.forgets_keys else self.forget_after_ms

    @property
    def silences(self) -> tuple[int | str, ...]:
        """The times after its last event at which a key is emitted once more; of windows of the
        calendar their names.
        """
        forgotten = () if self.forget_after_ms is None else (self.forget_after_ms,)
        if self.of_events:
            return forgotten
        windows = self.windows if self.emit == "windows" else ()
        return *windows, self.span, *forgotten

    def emptied_at(self, times: Integers, silence: int | str) -> Integers:
        """Return int64[n]: the first tick at which each event has left the window."""
        if isinstance(silence, str):
            left = calendar_of(self.time_zone).next_starts(silence, times)
        else:
            left = times + silence
        ticks: Integers = (left // self.every_ms + 1) * self.every_ms
        return ticks

    def length_of(self, figure: Figure, end: int) -> int | None:
        """Return the length of a figure's window that ends at `end`, None for one of no time."""
        if figure.window is None or not self.time_zone:
            return figure.window_ms
        return calendar_of(self.time_zone).length(figure.window, end)

    @property
    def chooses(self) -> bool:
        """Return whether figures decide at which ticks a key is emitted."""
        return self.emit == "change" or bool(self.having)

    @property
    def asks_always(self) -> bool:
        """Return whether a key may be emitted at every tick while the span has an event of it."""
        return (self.emit == "always" or self.chooses) and not self.of_events

    @property
    def is_kept_true(self) -> bool:
        """Return whether the newest record of a key is to be true at every tick."""
        return self.emit == "change" and not self.having

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Return the columns that are read in addition to key and time, each once."""
        return tuple(dict.fromkeys(s.column for s in self.statistics if not s.takes_all))

    @property
    def reading(self) -> tuple[object, ...]:
        """The fields that determine how events are read: declarations equal in it read the same."""
        own = self.source, self.key_path, self.time_path, self.time_format, self.where
        return *own, self.computed, self.tombstones, self.columns

    @property
    def span_lengths(self) -> tuple[int | None, int | None]:
        """The (window_ms, window_events) of the span."""
        return (None, self.span) if self.of_events else (self.span, None)

    @property
    def lengths(self) -> tuple[WindowPlace, ...]:
        """The place of each window."""
        if self.of_events:
            return tuple((None, length) for length in self.windows if isinstance(length, int))
        return tuple((length, None) for length in self.windows)


def declaration_of(table: Mapping[str, object]) -> Declaration:
    """Return the declaration in plain tables; raises msgspec.ValidationError for others."""
    of = table.get("of")
    if of is None:
        return msgspec.convert(table, Declaration)
    parties = msgspec.convert(of, dict[str, Any])
    if rankings := table.get("ranking_figures"):
        names = {"name": table.get("name"), "parties": parties.get("name")}
        return msgspec.convert(parties | names | {"rankings": rankings}, Declaration)
    publish = parties.get("publish")
    is_of_all = publish == _WHOLE_PARTITIONS
    answered = {
        "name": table.get("name"),
        "parties": parties.get("name"),
        "publish": (),
        "answers_for": () if is_of_all else publish,
        "answers_for_all": is_of_all,
        # A key that comes back after a silence counts in the windows that it is in, and no more.
        "forgets_keys": not parties.get("of_events"),
        "forget_after_ms": None,
        "tolerance": "0",
        "having": "",
        "having_figures": (),
    }
    return msgspec.convert(parties | answered, Declaration)


def labels_of(declarations: Iterable[Declaration]) -> list[str]:
    """Return the names of all figures, each once: the labels of statistics, then derived ones."""
    known = list(declarations)
    labels = [s.label for d in known for s in d.statistics]
    return list(dict.fromkeys([*labels, *(it.name for d in known for it in d.derived)]))


# The ticks for which each declaration is responsible: its emissions must be there.
#
# A partition's emissions come tick by tick, so a declaration is responsible from its first tick to
# that of the next declaration. Between two that emit at different intervals, no declaration is
# responsible for the ticks after the last of the one and before the first of the other: it is not
# known which would have emitted.

FOREVER_MS = 2**62


class Charge(NamedTuple):
    """The ticks from `since_ms` to before `until_ms`."""

    since_ms: int
    until_ms: int

    def has(self, tick_ms: int) -> bool:
        """Return whether a tick is one of them."""
        return self.since_ms <= tick_ms < self.until_ms


ALWAYS = (Charge(-FOREVER_MS, FOREVER_MS),)

Charges = dict[tuple[int, str], tuple[Charge, ...]]
"""By partition and fingerprint."""


class Turn(NamedTuple):
    """A declaration's first tick after another's last one, `before_ms` (None at the beginning)."""

    partition: int
    tick_ms: int
    before_ms: int | None
    mark: str


def charges_of(turns: Iterable[Turn], every_ms: Mapping[str, int]) -> Charges:
    """Return the charges of all partitions; `every_ms` is that of each declaration."""
    found: dict[tuple[int, str], list[Charge]] = {}
    in_order = sorted(turns, key=lambda turn: turn[:2])
    for partition, those in groupby(in_order, key=lambda turn: turn.partition):
        of_one = list(those)
        starts = [-FOREVER_MS, *(turn.tick_ms for turn in of_one[1:])]
        ends = [
            following.tick_ms
            if every_ms[turn.mark] == every_ms[following.mark]
            else (following.before_ms or 0) + 1
            for turn, following in pairwise(of_one)
        ]
        for turn, start, end in zip(of_one, starts, [*ends, FOREVER_MS], strict=True):
            found.setdefault((partition, turn.mark), []).append(Charge(start, end))
    return {place: tuple(charges) for place, charges in found.items()}


def without(charges: Sequence[Charge], absences: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return the ticks of `charges` that are in none of `absences`."""
    left = list(charges)
    for gone in absences:
        left = [
            part
            for one in left
            for part in (
                Charge(one.since_ms, min(one.until_ms, gone.since_ms)),
                Charge(max(one.since_ms, gone.until_ms), one.until_ms),
            )
            if part.since_ms < part.until_ms
        ]
    return tuple(left)


# The least that a declared statistic promises: an emission that promises less breaks it.
#
# A figure is judged by the error that it states. So that a worker cannot make any figure right by
# stating a larger one, what it states is held to the parameters that were declared.

# Allowed for the rounding of doubles, on top of the declared terms, of which the largest is 2^-30.
_ROUNDING = 2.0**-29
# A figure may be off by this many units of the last decimal place that values are kept to; a
# variance by this many squares of a unit, and units of a deviation.
_UNITS = 4
# The quantity that epsilon is a share of, where it is not the figure itself.
_OF_EPSILON = {
    **dict.fromkeys(("quantile", "rank_quantile", "top", "item_counts"), "share_error"),
    **dict.fromkeys(("net_sum", "sum_histogram"), "magnitude_error"),
    **dict.fromkeys(("mean", "mean_histogram"), "deviation_error"),
}
_TERMS = ("relative_error", "share_error", "magnitude_error", "deviation_error", "absolute_error")


def promises_less(statistic: DeclaredStatistic, figure: Figure, parties: int = 1) -> str:
    """Return which promise of a figure, of this number of parties, is weaker than its statistic
    declares; "" if none. Each party rounds the units of a sum for itself.
    """
    parameters = statistic.parameters
    most = dict.fromkeys(_TERMS, 0.0)
    unit = 10.0 ** -parameters["decimals"] if "decimals" in parameters else 0.0
    most["absolute_error"] = _UNITS * unit * parties
    if statistic.kind == "variance":
        most |= {"absolute_error": _UNITS * unit**2, "deviation_error": _UNITS * unit}
    if statistic.kind == "quantile":
        most["relative_error"] = parameters["relative_error"]
    of_epsilon = _OF_EPSILON.get(statistic.kind, "relative_error")
    most[of_epsilon] = parameters.get("epsilon", 0.0)
    for name in _TERMS:
        if getattr(figure, name) > most[name] + _ROUNDING:
            return f"promises less than is declared: {name} {getattr(figure, name)}"
    if figure.confidence < least_confidence(statistic):
        return f"promises less than is declared: confidence {figure.confidence}"
    return ""


def least_confidence(statistic: DeclaredStatistic) -> float:
    """Return the least confidence of a statistic's figures; 1 unless they depend on chance."""
    return float(1 - statistic.parameters.get("delta", 0.0))
