"""What `slidestat watch` shows: a live table on a terminal, else plain lines, or JSON."""

import sys
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.client.durations import human_duration
from app.client.watch import StatisticReader
from schemas.statistic import Statistic

_HEADINGS = ("key", "statistic", "window", "window end", "estimate", "lower", "upper", "± %")
_FIGURES = frozenset(("window", "estimate", "lower", "upper", "± %"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def watch(reader: StatisticReader, rows: int, *, as_json: bool) -> None:
    """Show what the reader reads until it ends or Ctrl-C is pressed.

    `rows` bounds the table, and what is shown once. Raises SlidestatError as the reader does.
    """
    console = Console(highlight=False)
    try:
        if as_json:
            _show_json(reader)
        elif reader.once:
            _show_latest(reader, rows, console)
        elif console.is_terminal:
            _show_live(reader, rows, console)
        else:
            _show_lines(reader)
    except KeyboardInterrupt:
        pass  # It is how watching ends.
    if reader.skipped:
        print(f"{reader.skipped} records were not statistics.", file=sys.stderr)


class Latest:
    """The latest statistic of each series, the `rows` most recently updated ones."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._by_series: OrderedDict[tuple[str, str, str, int], Statistic] = OrderedDict()

    def update(self, statistics: Iterable[Statistic]) -> None:
        for s in statistics:
            series = (s.topology, s.statistic, s.key, s.window_ms)
            known = self._by_series.get(series)
            if known is not None and known.window_end_ms > s.window_end_ms:
                continue  # Partitions are read side by side: an older window may come later.
            self._by_series[series] = s
            self._by_series.move_to_end(series)
            if len(self._by_series) > self._rows:
                self._by_series.popitem(last=False)

    def newest_first(self) -> list[Statistic]:
        return list(reversed(self._by_series.values()))


def cells(s: Statistic) -> tuple[str, ...]:
    """A statistic as text, in the order of the table's columns.

    The last is half the width of the bounds as a share of the estimate.
    """
    half_width = (s.upper - s.lower) / 2
    percent = 100 * half_width / s.estimate if s.estimate else 0.0
    figures = (f"{figure:,.10g}" for figure in (s.estimate, s.lower, s.upper))
    return (
        _printable(s.key),
        _printable(s.statistic),
        human_duration(s.window_ms),
        iso_time(s.window_end_ms),
        *figures,
        f"{percent:.2f}",
    )


def iso_time(time_ms: int) -> str:
    """ISO 8601 in UTC, with milliseconds where there are any."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _printable(text: str) -> str:
    """Escape what would move the cursor: keys are anybody's text."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _show_json(reader: StatisticReader) -> None:
    for records in reader.batches():
        for record in records:
            sys.stdout.write(record.json.decode() + "\n")
        sys.stdout.flush()


def _show_lines(reader: StatisticReader) -> None:
    for records in reader.batches():
        for record in records:
            print(_line(record.statistic))
        sys.stdout.flush()


def _show_latest(reader: StatisticReader, rows: int, console: Console) -> None:
    latest = Latest(rows)
    for records in reader.batches():
        latest.update(record.statistic for record in records)
    if console.is_terminal:
        console.print(_table(latest.newest_first(), reader))
    else:
        for statistic in latest.newest_first():
            print(_line(statistic))


def _show_live(reader: StatisticReader, rows: int, console: Console) -> None:
    latest = Latest(rows)
    with Live(_table([], reader), console=console, auto_refresh=False) as live:
        for records in reader.batches():
            latest.update(record.statistic for record in records)
            live.update(_table(latest.newest_first(), reader), refresh=True)


def _line(s: Statistic) -> str:
    key, statistic, window, end, estimate, lower, upper, percent = cells(s)
    return (
        f"{end} {window:>4} {statistic:<6} {key:<16} "
        f"{estimate:>14} in [{lower}, {upper}] ±{percent}%"
    )


def _table(statistics: list[Statistic], reader: StatisticReader) -> Table:
    caption = None if statistics else f"waiting for statistics on {reader.topic}; Ctrl-C ends"
    table = Table(caption=caption)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in _FIGURES else "left", no_wrap=True)
    for statistic in statistics:
        table.add_row(*(Text(cell) for cell in cells(statistic)))
    return table
