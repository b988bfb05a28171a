"""Figures as people read them: a statistic with what qualifies it, a window, bounds, times."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slidestat.schemas.emission import Figure, LostRecords
from slidestat.schemas.event import EARLIEST_TIME_MS
from slidestat.text.durations import human_duration
from slidestat.text.figure_numbers import numbers_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """A figure with its emission's key, window end and marks."""

    key: str
    window_end_ms: int
    figure: Figure
    provisional: bool = False
    lost: LostRecords | None = None

    @property
    def marks(self) -> str:
        """Return the remarks on the figure, "" for none."""
        marks = ["provisional"] if self.provisional else []
        if self.lost is not None and self._may_lack(self.lost):
            marks.append(f"may lack {self.lost.records:,} lost records")
        if self.figure.counted_from_ms is not None:
            marks.append(f"counted since {iso_time(self.figure.counted_from_ms)}")
        return ", ".join(marks)

    def _may_lack(self, lost: LostRecords) -> bool:
        """Return whether the figure's own window may lack lost records, not just the longest
        window.
        """
        if self.window_end_ms <= lost.from_ms:
            return False
        length = self.figure.window_ms
        if length is None or lost.until_ms is None:
            return True
        return self.window_end_ms - length <= lost.until_ms


def cells(row: Row) -> tuple[str, ...]:
    """Return key, statistic, window, its end, estimate, lower, upper, and half the width of the
    bounds in per cent of the estimate. A figure or a share that does not exist is "-".
    """
    f = row.figure
    return (
        printable(row.key),
        qualified(f),
        window_text(f),
        iso_time(row.window_end_ms),
        *numbers_text(f.estimate, f.lower, f.upper),
        _percent(f),
    )


def qualified(figure: Figure) -> str:
    """Return the statistic with all that identifies the figure in its window: quantile 0.99."""
    words = [printable(figure.statistic)]
    if figure.quantile is not None:
        words.append(short(figure.quantile))
    if figure.item is not None:
        words.append(f'"{printable(figure.item)}"')
    if figure.at_least is not None or figure.below is not None:
        words.append(_values(figure))
    return " ".join(words)


def bounds_text(figure: Figure) -> str:
    """Return a figure with its bounds, in words: quantile 0.99 250 in [245, 255]."""
    if figure.estimate is None:
        return f"{qualified(figure)} -"
    estimate, lower, upper = numbers_text(figure.estimate, figure.lower, figure.upper)
    return f"{qualified(figure)} {estimate} in [{lower}, {upper}]"


def window_text(figure: Figure) -> str:
    """Return the length of a figure's window: 5m, 1,000 events, or all."""
    if figure.window_ms is not None:
        return human_duration(figure.window_ms)
    if figure.window_events is not None:
        return f"{figure.window_events:,} events"
    return "all"


def iso_time(time_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds if it has any; a sequence number as it
    is.
    """
    if 0 <= time_ms < EARLIEST_TIME_MS:
        return f"{time_ms:,}"
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _values(figure: Figure) -> str:
    """Return the range of a figure's values as an interval; of "above" its threshold alone."""
    least, below = figure.at_least, figure.below
    if figure.statistic == "above" and least is not None and below is None:
        return short(least)
    left = "(-∞" if least is None else f"[{short(least)}"
    right = "∞" if below is None else short(below)
    return f"{left}, {right})"


def _percent(figure: Figure) -> str:
    if figure.estimate is None or figure.lower is None or figure.upper is None:
        return "-"
    half_width = figure.upper / 2 - figure.lower / 2  # Their difference may be too large.
    if half_width == 0:
        return "0.00"
    if figure.estimate == 0:
        return "-"
    return f"{100 * (half_width / abs(figure.estimate)):.2f}"


def short(number: float) -> str:
    """Return the shortest text that reads back as the number, without ".0"."""
    return repr(number).removesuffix(".0")


def printable(text: str) -> str:
    """Escape what would move the cursor: keys and items are anybody's text."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
