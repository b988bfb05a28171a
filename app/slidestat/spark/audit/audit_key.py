"""The audit of one key: all that was emitted of it beside all that it should have been."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np

from slidestat.schemas.emission import Emission, Figure
from slidestat.spark.audit.audit_charges import ALWAYS, Charge
from slidestat.spark.audit.declaration import Declaration, DeclaredStatistic
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.audit.verdict import Verdict, judge, violation_of_sample

_decode = msgspec.json.Decoder(Emission).decode


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure with its verdict; of an emission that is missing or strange, the violation alone."""

    key: str
    window_end_ms: int
    provisional: bool = False
    figure: Figure | None = None
    verdict: Verdict | None = None
    violation: str = ""


def newest(records: Iterable[tuple[int, bytes]]) -> tuple[dict[int, Emission], list[Finding]]:
    """The emission of each tick from a key's records (place on the topic, value), however often
    they were repeated: a final one replaces provisional ones. Two final ones that differ are a
    violation.
    """
    found: dict[int, Emission] = {}
    violations = []
    for _, value in sorted(records, key=lambda record: record[0]):
        emission = _decode(value)
        known = found.get(emission.window_end_ms)
        if known is None or known.provisional:
            found[emission.window_end_ms] = emission
        elif not emission.provisional and emission != known:
            violation = "emitted twice, differently"
            violations.append(Finding(emission.key, emission.window_end_ms, violation=violation))
    return found, violations


def audit_key(
    declaration: Declaration,
    key: ExactKey,
    name: str,
    emissions: dict[int, Emission],
    watermark_ms: int,
    complete_from_ms: int,
    charges: Sequence[Charge] = ALWAYS,
    by_others: Collection[int] = (),
    *,
    is_marked: bool = True,
) -> Iterator[Finding]:
    """Findings of one key, by tick. `watermark_ms` is as far as its partition was emitted; windows
    that begin before `complete_from_ms` are left out: their events are gone.

    `emissions` are those of this declaration, which was in charge in `charges`; other declarations
    emitted `by_others`. Unless it is sure to be the declaration of these emissions (`is_marked`),
    figures that are missing are not looked for.
    """
    statistics = {s.label: s for s in declaration.statistics}
    expected = expected_figures(declaration)
    wanted = due(declaration, key, watermark_ms) - emissions.keys() - set(by_others)
    for tick in sorted(tick for tick in wanted if any(charge.has(tick) for charge in charges)):
        if tick - declaration.span >= complete_from_ms:
            yield Finding(name, tick, violation="not emitted")
    for tick, emission in sorted(emissions.items()):
        if is_marked:
            for violation in _without(expected, emission):
                yield Finding(name, tick, emission.provisional, violation=violation)
        seen = key.until(emission.source_offset) if emission.provisional else key
        listed: dict[tuple[str, int | None, int | None], list[Figure]] = {
            (s.label, *length): []
            for s in declaration.statistics
            if s.series is None
            for length in declaration.lengths
        }
        for figure in emission.figures:
            statistic = statistics.get(figure.statistic)
            window_ms = _window_ms(declaration, statistic, figure)
            if (tick - window_ms if window_ms is not None else 0) < complete_from_ms:
                continue
            is_list = statistic is not None and statistic.series is None
            is_other = is_marked and not is_list and _place(figure) not in expected
            if statistic is None or is_other:
                violation = "of no declared statistic" if statistic is None else "not declared"
                yield Finding(name, tick, emission.provisional, figure, violation=violation)
                continue
            window = seen.window(tick, window_ms, figure.window_events, declaration.forget_ms)
            window = seen.since(figure.counted_from_ms, window)
            verdict = judge(seen, statistic, figure, window, tick)
            yield Finding(name, tick, emission.provisional, figure, verdict, verdict.violation)
            if statistic.series is None:
                place = (statistic.label, figure.window_ms, figure.window_events)
                listed[place].append(figure)
        for (label, window_ms, window_events), figures in listed.items():
            if window_ms is None or tick - window_ms >= complete_from_ms:
                window = seen.window(tick, window_ms, window_events, declaration.forget_ms)
                statistic = statistics[label]
                window = seen.since(_counted_from(figures), window)
                if statistic.kind == "sample":
                    whole = Figure(label, None, None, None, window_ms, window_events)
                    if violation := violation_of_sample(seen, statistic, figures, window):
                        yield Finding(name, tick, emission.provisional, whole, violation=violation)
                    continue
                for item in _missing(seen, statistic, figures, window):
                    missing = Figure(label, None, None, None, window_ms, window_events, item=item)
                    yield Finding(
                        name, tick, emission.provisional, missing, violation="a top item not listed"
                    )


def due(declaration: Declaration, key: ExactKey, watermark_ms: int) -> set[int]:
    """The ticks at which a key is emitted: the first after each event, the first at which the span
    has none left, and that at which it is forgotten, as far as the watermark came.
    """
    every = declaration.every_ms
    times = key.times
    ticks = (times // every + 1) * every
    wanted = set(ticks[ticks <= watermark_ms].tolist())
    for silence in declaration.silences if len(times) else ():
        silent = ((times + silence) // every + 1) * every
        following = np.append(times[1:], watermark_ms)
        wanted.update(silent[silent <= np.minimum(following, watermark_ms)].tolist())
    return wanted


def _counted_from(figures: Sequence[Figure]) -> int | None:
    """From when on the items of a list are counted; None for all of its window."""
    return max((f.counted_from_ms for f in figures if f.counted_from_ms is not None), default=None)


def _window_ms(
    declaration: Declaration, statistic: DeclaredStatistic | None, figure: Figure
) -> int | None:
    """The window of time that a figure is of: the span, if it is told once in an emission."""
    if statistic is None or statistic.has_windows:
        return figure.window_ms
    return declaration.span


FigurePlace = tuple[
    str, int | None, int | None, float | None, float | None, float | None, str | None
]
"""What tells a figure from the others of its emission."""


def expected_figures(declaration: Declaration) -> frozenset[FigurePlace]:
    """The figures that each emission has; what items have is left out."""
    return frozenset(
        (s.label, *length, series.quantile, series.at_least, series.below, series.item)
        for s in declaration.statistics
        for length in (declaration.lengths if s.is_windowed else ((None, None),))
        for series in s.series or ()
    )


def _place(figure: Figure) -> FigurePlace:
    return (
        *(figure.statistic, figure.window_ms, figure.window_events),
        *(figure.quantile, figure.at_least, figure.below, figure.item),
    )


def _without(expected: frozenset[FigurePlace], emission: Emission) -> Iterator[str]:
    """Yield a text for each statistic that an emission lacks."""
    lacking = expected - {_place(figure) for figure in emission.figures}
    if not lacking:
        return
    all_of = Counter(place[0] for place in expected)
    for label, count in sorted(Counter(place[0] for place in lacking).items()):
        of = "" if count == all_of[label] else f" {count} of {all_of[label]} figures of"
        yield f"emitted without{of} {label}"


def _missing(
    key: ExactKey, statistic: DeclaredStatistic, listed: Sequence[Figure], window: slice
) -> list[str]:
    """Items with a share of epsilon that a list with room for them has not."""
    if len(listed) >= statistic.parameters["limit"]:
        return []
    share = Fraction(statistic.parameters["epsilon"]) * key.taken(statistic, window)
    tallies = key.tallies(statistic.column, window)
    frequent = np.flatnonzero((tallies > 0) & (tallies >= float(share))).tolist()
    if not frequent:
        return []
    names, listed_names = key.items(statistic.column), {figure.item for figure in listed}
    return [names[code] for code in frequent if names[code] not in listed_names]
