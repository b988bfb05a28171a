"""An alert: a condition on the figures of an emission, and for how long it must hold."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import chain, pairwise, product
from typing import Any, NamedTuple

import numpy as np

from slidestat.declare.expressions.expression import Expression, condition, sorts_of
from slidestat.declare.expressions.intervals import Numbers
from slidestat.declare.expressions.known_intervals import Facts, KnownIntervals
from slidestat.declare.expressions.nodes import (
    COMPARISONS,
    Call,
    FieldValue,
    Literal,
    Node,
    Sort,
    calls_of,
    fields_of,
    text_of,
)
from slidestat.declare.expressions.parsing import parsed
from slidestat.declare.fields import FieldPath, field_text
from slidestat.declare.figure_names import (
    FigureSource,
    NamedFigure,
    ambiguous_names,
    asked_quantile,
    plain_name,
    short_names,
)
from slidestat.declare.naming import NAME, NAME_RULE, check_texts
from slidestat.declare.statistics.base import Statistic
from slidestat.declare.times.calendar_windows import CalendarWindow
from slidestat.declare.values import check_named, check_values
from slidestat.errors import SlidestatError, unknown

ALERTS_LABEL = "alerts"
"""The name under which a digest of the declared alerts is stored with states."""

# Operators that carry the bounds of figures over to their results.
_TRUTHS = frozenset(("and", "or", "not", "in", "is null", "is true", "is false")) | COMPARISONS
_NUMBERS = frozenset(("negate", "+", "-", "*", "/", "coalesce"))
MOST_TICKS = 1_000_000
BEFORE, AFTER = OF_CHANGE = "before", "after"
"""The names of what a change is from and to."""
LEAST_DELTA, MOST_DELTA = 1e-15, 0.5
_MOST_ALERTS = 100


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A condition on the figures of a key, or a change of one, evaluated at each tick at which it
    may be another.

    It fires when `when` has been true at `for` ticks in a row. It is resolved when `resolve` is
    true, when `when` is not true and its windows have none of the key's events, and once the key is
    forgotten.

    name: what it is called, 1 to 100 letters, digits, '.', '_' and '-'.
    when: the condition, as SQL over the figures' names: "p99 > 500 and count >= 100"; over several
    windows, each name with its window: "errors_1h / count_1h > 0.01 and errors_5m > 10". Of a
    window that ended so long before: "count_1h < 0.5 * ago(count_1h, '24h')". With `change` it may
    be left out, and may read what the change is from and to: "after > 1.2 * before".
    change: a mean, "mean_took_ms", a rate, "rate", or a share of two counts, "errors / count", that
    must have changed within its window: what came last differs from the window by more than chance
    makes it.
    delta: the probability, at most, with which chance alone makes it so at one evaluation, 1e-15 to
    0.5.
    window: which of the topology's windows names without one are of; if it is left out, the only
    one.
    for_: at so many ticks in a row, multiples of `every` with or without events, or for so long, of
    event time: "2m"; in TOML `for`.
    resolve: the condition for it to be resolved; without one, that `when` is not true.
    certain: whether it fires and is resolved only where the bounds say so, not on an estimate.
    severity: how urgent it is, such as "page" or "ticket": a field of its records, and a label for
    an Alertmanager.
    labels: further labels, fixed texts by which an Alertmanager routes: { team = "shop" }.
    annotations: further texts for people: { description = "Checkout is slow" }.
    runbook: the address of the page that says what to do: an annotation `runbook_url`.

    Raises SlidestatError, naming the field, for an alert that cannot be.
    """

    name: str
    when: str = ""
    window: str = ""
    for_: int | str = 1
    resolve: str = ""
    certain: bool = False
    severity: str = ""
    change: str = ""
    delta: float = 1e-6
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    runbook: str = ""

    def __post_init__(self) -> None:
        check_values(self)
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise SlidestatError(f"name is {self.name!r}, which cannot name an alert.", NAME_RULE)
        if not isinstance(self.for_, str) and (
            type(self.for_) is not int or not 1 <= self.for_ <= MOST_TICKS
        ):
            raise SlidestatError(
                f"for is {self.for_!r}.",
                f'Give how many ticks in a row, from 1 to {MOST_TICKS:_}, or how long: "2m".',
            )
        if not isinstance(self.window, str):
            raise SlidestatError(
                f"window is {self.window!r}, which is no text.", 'Write one of the windows: "5m".'
            )
        if type(self.certain) is not bool:
            raise SlidestatError(f"certain is {self.certain!r}.", "Give true or false.")
        if not isinstance(self.severity, str) or (
            self.severity and not NAME.fullmatch(self.severity)
        ):
            raise SlidestatError(f"severity is {self.severity!r}.", NAME_RULE)
        check_texts(self.labels, self.annotations, self.runbook)
        if not isinstance(self.change, str):
            raise SlidestatError(
                f"change is {self.change!r}, which is no text.", 'Name a figure: "mean_took_ms".'
            )
        for name in ("when", "resolve"):
            text = getattr(self, name)
            if not isinstance(text, str) or (name == "when" and not (text or self.change)):
                raise SlidestatError(
                    f"{name} is {text!r}, which is no condition.", 'Write one, such as "p99 > 500".'
                )
        if type(self.delta) not in (float, int) or not LEAST_DELTA <= self.delta <= MOST_DELTA:
            raise SlidestatError(
                f"delta is {self.delta!r}.",
                f"Give the chance of a false alarm at a tick, {LEAST_DELTA:g} to {MOST_DELTA}.",
            )
        if not self.change and self.delta != Alert.delta:
            raise SlidestatError(
                f"delta is {self.delta!r}, and no change is asked for.",
                "Give a `change` too, or leave it out.",
            )
        _ = (self.condition, self.resolution, self.changing)

    @property
    def condition(self) -> Expression | None:
        """Return the condition for it to fire; None for any change."""
        return figure_condition(self.when, "when") if self.when else None

    @property
    def changing(self) -> Expression | None:
        """Return what must have changed; None if nothing need have."""
        return _changing(self.change) if self.change else None

    @property
    def resolution(self) -> Expression | None:
        """Return the condition to resolve it; None if it is resolved once `when` is not true."""
        return figure_condition(self.resolve, "resolve") if self.resolve else None

    @property
    def texts(self) -> dict[str, Any]:
        """Return the fields for people of its records and answers, in an order of their own."""
        return {
            "severity": self.severity,
            "labels": dict(sorted(self.labels.items())),
            "annotations": dict(sorted(self.annotations.items())),
            "runbook": self.runbook,
        }

    def ticks(self, every: int, duration: Callable[[str, str], int]) -> int:
        """Return at how many ticks in a row the condition must hold, one each `every`; `duration`
        reads a length of event time. From the first to the last of them is as long as `for`.
        """
        if not isinstance(self.for_, str):
            return self.for_
        field = f"the for of the alert {self.name}"
        ticks = -(-duration(self.for_, field) // every) + 1
        if ticks > MOST_TICKS:
            raise SlidestatError(
                f"{field} is {self.for_!r}, {ticks:,} ticks.", f"Give at most {MOST_TICKS:,} ticks."
            )
        return ticks


def figure_name(path: FieldPath) -> str:
    """Return the name of the figure that a condition reads by this path."""
    return plain_name(field_text(path))


def read_figures(alert: Alert) -> list[str]:
    """Return the names of the figures that an alert reads, each once, in conditions' order."""
    expressions = (alert.changing, alert.condition, alert.resolution)
    paths = (path for known in expressions if known is not None for path in known.paths)
    taken = OF_CHANGE if alert.change else ()
    return [name for name in dict.fromkeys(map(figure_name, paths)) if name not in taken]


def check_alerts(alerts: object) -> None:
    """Raise SlidestatError unless these are alerts with different names."""
    check_named(Alert, alerts, _MOST_ALERTS, 'Alert(name="slow", when="p99 > 500")')


class AlertFigures(NamedTuple):
    """The figures that an alert reads: their places among the topology's, by the names that it has
    for them, and their windows, shortest first; those of statistics that it reads are `parts`.

    `window` is the one of names without a window; None if none of them needs one.
    """

    places: dict[str, int]
    windows: tuple[int, ...]
    window: int | None
    parts: tuple[int, ...]


def alert_figures(
    alert: Alert,
    figures: Sequence[NamedFigure],
    parts_of: Callable[[int], Sequence[int]],
    over_windows: Mapping[str, Sequence[int]],
    windows: Sequence[int],
    length: int | None,
) -> AlertFigures:
    """Return the figures that an alert reads. `parts_of` returns the places of the figures from
    which the one at a place is computed, `over_windows` the places of all `figures` by their names
    with a window; `windows` are the topology's, and `length` is that of the alert's `window`, None
    without one.

    Raises SlidestatError for names that no figure has, or several have, and for a window that is
    missing or wrong.
    """
    if length is not None and length not in windows:
        raise SlidestatError(
            f"the window of the alert {alert.name} is {alert.window!r}, which is none of the"
            " topology's windows.",
            "Give one of them, or add this one to them.",
        )
    own = windows[0] if length is None and len(windows) == 1 else length
    short = short_names(figures, own)
    of_windows = {figure.name for figure in figures if figure.window is not None}
    ambiguous = ambiguous_names(figures)
    # A name with a window that a statistic has as well is that statistic's.
    known: Mapping[str, Sequence[int]] = {**over_windows, **short}
    places: dict[str, int] = {}
    for name in read_figures(alert):
        what = f"the alert {alert.name} reads {name!r}"
        if name not in known and name in of_windows:
            of_name = [place for place, figure in enumerate(figures) if figure.name == name]
            raise SlidestatError(
                f"the window of the alert {alert.name} is missing, and there are {len(windows)}.",
                "Say which of the topology's windows the figures are of, or name each with its"
                f" window: {next(it for it in over_windows if over_windows[it][0] in of_name)}.",
            )
        if name not in known and is_field(name):
            raise SlidestatError(f"{what}, {NOT_IN_CONDITION}", beside(alert.name, name))
        if name not in known:
            raise _unknown_figure(
                f"{what}, which is no figure that it could read.",
                name,
                dict.fromkeys(
                    (*(it.name for it in figures), *(over_windows if len(windows) > 1 else ()))
                ),
            )
        if name in ambiguous or len(known[name]) > 1:
            raise SlidestatError(
                f"{what}, and several statistics have a figure of that name.",
                "Give one of these statistics another name.",
            )
        (places[name],) = known[name]
    parts = [part for place in places.values() for part in parts_of(place)]
    read = {figures[place].window for place in parts} - {None}
    is_short = not read or any(name in short and name in of_windows for name in places)
    if length is not None and not is_short and length not in read:
        raise SlidestatError(
            f"the window of the alert {alert.name} is {alert.window!r}, and each figure that it"
            " reads is of another one, by its name.",
            "Leave the window out, or the windows of the names that are to be of it.",
        )
    if not is_short:
        own = None
    found = read | ({own} - {None})
    lengths = tuple(sorted(it for it in found if it is not None))
    return AlertFigures(places, lengths, own, tuple(dict.fromkeys(parts)))


# Whether a condition can be true at all.

# Where its literals cut the figures into more combinations than this, it is taken as it is written.
_MOST_CELLS = 4_096


class ReadFigures(NamedTuple):
    """The figures of a condition: statistic and window, None without one, of those of statistics,
    by their places; what computes the numbers of one at a place from those of all parts; and what
    finds the facts of some by their paths.
    """

    parts: Mapping[int, FigureSource]
    places: Mapping[str, int]
    numbers: Callable[[int, int, Callable[[int], Numbers]], Numbers]
    facts: Callable[[Mapping[FieldPath, FigureSource]], Facts]


def check_possible(
    alert: Alert,
    figures: ReadFigures,
    windows: Sequence[int],
    ticks: int,
    emptied_ticks: Callable[[int, int | None], int],
) -> None:
    """Raise SlidestatError for an alert whose condition no evaluation can make true at `ticks`
    ticks in a row: of `windows`, shortest first, with events, or of some that have emptied.
    `emptied_ticks` returns at up to how many ticks a key has none in the first of two windows and
    some in the second, or, if that is None, is not forgotten.
    """
    for name, asked in (("when", alert.condition), ("resolve", alert.resolution)):
        if asked is None or may_be_true(asked, figures, emptied=0):
            continue
        what = f"the alert {alert.name} has {name} = {getattr(alert, name)!r}"
        # The longer window empties after the shorter one.
        possible = [may_be_true(asked, figures, emptied=window) for window in windows]
        if not any(possible):
            raise SlidestatError(f"{what}, which no figures make true.", "Give another condition.")
        most, first = 0, None
        for window, longer, is_possible in zip(
            windows, (*windows[1:], None), possible, strict=True
        ):
            first = (first or window) if is_possible else None
            if first is not None:
                most = max(most, emptied_ticks(first, longer))
        if name == "when" and not most:
            raise SlidestatError(
                f"{what}, which is true of a window without events alone, and no key has such a"
                " window before it is forgotten: it would never fire.",
                "Give the alert a window that is shorter than the span, or the topology a longer"
                " span.",
            )
        if name == "when" and ticks > most:
            raise SlidestatError(
                f"{what}, which is true of a window without events alone: a key has that at up to"
                f" {most:,} ticks before it is forgotten, and for = {alert.for_!r} takes"
                f" {ticks:,}.",
                "Shorten `for`, or lengthen the span.",
            )


def may_be_true(asked: Expression, figures: ReadFigures, *, emptied: int) -> bool:
    """Return whether a condition may be true where windows up to the length `emptied` have no
    events, and all others have some.
    """
    limits = sorted({float(it) for it in _numbers_in(asked.node)})
    own = [_cells_of(it, limits, emptied) for it in figures.parts.values()]
    if math.prod(map(len, own)) > _MOST_CELLS:
        own = [_cells_of(it, [], emptied) for it in figures.parts.values()]
    rows = np.array(list(product(*own)), float).reshape(-1, len(own), 3)
    parts = {place: Numbers.of(rows[:, i]) for i, place in enumerate(figures.parts)}
    past = Numbers.within(math.inf, len(rows))
    numbers = {
        path: figures.numbers(figures.places[name], len(rows), parts.__getitem__)
        if (name := figure_name(path)) in figures.places
        else past  # A change reads an earlier figure.
        for path in asked.paths
    }
    known: dict[Node, Numbers] = dict.fromkeys(calls_of(asked.node, "ago"), past)
    of_statistics = {
        path: figures.parts[place]
        for path in asked.paths
        if (place := figures.places.get(figure_name(path), -1)) in figures.parts
    }
    facts = figures.facts(of_statistics)
    truths = KnownIntervals(len(rows), numbers, facts, known).truths(asked.node)
    return bool(truths.may_be_true.any())


def _numbers_in(node: Node) -> Iterator[float | int]:
    if isinstance(node, Literal) and isinstance(node.value, float | int):
        yield node.value
    if isinstance(node, Call):
        for operand in node.operands:
            yield from _numbers_in(operand)


def _cells_of(
    figure: FigureSource, limits: Sequence[float], emptied: int
) -> list[tuple[float, float, float]]:
    """Return what a figure may be where windows up to the length `emptied` have no events; one of
    the calendar may have some or none.
    """
    if isinstance(figure.window, CalendarWindow):
        both = (_cells(figure.statistic, limits, has_events=it) for it in (True, False))
        return [*chain.from_iterable(both)]
    has_events = figure.window is None or figure.window > emptied
    return _cells(figure.statistic, limits, has_events=has_events)


def _cells(
    statistic: Statistic, limits: Sequence[float], *, has_events: bool
) -> list[tuple[float, float, float]]:
    """Return what a figure may be, cut at `limits`: estimates, lowers and uppers, NaN for NULL."""
    null = (math.nan,) * 3
    is_of_window = statistic.has_windows and not statistic.is_landmark
    if not has_events and is_of_window:
        return [(0.0,) * 3, null]
    # Each event counts.
    counts = statistic.kind == "count" and not statistic.where
    least = 1.0 if counts else statistic.least_figure
    cuts = [-math.inf, *limits, math.inf]
    cells = [(limit, limit) for limit in limits]
    cells += [
        (math.nextafter(low, math.inf), math.nextafter(high, -math.inf))
        for low, high in pairwise(cuts)
    ]
    cells = [(max(low, least), high) for low, high in cells]
    inside = [(low, low, high) for low, high in cells if low <= high]
    return inside if counts else [*inside, null]


def _unknown_figure(error: str, name: str, known: Iterable[str]) -> SlidestatError:
    name = "p50" if name == "median" else name
    known = list(known)
    if not known:
        return SlidestatError(error, "Lists of items have no figure that an alert could read.")
    asked = asked_quantile(name)
    if asked is None or any(figure.endswith(asked.name) for figure in known):
        return unknown(error, name, known)
    return SlidestatError(
        error,
        f"Any quantile can be had: for {asked.name} put {asked.share:f} into the list `quantiles`"
        f" of a statistic of the kind quantile. There are {', '.join(known)}.",
    )


def label_of(alerts: Sequence[Alert], windows: Sequence[int | None], derived: str) -> str:
    """Return a short text that is different for different alerts: 16 hexadecimal digits. `windows`
    are the lengths of the windows of their names without one; `derived` the expressions of derived
    figures that they read, "" if they read none.
    """
    declared = sorted(
        (a.name, a.when, window, a.for_, a.resolve, a.certain)
        + ((a.change, a.delta) if a.change else ())
        for a, window in zip(alerts, windows, strict=True)
    )
    text = f"{declared!r}{derived}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def figure_condition(text: str, what: str) -> Expression:
    """Return the condition on figures in a text; raises SlidestatError, naming `what`, for one that
    cannot be evaluated over bounds.
    """
    found = condition(text, what, Sort.NUMBER)
    check_computable(found.node, text, what)
    return found


NOT_IN_CONDITION = "which is no figure, but a field of an alert."


def is_field(name: str) -> bool:
    """Return whether a name, in any case, is that of a field of an alert."""
    return name.lower() in {field.name.removesuffix("_") for field in fields(Alert)}


def beside(alert: str, name: str) -> str:
    """Return what to do where a field of an alert was given as its condition."""
    name = name.lower()
    if name == "when":
        return f'Write the condition alone: when = "p99 > 500", as a flag "{alert}:p99 > 500".'
    before = "" if name == "change" else "p99 > 500"
    return (
        f'Give it beside the condition: {name} = "...", as a flag "{alert}:{before}:{name}=...",'
        " with the condition, if any, between the first two colons."
    )


@lru_cache(maxsize=1_000)
def _changing(text: str) -> Expression:
    wrong = SlidestatError(
        f"change is {text!r}, which is neither a figure nor one divided by another.",
        'Write "mean_took_ms", "rate", or "errors / count".',
    )
    try:
        node = parsed(text, "change")
    except SlidestatError as error:
        raise wrong from error
    if not any(fields_of(node)) or not (
        isinstance(node, FieldValue) or (isinstance(node, Call) and node.operator == "/")
    ):
        raise wrong
    sorts = sorts_of(node, Sort.NUMBER, text, "change", Sort.NUMBER)
    return Expression(node, tuple(sorts.items()))


def _is_truth(node: Node) -> bool:
    if isinstance(node, Literal):
        return isinstance(node.value, bool)
    return isinstance(node, Call) and node.operator in _TRUTHS


def check_computable(node: Node, text: str, what: str) -> None:
    """Raise SlidestatError, naming `what`, unless an expression can be evaluated over bounds."""
    if not isinstance(node, Call) or node.operator == "ago":
        return
    of_numbers = node.operator in _NUMBERS or node.operator in COMPARISONS | {"in", "is null"}
    if not (of_numbers or node.operator in _TRUTHS) or (
        of_numbers and any(map(_is_truth, node.operands))
    ):
        raise SlidestatError(
            f"{what} is {text!r}: {text_of(node)} cannot be evaluated over bounds.",
            "Use comparisons, and, or, not, in, between, is null, and + - * / and coalesce over"
            " figures.",
        )
    for operand in node.operands:
        check_computable(operand, text, what)
