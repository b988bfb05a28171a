"""The plain names of a topology's figures, for conditions and for columns: count, mean, p99.

A figure is called as its statistic, with `_` for what no name of a column has. A quantile is `p99`
or `p99_9`, and LABEL_p99 where its statistic has a label of its own; a range is LABEL_10_to_100,
LABEL_below_10 or LABEL_from_100; an item that is named beforehand is LABEL_ITEM.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from slidestat.declare.fields import FieldPath
from slidestat.declare.statistics import Quantiles, Statistic
from slidestat.declare.statistics.base import ListStatistic, Series
from slidestat.declare.times.calendar_windows import CALENDAR_WINDOWS
from slidestat.errors import SlidestatError, unknown

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")


_BEFORE_UNIT = re.compile(r"\s+(?=(?:ms|s|m|h|d)$)")
_QUANTILE = re.compile(r"p(\d{1,3}(?:_\d{1,9})?)$")


class AskedQuantile(NamedTuple):
    """A quantile by the name that its figure has, p99_9, and its share, 0.999."""

    name: str
    share: Decimal


class NamedFigure(NamedTuple):
    """A figure's name, and its window; None for a figure without a window."""

    name: str
    window: int | None


class FigureSource(NamedTuple):
    """The statistic of a figure with its label and the path of what it reads; which of its figures
    it is; and its window, None for a figure without one.
    """

    statistic: Statistic
    label: str
    path: FieldPath
    series: Series
    window: int | None

    @property
    def named(self) -> NamedFigure:
        """Return the figure's name and window."""
        return NamedFigure(_name(self.statistic, self.label, self.series), self.window)


def asked_quantile(text: str) -> AskedQuantile | None:
    """Return the quantile that a name ends with, None if it ends with none."""
    found = _QUANTILE.search(text)
    if found is None or (percent := Decimal(found[1].replace("_", "."))) > 100:
        return None
    return AskedQuantile(found[0], (percent / 100).normalize())


def plain_name(text: str) -> str:
    """Return a text with nothing but letters, digits and `_`."""
    return _NO_NAME.sub("_", text)


def text_name(window: str) -> str:
    """Return how the name of a figure ends that is of a window, whose length is written so."""
    return plain_name(_BEFORE_UNIT.sub("", window.strip()))


def figure_sources(
    statistics: Sequence[Statistic],
    labels: Sequence[str],
    windows: Sequence[int],
    value_field: FieldPath,
) -> list[FigureSource]:
    """Return the figures of an emission, except those of lists of items and derived ones, in their
    order in it; statistics that name no field read `value_field`.
    """
    return [
        FigureSource(statistic, label, statistic.path(value_field), series, window)
        for statistic, label in zip(statistics, labels, strict=True)
        if not isinstance(statistic, ListStatistic)
        for window in (windows if statistic.has_windows else (None,))
        for series in statistic.series()
    ]


def names_over_windows(
    figures: Sequence[NamedFigure], texts: Mapping[int, Sequence[str]]
) -> dict[str, list[int]]:
    """Return the places of figures by their names over several windows, whose lengths were written
    as `texts`: count_5m, p99_1h; without a window where there is one alone, or none. A name of
    several figures has several places, and so has that of a statistic that is called count_5m.
    """
    found: dict[str, list[int]] = {}
    own = {name: place for place, (name, _) in enumerate(figures)}
    for place, (name, window) in enumerate(figures):
        if window is not None:
            written = set(map(text_name, texts[window]))
            for text in sorted(written):
                of_window = f"{name}_{text}"
                found.setdefault(of_window, []).append(place)
                if of_window in own and len(texts) > 1:
                    found[of_window].append(own[of_window])
        if window is None or len(texts) == 1:
            found.setdefault(name, []).append(place)
    return found


def place_over_windows(
    name: str,
    over_windows: Mapping[str, Sequence[int]],
    what: str,
    derived: Iterable[str] | None = None,
) -> int:
    """Return the place of the figure that has a name with its window; where the names of `derived`
    ones are given, it could have been one of them.

    Raises SlidestatError, beginning with `what`, for a name that no figure has, or several have.
    """
    if name not in over_windows:
        if not over_windows:
            raise SlidestatError(f"{what}.", "Lists of items have no figure to be read.")
        nor = "" if derived is None else ", and none that is derived before"
        error = f"{what}, which is no figure with its window{nor}."
        for window in CALENDAR_WINDOWS:
            own = name.removesuffix(f"_{window}")
            if own != name and any(it.startswith(f"{own}_") for it in over_windows):
                raise SlidestatError(error, f'Put "{window}" into `windows`, with a `time_zone`.')
        if any(sign in name for sign in " (/*+"):
            advice = f'Give what is computed a name, derived = ["{name} as NAME"], and use that.'
            raise SlidestatError(error, advice)
        raise unknown(error, name, [*over_windows, *(derived or ())])
    if len(over_windows[name]) > 1:
        raise SlidestatError(
            f"{what}, and several statistics have a figure of that name.",
            "Give one of these statistics another name.",
        )
    return over_windows[name][0]


def short_names(figures: Sequence[NamedFigure], window: int | None) -> dict[str, list[int]]:
    """Return the places of the figures of one window, and of those without one, by their names."""
    found: dict[str, list[int]] = {}
    for place, figure in enumerate(figures):
        if figure.window in (None, window):
            found.setdefault(figure.name, []).append(place)
    return found


def ambiguous_names(figures: Sequence[NamedFigure]) -> set[str]:
    """Return the names of several figures of a window, or of one with a window and one without."""
    counted = Counter(figures)
    of_none = Counter(figure.name for figure in figures if figure.window is None)
    return {
        figure.name
        for figure, count in counted.items()
        if count > 1 or (figure.window is not None and of_none[figure.name])
    }


def _name(statistic: Statistic, label: str, series: Series) -> str:
    label = plain_name(label)
    if series.quantile is not None:
        percent = f"p{_number(series.quantile, 100)}"
        is_own = isinstance(statistic, Quantiles) and label == statistic.kind
        return percent if is_own else f"{label}_{percent}"
    if series.at_least is not None and series.below is not None:
        return f"{label}_{_number(series.at_least)}_to_{_number(series.below)}"
    if series.at_least is not None:
        return f"{label}_from_{_number(series.at_least)}"
    if series.below is not None:
        return f"{label}_below_{_number(series.below)}"
    return label if series.item is None else f"{label}_{plain_name(series.item)}"


def _number(number: float, times: int = 1) -> str:
    text = f"{(Decimal(repr(float(number))) * times).normalize():f}"
    return plain_name(text.replace("-", "minus_"))
