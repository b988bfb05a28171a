"""The audit of one key: all that was emitted for it compared with all that should have been."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from slidestat.schemas.emission import Emission, Figure
from slidestat.schemas.sequence import decode_emission
from slidestat.spark.audit.declaration import (
    ALWAYS,
    Charge,
    ColumnName,
    Declaration,
    DeclaredDerived,
    DeclaredStatistic,
    WindowPlace,
    promises_less,
)
from slidestat.spark.audit.derived import (
    Having,
    figure_in,
    figure_of,
    is_still_known,
    judge_derived,
)
from slidestat.spark.audit.exact_key import Exact, ExactKey
from slidestat.spark.audit.verdict import Verdict, is_known, judge, violation_of_sample
from slidestat.synopses.core.arrays import Integers

# A time before any event.
BEFORE_ALL = -(2**61)
NOT_EMITTED, NOT_TRUE = "not emitted", "the newest record is not true"


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure with its verdict; of an emission that is missing or strange, the violation alone."""

    key: str
    window_end_ms: int
    provisional: bool = False
    figure: Figure | None = None
    verdict: Verdict | None = None
    violation: str = ""


def newest(
    name: str, tick: int, records: Iterable[tuple[int, bytes]]
) -> tuple[Emission | None, list[Finding]]:
    """Return the emission of a key's tick from its records (place on the topic, value), however
    often they were repeated: a final one replaces provisional ones. Two final ones that differ are
    a violation, and so is a record that is no emission.
    """
    found: Emission | None = None
    violations = []
    for _, value in sorted(records, key=lambda record: record[0]):
        try:
            emission = decode_emission(value)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            violations.append(Finding(name, tick, violation=f"no emission: {error}"))
            continue
        if found is None or found.provisional:
            found = emission
        elif not emission.provisional and emission != found:
            violations.append(Finding(name, tick, violation="emitted twice, differently"))
    return found, violations


class _Windows:
    """The windows of the emission of a tick, in the events that it has `seen`."""

    def __init__(self, declaration: Declaration, seen: ExactKey, tick: int) -> None:
        self._declaration = declaration
        self._seen = seen
        self._tick = tick
        # Nearly all figures of a window are of the same events.
        self._known: dict[tuple[int | None, ...], tuple[ExactKey, slice]] = {}

    def at(
        self, ms: int | None, events: int | None, since_ms: int | None
    ) -> tuple[ExactKey, slice]:
        """Return a window, of time or of so many events, in the key or in what is left of it."""
        place = ms, events, since_ms
        if place not in self._known:
            key, tick = self._seen, self._tick
            if self._declaration.is_of_referee and events is not None:
                key, events = key.last_of_each(events, tick), None
            whole = key.window(tick, ms, events, self._declaration.forget_ms)
            self._known[place] = key, key.since(since_ms, whole)
        return self._known[place]


class KeyJudge:
    """A judge of the emissions of one key by one declaration, which was in charge in `charges`.

    `watermark_ms` is the time up to which its partition was emitted; windows that begin before
    `complete_from_ms` are left out: their events are gone. Unless it is certain to be the
    declaration of these emissions (`is_marked`), missing figures are not looked for.
    """

    def __init__(
        self,
        declaration: Declaration,
        name: str,
        watermark_ms: int,
        complete_from_ms: int,
        charges: Sequence[Charge] = ALWAYS,
        *,
        is_marked: bool = True,
    ) -> None:
        self.declaration = declaration
        self.name = name
        self.watermark_ms = watermark_ms
        self._complete_from_ms = complete_from_ms
        self._charges = charges
        self._is_marked = is_marked
        self._statistics = {s.label: s for s in declaration.statistics}
        self._derived = {it.name: it for it in declaration.derived}
        self._expected = expected_figures(declaration)
        self._having = Having(declaration) if declaration.having else None

    def due(self, times: Integers, following: Integers, numbers: Integers) -> set[int]:
        """Return the ticks at which a key is emitted by events at `times`, each followed by the
        next: the first after each, or after those of `numbers` that it is emitted after; the first
        at which the span, or a window where that is asked for, has none left, or all before that,
        and the one at which it is forgotten, up to the watermark; none if the key is published for
        a referee.
        """
        if self.name in self.declaration.publish:
            return set()
        every, until = self.declaration.every_ms, self.watermark_ms
        ticks = (times // every + 1) * every
        is_due = numbers % max(1, self.declaration.every_events) == 0
        wanted = set(np.unique(ticks[is_due & (ticks <= until)]).tolist())
        for silence in self.declaration.silences:
            emptied = [self.declaration.emptied_at(times, silence)]
            if self.declaration.is_of_referee:
                # A referee knows only what is published at ticks: of a party's last event, the tick
                # after it. So it answers also where a window may still have the event.
                emptied = [self.declaration.emptied_at(ticks - 1, silence)]
                if self.declaration.emit != "events" and not isinstance(silence, str):
                    emptied.append((ticks + silence) // every * every)
            for silent in emptied:
                wanted.update(silent[silent <= np.minimum(following, until)].tolist())
        if self.declaration.asks_always:
            last = np.minimum(times + self.declaration.span, np.minimum(following, until))
            for begin, end in zip(ticks.tolist(), last.tolist(), strict=True):
                wanted.update(range(begin, end + 1, every))
        return wanted

    def must_be_emitted(self, wanted: set[int], times: Integers) -> set[int]:
        """Return those of the `wanted` ticks at which a record must be there, whatever the figures
        are; `times` are those of events, with the one before the first, if there is one.

        Where figures decide, that is the first tick of a key that begins, or begins again.
        """
        declaration = self.declaration
        if not declaration.chooses:
            return wanted
        if not declaration.is_kept_true or declaration.forget_ms is None:
            return set()
        anew = times[1:][np.diff(times) >= declaration.forget_ms]
        ticks = (anew // declaration.every_ms + 1) * declaration.every_ms
        return wanted & set(ticks.tolist())

    def not_as_asked(
        self,
        key: ExactKey,
        records: Sequence[tuple[int, Emission | None]],
        since_ms: int,
        until_ms: int,
    ) -> Iterator[Finding]:
        """Yield a violation for each tick from `since_ms` to before `until_ms` at which, where
        figures decide, a record is missing, or is there without a reason. `records` are by tick,
        None for one of another declaration.
        """
        if not (self.declaration.chooses and self._is_marked):
            return
        ticks = [tick for tick, _ in records]
        for tick in self._ticks_of_span(key.times, since_ms, min(until_ms, self.watermark_ms + 1)):
            if not any(charge.has(tick) for charge in self._charges):
                continue
            place = bisect_right(ticks, tick) - 1
            newest = records[place][1] if place >= 0 else None
            if place >= 0 and ticks[place] == tick:
                before = records[place - 1][1] if place else None
                violation = self._without_reason(key, before, newest, is_first=place == 0)
            else:
                violation = self._missing_at(key, tick, newest, is_first=place < 0)
            if violation:
                yield Finding(self.name, tick, violation=violation)

    def _without_reason(
        self, key: ExactKey, before: Emission | None, record: Emission | None, *, is_first: bool
    ) -> str:
        """Return the violation of a record that nothing asks for; "" if something does, or may."""
        if record is None or not _is_sure(record):
            return ""
        tick = record.window_end_ms
        is_known = before is not None and _is_sure(before)
        written_before = BEFORE_ALL if before is None else before.window_end_ms
        begins = self._begins_after(key.times, tick, written_before)
        may_hold = self._may_hold(record)
        if may_hold and self.declaration.emit != "change":
            has_reason = self._is_due(key.times, tick)
        elif begins and may_hold is False and (is_first or is_known):
            # The newest record of a forgotten key may be one in which the condition holds.
            has_reason = self._having is not None and self._having.may_hold_of_nothing
        elif begins or not is_known or before is None or may_hold is None:
            has_reason = True
        elif may_hold:
            has_reason = not self._may_hold(before) or not self._is_still_true(before, record)
        else:
            has_reason = self._may_hold(before) is not False
        return "" if has_reason else "emitted without a reason"

    def _missing_at(
        self, key: ExactKey, tick: int, newest: Emission | None, *, is_first: bool
    ) -> str:
        """Return the violation if there must be a record at a tick that has none, `newest` being
        the one before; "" if there need not be.
        """
        declaration = self.declaration
        is_sure = newest is not None and _is_sure(newest)
        by_change = declaration.emit == "change"
        if self._having is None:
            if newest is None or not is_sure or self._is_true(key, newest, tick):
                return ""
            return NOT_TRUE
        if not self._knows_condition(tick):
            return ""
        holds, is_certain = self._having.at(key, tick)
        written_before = BEFORE_ALL if newest is None else newest.window_end_ms
        begins = self._begins_after(key.times, tick, written_before)
        if holds and not by_change:
            return NOT_EMITTED if self._is_due(key.times, tick) else ""
        if begins and (is_first or is_sure):
            # A forgotten key may have left a record in which it holds.
            is_left = is_certain and self._having.may_hold_of_nothing
            return NOT_EMITTED if holds or is_left else ""
        if begins or newest is None or not is_sure:
            return ""
        may_hold = self._may_hold(newest)
        if holds:
            is_told = may_hold is not False and self._is_true(key, newest, tick)
        else:
            # Figures with an error: the condition still could hold.
            is_told = not (holds is False and is_certain and may_hold)
        return "" if is_told else NOT_TRUE

    def _is_still_true(self, before: Emission, record: Emission) -> bool:
        """Return whether all that a record has was known from the one before it: bounds within its
        bounds, widened by the tolerance, and the same lists.
        """
        if len(before.figures) != len(record.figures):
            return False
        tolerance = Fraction(self.declaration.tolerance)
        for known, figure in zip(before.figures, record.figures, strict=True):
            if (
                place_of(known) != place_of(figure)
                or known.counted_from_ms != figure.counted_from_ms
            ):
                return False
            if figure == known:
                continue
            statistic = self._statistics.get(figure.statistic)
            ends = _ends(known), _ends(figure)
            if statistic is None or statistic.series is None or None in (*ends[0], *ends[1]):
                return False
            (low, high), (least, most) = ([Fraction(end or 0) for end in pair] for pair in ends)
            if least < low - tolerance * abs(low) or most > high + tolerance * abs(high):
                return False
        return True

    def _may_hold(self, record: Emission) -> bool | None:
        return True if self._having is None else self._having.may_hold(record)

    def _knows_condition(self, tick: int) -> bool:
        """Return whether the source has all events that the condition reads at a tick, and all
        figures are counted from before.
        """
        begin = tick - self.declaration.span
        is_known = any(charge.since_ms <= begin for charge in self._charges if charge.has(tick))
        reads_all = self.declaration.of_events or (self._having and self._having.reads_all)
        return is_known and self._complete_from_ms <= (0 if reads_all else begin)

    def _is_due(self, times: Integers, tick: int) -> bool:
        """Return whether a key is emitted at a tick, whatever its figures are."""
        declaration, every = self.declaration, self.declaration.every_ms
        last = times[[np.searchsorted(times, tick) - 1]]
        silences = (int(declaration.emptied_at(last, it)[0]) for it in declaration.silences)
        return declaration.emit == "always" or int(last[0]) >= tick - every or tick in silences

    def _begins_after(self, times: Integers, tick: int, written_ms: int) -> bool:
        """Return whether a key surely began, for the first time or again, with an event before a
        tick and at `written_ms` or later.
        """
        forget_ms = self.declaration.forget_ms
        before = times[: np.searchsorted(times, tick)]
        first = int(before[0]) if len(before) else tick
        if forget_ms is not None:
            anew = before[1:][np.diff(before) >= forget_ms]
            if len(anew):
                return bool(anew[-1] >= written_ms)
            if first - forget_ms < self._complete_from_ms:
                return False
        elif self._complete_from_ms > 0:
            return False
        return len(before) > 0 and first >= written_ms and written_ms == BEFORE_ALL

    def _ticks_of_span(self, times: Integers, since_ms: int, until_ms: int) -> list[int]:
        """Return the ticks at which the figures of a key with these events change, one after the
        last of the span included.
        """
        declaration = self.declaration
        every = declaration.every_ms
        ticks = (times // every + 1) * every
        first = np.unique(ticks)
        if not len(first):
            return []
        if declaration.of_events:
            return [tick for tick in first.tolist() if since_ms <= tick < until_ms]
        newest = times[np.searchsorted(ticks, first, "right") - 1]
        last = ((newest + declaration.span) // every + 1) * every
        is_apart = first[1:] > last[:-1] + every
        begins, ends = first[np.append(True, is_apart)], last[np.append(is_apart, True)]
        start = -(-since_ms // every) * every
        return [
            tick
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
            for tick in range(max(begin, start), min(end + 1, until_ms), every)
        ]

    def _is_true(self, key: ExactKey, newest: Emission, tick: int) -> bool:
        tolerance = Fraction(self.declaration.tolerance)
        for told in newest.figures:
            figure = told
            if (derived := self._derived.get(told.statistic)) is not None:
                exact = self.exact_parts(derived, key, tick, told)
                if exact is not None and not is_still_known(derived, exact, told, tolerance):
                    return False
                continue
            if self.declaration.is_sequence:
                figure = _with_length(told, told.window_events, None)
            statistic = self._statistics.get(figure.statistic)
            if statistic is None or statistic.series is None or figure.confidence < 1:
                continue
            window = self.window(key, statistic, figure, tick)
            if window is not None and not is_known(key, statistic, figure, window, tick, tolerance):
                return False
        return True

    def not_emitted(self, ticks: Iterable[int]) -> Iterator[Finding]:
        """Yield a violation for each tick that this declaration should have emitted at."""
        for tick in sorted(ticks):
            is_its = any(charge.has(tick) for charge in self._charges)
            begin = 0 if self.declaration.every_events else tick - self.declaration.span
            if is_its and begin >= self._complete_from_ms:
                yield Finding(self.name, tick, violation=NOT_EMITTED)

    def not_due(self, ticks: Iterable[int]) -> Iterator[Finding]:
        """Yield a violation for each tick at which there was an emission and none was due, as far
        as all events that could have led to it are known.
        """
        declaration = self.declaration
        if declaration.is_of_referee or not self._is_marked:
            return
        # The span is one of them, and no window of the calendar is longer.
        silences = (it for it in declaration.silences if not isinstance(it, str))
        reach = max(declaration.every_ms, *silences, 0) + declaration.every_ms
        for tick in sorted(ticks):
            begin = 0 if declaration.every_events else tick - reach
            if tick <= self.watermark_ms and begin >= self._complete_from_ms:
                yield Finding(self.name, tick, violation="emitted without a reason")

    def emission(self, key: ExactKey, emission: Emission) -> Iterator[Finding]:
        """Yield what is found of an emission, `key` having the events of its windows."""
        if self.declaration.is_sequence:
            figures = [_with_length(one, one.window_events, None) for one in emission.figures]
            for found in self._judged(key, msgspec.structs.replace(emission, figures=figures)):
                figure = found.figure
                if figure is not None:
                    figure = _with_length(figure, None, figure.window_ms)
                yield replace(found, figure=figure)
        else:
            yield from self._judged(key, emission)

    def _judged(self, key: ExactKey, emission: Emission) -> Iterator[Finding]:
        declaration, tick, provisional = self.declaration, emission.window_end_ms, False
        seen, is_of_all, parties = key, True, len(emission.parties or ("one",))
        if emission.parties is not None:
            seen = key.in_partitions([partition_of(party) for party in emission.parties])
        if emission.provisional:
            provisional, seen = True, key.until(emission.source_offset)
            # Later records are left out; those that are dropped already cannot be.
            is_of_all = key.bygone.last_offset <= emission.source_offset
        if self._is_marked:
            for violation in _without(self._expected, emission):
                yield Finding(self.name, tick, provisional, violation=violation)
        listed: dict[tuple[str, *WindowPlace], list[Figure]] = {
            (s.label, *length): []
            for s in declaration.statistics
            if s.series is None
            for length in declaration.lengths
        }
        windows = _Windows(declaration, seen, tick)
        told_of = {place_of(figure): figure for figure in emission.figures}
        for figure in emission.figures:
            derived = self._derived.get(figure.statistic)
            if derived is not None:
                if is_of_all:
                    yield from self.derived(
                        derived, seen, tick, figure, told_of, provisional=provisional
                    )
                continue
            statistic = self._statistics.get(figure.statistic)
            window_ms, window_events = _lengths(declaration, statistic, figure, tick)
            if not self._has_events(tick, window_ms) or (window_ms is None and not is_of_all):
                continue
            is_so_long = figure.window is None or window_ms == figure.window_ms
            if statistic is None or not is_so_long or not self._is_declared(statistic, figure):
                named = ", ".join(f"{field} {it}" for field, it in _told(figure).items())
                yield Finding(self.name, tick, provisional, violation=f"not declared: {named}")
                continue
            if self._is_marked and (less := promises_less(statistic, figure, parties)):
                violation = f"{statistic.label} {less}"
                yield Finding(self.name, tick, provisional, violation=violation)
            if statistic.series is None:
                listed[statistic.label, *_window_place(figure)].append(figure)
                if _tells_of_no_item(figure):
                    continue
            of, window = windows.at(window_ms, window_events, figure.counted_from_ms)
            verdict = judge(of, statistic, figure, window, tick)
            yield Finding(self.name, tick, provisional, figure, verdict, verdict.violation)
        for (label, *place), figures in listed.items():
            empty = figure_in(label, *place)
            window_ms = declaration.length_of(empty, tick)
            if self._has_events(tick, window_ms) and (window_ms is not None or is_of_all):
                of, window = windows.at(window_ms, empty.window_events, _counted_from(figures))
                items = [figure for figure in figures if not _tells_of_no_item(figure)]
                for figure, violation in _of_list(of, self._statistics[label], items, window):
                    whole = msgspec.structs.replace(empty, item=figure.item, window_ms=window_ms)
                    yield Finding(self.name, tick, provisional, whole, violation=violation)

    def derived(
        self,
        derived: DeclaredDerived,
        key: ExactKey,
        tick: int,
        figure: Figure,
        told_of: "Mapping[FigurePlace, Figure] | None" = None,
        *,
        provisional: bool = False,
    ) -> Iterator[Finding]:
        """Yield what is found of a derived figure, `told_of` being the figures of its emission,
        None if it was written without them; nothing where its exact parts are not known.
        """
        exact = self.exact_parts(derived, key, tick, figure)
        if exact is None:
            return
        parts = [self._part(derived, number) for number in range(len(exact))]
        kinds = [statistic.kind for statistic, _ in parts]
        told = None
        if told_of is not None:
            told = [
                None if declared.ago else told_of.get(place_of(part))
                for declared, (_, part) in zip(derived.parts, parts, strict=True)
            ]
        verdict = judge_derived(derived, kinds, exact, told, figure)
        yield Finding(self.name, tick, provisional, figure, verdict, verdict.violation)

    def _part(self, derived: DeclaredDerived, number: int) -> tuple[DeclaredStatistic, Figure]:
        """Return the statistic of a part of a derived figure, and the part without its numbers."""
        figure = figure_of(derived.parts[number], of_events=self.declaration.of_events)
        return self._statistics[figure.statistic], figure

    def exact_parts(
        self, derived: DeclaredDerived, key: ExactKey, tick: int, figure: Figure
    ) -> list[Exact] | None:
        """Return the exact figures that a derived one is of; None where events of one are gone, and
        where one is counted from later on.
        """
        found: list[Exact] = []
        for number in range(len(derived.parts)):
            statistic, part = self._part(derived, number)
            end = tick - derived.parts[number].ago
            window = self.window(key, statistic, part, end)
            if window is None or figure.counted_from_ms is not None:
                return None
            if statistic.kind == "age_of_last":
                found.append(key.age(statistic, window, tick, beyond=False))
            else:
                found.append(key.exact(statistic, part, window))
        return found

    def window(
        self, key: ExactKey, statistic: DeclaredStatistic, figure: Figure, tick: int
    ) -> slice | None:
        """Return the window of a figure that ends at a tick; None where its events are gone."""
        window_ms, window_events = _lengths(self.declaration, statistic, figure, tick)
        if not self._has_events(tick, window_ms):
            return None
        window = key.window(tick, window_ms, window_events, self.declaration.forget_ms)
        return key.since(figure.counted_from_ms, window)

    def _has_events(self, tick: int, window_ms: int | None) -> bool:
        """Return whether the source still has all events of a window."""
        return (tick - window_ms if window_ms is not None else 0) >= self._complete_from_ms

    def _is_declared(self, statistic: DeclaredStatistic, figure: Figure) -> bool:
        if statistic.series is None:
            return _window_place(figure) in self.declaration.lengths
        if self._is_marked:
            return place_of(figure) in self._expected
        # The topology may have had other windows; none was longer than the span.
        length = figure.window_ms, figure.window_events
        known = [own for own in length if own is not None]
        return all(own <= self.declaration.span for own in known) and (
            bool(known) == statistic.is_windowed
        )


def audit_key(
    declaration: Declaration,
    key: ExactKey,
    name: str,
    emissions: Mapping[int, Emission],
    watermark_ms: int,
    complete_from_ms: int,
    charges: Sequence[Charge] = ALWAYS,
    by_others: Collection[int] = (),
    *,
    is_marked: bool = True,
) -> Iterator[Finding]:
    """Yield the findings about one key, with all its events, by tick, as `KeyJudge` has them.

    `emissions` are those of this declaration; other declarations emitted `by_others`.
    """
    judge_of_key = KeyJudge(
        declaration, name, watermark_ms, complete_from_ms, charges, is_marked=is_marked
    )
    numbers = numbered(key.times, 0, declaration.forget_ms)
    wanted = judge_of_key.due(key.times, np.append(key.times[1:], watermark_ms), numbers)
    must = judge_of_key.must_be_emitted(wanted, np.insert(key.times, 0, BEFORE_ALL))
    yield from judge_of_key.not_emitted(must - emissions.keys() - set(by_others))
    final = {tick for tick, emission in emissions.items() if _is_sure(emission)}
    yield from judge_of_key.not_due(final - wanted)
    for _, emission in sorted(emissions.items()):
        yield from judge_of_key.emission(key, emission)
    records = sorted({**dict.fromkeys(by_others), **emissions}.items())
    yield from judge_of_key.not_as_asked(key, records, BEFORE_ALL, watermark_ms + 1)


def numbered(times: Integers, before: int, forget_ms: int | None) -> Integers:
    """Return which event of its key each is, the first since it was forgotten being 1; `before` are
    the events before them.
    """
    rows = np.arange(len(times), dtype=np.int64)
    is_new = np.zeros(len(times), bool)
    if forget_ms is not None:
        is_new[1:] = np.diff(times) >= forget_ms
    begins = np.maximum.accumulate(np.where(is_new, rows, -before))
    return rows - begins + 1


def _ends(figure: Figure) -> tuple[float | None, float | None]:
    """Return the bounds of a figure; its estimate where it has none."""
    ends = figure.lower, figure.upper
    return tuple(figure.estimate if end is None else end for end in ends)  # type: ignore[return-value]


def _is_sure(emission: Emission) -> bool:
    """Return whether an emission is final, and the worker had read all events."""
    return not emission.provisional and emission.lost is None


def partition_of(party: str) -> int:
    """Return the partition of a party, from its name: source topic/partition."""
    return int(party.rpartition("/")[2])


def _counted_from(figures: Sequence[Figure]) -> int | None:
    """Return the time from which the items of a list are counted; None for all of its window."""
    return max((f.counted_from_ms for f in figures if f.counted_from_ms is not None), default=None)


def _tells_of_no_item(figure: Figure) -> bool:
    """Return whether a figure of a list is the mark that no item came since the counting began."""
    return figure.item is None and figure.counted_from_ms is not None and figure.estimate is None


def _lengths(
    declaration: Declaration, statistic: DeclaredStatistic | None, figure: Figure, end: int
) -> tuple[int | None, int | None]:
    """Return the length of a figure's window that ends at `end`, of time or of events: the span,
    for a statistic that has no windows.
    """
    if statistic is None or statistic.has_windows:
        return declaration.length_of(figure, end), figure.window_events
    return declaration.span_lengths


FigurePlace = tuple[
    str, int | str | None, int | None, float | None, float | None, float | None, str | None
]
"""The identity of a figure in its emission."""


def expected_figures(declaration: Declaration) -> frozenset[FigurePlace]:
    """Return the figures that each emission has, without those of listed items."""
    return frozenset(
        (s.label, *length, series.quantile, series.at_least, series.below, series.item)
        for s in declaration.statistics
        for length in (declaration.lengths if s.is_windowed else ((None, None),))
        for series in s.series or ()
    ) | {(it.name, *(None,) * 6) for it in declaration.derived}


def _told(figure: Figure) -> dict[str, object]:
    """Return the fields that identify a figure, without those that it does not have."""
    names = ("statistic", "window", "window_ms", "window_events", "quantile", "at_least", "below")
    told = {name: getattr(figure, name) for name in (*names, "item")}
    return {name: it for name, it in told.items() if it is not None}


def place_of(figure: Figure) -> FigurePlace:
    """Return what identifies a figure in its emission."""
    return (
        *(figure.statistic, *_window_place(figure)),
        *(figure.quantile, figure.at_least, figure.below, figure.item),
    )


def _window_place(figure: Figure) -> WindowPlace:
    return figure.window or figure.window_ms, figure.window_events


def _with_length(figure: Figure, window_ms: int | None, window_events: int | None) -> Figure:
    return msgspec.structs.replace(figure, window_ms=window_ms, window_events=window_events)


def _without(expected: frozenset[FigurePlace], emission: Emission) -> Iterator[str]:
    """Yield a text for each statistic that an emission lacks."""
    lacking = expected - {place_of(figure) for figure in emission.figures}
    if not lacking:
        return
    all_of = Counter(place[0] for place in expected)
    for label, count in sorted(Counter(place[0] for place in lacking).items()):
        of = "" if count == all_of[label] else f" {count} of {all_of[label]} figures of"
        yield f"emitted without{of} {label}"


def _of_list(
    key: ExactKey, statistic: DeclaredStatistic, listed: Sequence[Figure], window: slice
) -> Iterator[tuple[Figure, str]]:
    """Yield what is wrong with a list as a whole, each with the figure that it is about."""
    nothing = Figure(statistic.label, None, None, None)
    if statistic.kind == "sample":
        if violation := violation_of_sample(key, statistic, listed, window):
            yield nothing, violation
        return
    for item in _missing(key, statistic, listed, window):
        yield msgspec.structs.replace(nothing, item=item), "a top item not listed"


def _missing(
    key: ExactKey, statistic: DeclaredStatistic, listed: Sequence[Figure], window: slice
) -> list[str]:
    """Return items with the share, or one of epsilon, that a list with room lacks."""
    parameters = statistic.parameters
    if "limit" in parameters and len(listed) >= parameters["limit"]:
        return []
    share = Fraction(repr(float(parameters.get("share", parameters["epsilon"]))))
    share *= key.shared(statistic, window)
    listed_names = {figure.item for figure in listed}
    if len(statistic.paths) > 1:
        weights = key.weights(statistic, window).items()
        return [it for it, weight in weights if weight >= share > 0 and it not in listed_names]
    tallies = key.tallies(statistic.column, window)
    frequent = np.flatnonzero((tallies > 0) & (tallies >= float(share))).tolist()
    if not frequent:
        return []
    names = key.items(statistic.column)
    return [names[code] for code in frequent if names[code] not in listed_names]


# The audit of one key while its events go by in order of time: memory is that of its windows.
#
# The emission of a tick comes after the events before the tick and before all others, so each
# window can be recomputed when its emission comes, from the events that are still here. Those of no
# further window are dropped: what stays are the events of one span (of windows of last events, as
# many as the longest has), and those of one batch.

# Dropping fewer events costs more than keeping them.
_WORTH_DROPPING = 4_096


class KeyEvents(NamedTuple):
    """Some events of a key in order of time, each with its place (`ExactKey`)."""

    times: Integers
    places: Integers
    columns: Mapping[ColumnName, pa.Array]


class Emitted(NamedTuple):
    """An emission as it lies in a lake: the end of its windows, its place on the topic, its bytes,
    and the fingerprint of its declaration.
    """

    tick: int
    place: int
    value: bytes
    mark: str


class RunningAudit:
    """A running audit of a key by the declaration of emissions with fingerprint `mark`."""

    def __init__(self, judge: KeyJudge, mark: str) -> None:
        self._judge = judge
        self._mark = mark
        self._key = ExactKey.without_events(judge.declaration)
        # For a referee's key: the number of events when some were dropped last.
        self._kept = 0
        # The number of the last event.
        self._number = 0
        # Ticks at which the key is to be emitted, and was, as far as they are not settled.
        self._wanted: set[int] = set()
        # Ticks of `_wanted` at which a record must be there; and the last event before they were
        # noted.
        self._must: set[int] = set()
        self._before = BEFORE_ALL
        self._emitted: set[int] = set()
        # Ticks of `_emitted` by its own declaration that are sure.
        self._sure: set[int] = set()
        # Emissions of a tick that may have further ones.
        self._waiting: list[Emitted] = []
        # The records of ticks that are not looked at yet, and the newest before; and up to where
        # ticks were looked at.
        self._records: dict[int, Emission | None] = {}
        self._looked_at = BEFORE_ALL

    def go_on(
        self, events: KeyEvents, emitted: Iterable[Emitted], reached_ms: int
    ) -> Iterator[Finding]:
        """Take the next events and emissions of the key, which go up to `reached_ms`, and yield
        what is settled: all ticks before that.
        """
        self._want(events.times)
        self._key.extend(*events)
        for one in emitted:
            self._emitted.add(one.tick)
            if one.mark == self._mark:
                self._waiting.append(one)
            else:
                self._records[one.tick] = None
        yield from self._settle(reached_ms)
        yield from self._look_at(reached_ms)
        self._drop(reached_ms)

    def end(self, events: KeyEvents) -> Iterator[Finding]:
        """Take the last events, and yield what is found once nothing comes any more."""
        self._want(events.times)
        self._key.extend(*events)
        last, until = self._key.times[-1:], self._judge.watermark_ms
        numbers = np.full(len(last), self._number)
        self._add(self._judge.due(last, np.full(len(last), until), numbers), last)
        latest = max((until, *self._emitted, *(one.tick for one in self._waiting)))
        yield from self._settle(latest + 1, is_end=True)
        yield from self._look_at(latest + 1)

    def _want(self, times: Integers) -> None:
        last = self._key.times[-1:]
        known = np.append(last, times)
        if len(known):
            forget_ms = self._judge.declaration.forget_ms
            numbers = numbered(known, self._number - len(last), forget_ms)
            self._number = int(numbers[-1])
            self._add(self._judge.due(known[:-1], known[1:], numbers[:-1]), known[:-1])

    def _add(self, due: set[int], times: Integers) -> None:
        """Note what is due of events at `times`, which come after those before."""
        self._wanted |= due
        self._must |= self._judge.must_be_emitted(due, np.insert(times, 0, self._before))
        self._before = int(times[-1]) if len(times) else self._before

    def _settle_due(self, until_ms: int) -> Iterator[Finding]:
        """Find what was not emitted at the ticks before `until_ms`, or without a reason."""
        settled = {tick for tick in self._wanted if tick < until_ms}
        yield from self._judge.not_emitted((settled & self._must) - self._emitted)
        yield from self._judge.not_due({tick for tick in self._sure if tick < until_ms} - settled)
        self._wanted -= settled
        self._must -= settled
        self._sure = {tick for tick in self._sure if tick >= until_ms}
        self._emitted = {tick for tick in self._emitted if tick >= until_ms}

    def _settle(self, until_ms: int, *, is_end: bool = False) -> Iterator[Finding]:
        """Judge what was emitted, or was not, at the ticks before `until_ms`."""
        # It is known what is due after the last event only when the next one comes.
        sure_ms = min([until_ms, *(last + 1 for last in self._key.times[-1:].tolist())])
        ready = [one for one in self._waiting if one.tick < until_ms]
        self._waiting = [one for one in self._waiting if one.tick >= until_ms]
        for tick, those in groupby(ready, key=lambda one: one.tick):
            records = ((one.place, one.value) for one in those)
            emission, violations = newest(self._judge.name, tick, records)
            yield from violations
            if emission is not None:
                yield from self._judge.emission(self._key, emission)
                self._records[tick] = emission
                if _is_sure(emission):
                    self._sure.add(tick)
        yield from self._settle_due(until_ms if is_end else sure_ms)

    def _look_at(self, until_ms: int) -> Iterator[Finding]:
        """Judge whether the newest record was true at the ticks before `until_ms`."""
        records = sorted(self._records.items())
        yield from self._judge.not_as_asked(self._key, records, self._looked_at, until_ms)
        self._looked_at = until_ms
        self._records = dict(records[-1:])

    def _drop(self, reached_ms: int) -> None:
        """Forget the events that no window which ends at `reached_ms` or later has."""
        declaration, times = self._judge.declaration, self._key.times
        if declaration.of_events and declaration.is_of_referee:
            # The last events of a partition that is silent may be older than all others.
            if len(times) - self._kept >= _WORTH_DROPPING:
                self._key = self._key.last_of_each(declaration.span, reached_ms, and_later=True)
                self._kept = len(self._key.times)
            return
        if declaration.of_events:
            droppable = int(np.searchsorted(times, reached_ms)) - declaration.span
        else:
            droppable = int(np.searchsorted(times, reached_ms - declaration.span))
        drop_some(self._key, droppable, declaration)


def drop_some(key: ExactKey, droppable: int, declaration: Declaration) -> None:
    """Forget the first events of a key, never the last one, where that is worth it."""
    droppable = min(droppable, len(key.times) - 1)
    if droppable >= _WORTH_DROPPING:
        key.drop(droppable, declaration)
