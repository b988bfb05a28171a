"""Show the figures of `slidestat watch`: a live table on a terminal, else plain lines, or JSON; and
of `slidestat watch --alerts` lines as they come, a table at once, or JSON. A table that a terminal
is too narrow for gives way to lines.
"""

import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slidestat.errors import unknown
from slidestat.options import TAIL_RECORDS
from slidestat.schemas.alert import AlertChange
from slidestat.schemas.emission import Emission
from slidestat.text import (
    Row,
    bounds_text,
    cells,
    change_text,
    iso_time,
    plain_detail,
    printable,
    qualified,
)

if TYPE_CHECKING:  # Rows are shown without Kafka's client, too.
    from slidestat.declare.declared import Declared
    from slidestat.kafka.read.topic_reader import AlertReader, EmissionReader, TopicReader

Read = TypeVar("Read")

# After this time without a record the command says what it will show.
_SILENCE_S = 5.0
# Characters of the statistic in a plain line: at least, and at most for the sake of the others.
_NARROWEST, _WIDEST = 14, 40
# Characters of a window in a plain line, at least.
_SHORT_WINDOW = 4
_WRITTEN = "A worker writes figures when event time less the lateness passes a multiple of `every`."
_ALERTED = "A worker writes a record when an alert begins to fire, and when it is resolved."
_BEFORE = "Of what was written before, --once shows the newest and --from-beginning all."
_HEADINGS = ("key", "statistic", "window", "window end", "estimate", "lower", "upper", "± %")
_NUMBERS = frozenset(("window", "estimate", "lower", "upper", "± %"))
# Widths in a table: the border of each column; what is little for key and statistic together, and
# the least for either; the most for remarks, which continue in a next line.
_BORDER, _NARROW, _SHORTEST, _MARKS = 3, 24, 6, 11
# Columns of a terminal for a table of figures, at least.
_LEAST = 80
# A width that no table needs.
_ENOUGH = 10_000


def watch(reader: "EmissionReader", rows: int, statistic: str | None, *, as_json: bool) -> None:
    """Show what the reader reads until it ends or Ctrl-C is pressed.

    `rows` bounds the table, and what is shown once. With a `statistic`, only its figures are shown;
    as JSON, the records that have any. Raises SlidestatError as the reader does.
    """
    console = Console(highlight=False)
    try:
        if as_json:
            shown = _show_json(reader, statistic)
        elif reader.once:
            shown = _show_latest(reader, rows, statistic, console)
        elif _has_room(console):
            shown = _show_live(reader, rows, statistic, console)
        else:
            shown = _show_lines(reader, statistic)
        if reader.once and not shown and not reader.letters:
            print(_nothing(reader, statistic), file=sys.stderr)
    except KeyboardInterrupt:
        pass  # It is how watching ends.
    for reason, letters in reader.letters.items():
        one = letters.one
        print(
            f"Dead letters, {reason}: {letters.count:,}, such as"
            f" {one.topic}/{one.partition}/{one.offset}: {printable(plain_detail(one.detail))}",
            file=sys.stderr,
        )
    if reader.skipped:
        print(f"Records that were not emissions: {reader.skipped:,}.", file=sys.stderr)


def rows_of(emission: Emission, statistic: str | None) -> list[Row]:
    """Return a row for each of the figures, of all statistics or of one."""
    return [
        Row(emission.key, emission.window_end_ms, figure, emission.provisional, emission.lost)
        for figure in emission.figures
        if statistic in (None, figure.statistic)
    ]


_Age = tuple[int, bool]


class Latest:
    """The rows of the latest emissions, the `rows` most recently updated ones.

    An emission has all figures of its topology and key. So it replaces all figures of the previous
    one: an item that is no longer frequent leaves the table.
    """

    def __init__(self, rows: int, statistic: str | None = None) -> None:
        self._rows = rows
        self._statistic = statistic
        self._by_source: OrderedDict[tuple[str, str], tuple[_Age, list[Row]]] = OrderedDict()
        # Whether rows were left out for want of room.
        self.is_cut = False

    def update(self, emissions: Iterable[Emission]) -> None:
        for emission in emissions:
            source = (emission.topology, emission.key)
            # The final figures of a window replace its provisional ones.
            age = emission.window_end_ms, not emission.provisional
            newest, _ = self._by_source.get(source, (age, []))
            if newest > age:
                continue  # A worker that starts again may repeat an older one.
            self._by_source.pop(source, None)
            if rows := rows_of(emission, self._statistic)[: self._rows + 1]:
                self._by_source[source] = (age, rows)
            if len(self._by_source) > self._rows:
                self._by_source.popitem(last=False)
                self.is_cut = True

    def newest_first(self) -> list[Row]:
        """Return the rows of the newest emissions first; those of each emission in its order."""
        newest = reversed(self._by_source.values())
        rows = list(islice((row for _, rows in newest for row in rows), self._rows + 1))
        self.is_cut |= len(rows) > self._rows
        return rows[: self._rows]


def _batches(reader: "TopicReader[Read]", written: str) -> "Iterator[list[Read]]":
    """Yield the reader's batches; where none has a record for a while, say once what there is, and
    when more is written.
    """
    told_at = time.monotonic() + _SILENCE_S
    for records in reader.batches():
        yield records
        if not reader.once and told_at and time.monotonic() >= told_at:
            told_at = 0.0
            if not reader.read:
                before = "" if reader.from_beginning else f" {_BEFORE}"
                print(f"Nothing new for {_SILENCE_S:.0f} s.{before} {written}", file=sys.stderr)


def _show_json(reader: "EmissionReader", statistic: str | None) -> int:
    shown = 0
    for records in _batches(reader, _WRITTEN):
        for record in records:
            if statistic is None or rows_of(record.emission, statistic):
                sys.stdout.write(record.json.decode() + "\n")
                shown += 1
        sys.stdout.flush()
    return shown


def _show_lines(reader: "EmissionReader", statistic: str | None) -> int:
    shown = 0
    for records in _batches(reader, _WRITTEN):
        for record in records:
            shown += _print_lines(rows_of(record.emission, statistic))
        sys.stdout.flush()
    return shown


def _show_latest(
    reader: "EmissionReader", rows: int, statistic: str | None, console: Console
) -> int:
    latest = Latest(rows, statistic)
    for records in reader.batches():
        latest.update(record.emission for record in records)
    shown = show_rows(latest.newest_first(), console)
    if latest.is_cut:
        print(f"These are the newest {rows} rows; --rows shows more.", file=sys.stderr)
    return shown


def show_rows(rows: Sequence[Row], console: Console) -> int:
    """Show rows once, as a table on a terminal that is wide enough; how many there are."""
    if not _has_room(console):
        return _print_lines(rows)
    if rows:
        console.print(_table(rows, console.width))
    return len(rows)


def _has_room(console: Console) -> bool:
    """Return whether figures are shown as a table: on fewer columns its cells would be cut."""
    return console.is_terminal and console.width >= _LEAST


def full_width(console: Console, table: Table) -> int:
    """Return the width at which a table cuts and breaks nothing."""
    return console.measure(table, options=console.options.update(width=_ENOUGH)).maximum


def _show_live(reader: "EmissionReader", rows: int, statistic: str | None, console: Console) -> int:
    latest = Latest(rows, statistic)
    waiting = f"waiting for figures on {reader.topic}; Ctrl-C ends"
    if not reader.from_beginning:
        waiting += f"\n{_BEFORE}"
    with Live(_table([], console.width, waiting), console=console, auto_refresh=False) as live:
        for records in reader.batches():
            latest.update(record.emission for record in records)
            newest = latest.newest_first()
            caption = None if newest else waiting
            live.update(_table(newest, console.width, caption), refresh=True)
    return len(latest.newest_first())


def undeclared_note(declared: "Declared", statistic: str | None) -> str | None:
    """Return a note on a statistic that a topology does not declare, None for one that it does:
    older emissions may have it.
    """
    topology = declared.answering
    names = [*topology.labels, *(figure.name for figure in topology.derived_figures)]
    if statistic is None or statistic in names:
        return None
    refusal = unknown(f"{declared.name} declares no statistic {statistic!r}.", statistic, names)
    return f"{refusal.message} {refusal.advice}"


def _nothing(reader: "EmissionReader", statistic: str | None) -> str:
    """Return the reason why nothing was shown, in one line."""
    if not reader.read:
        return (
            f"Nothing is there: {reader.topic} has no emissions; `slidestat dlq count` says whether"
            f" records were refused. {_WRITTEN}"
        )
    wanted = []
    if reader.key_glob is not None:
        wanted.append(f"a key like {reader.key_glob!r}")
    if statistic is not None:
        wanted.append(f"the statistic {statistic!r}")
    none = " and ".join(wanted) or "any figures"
    cut = not reader.from_beginning and reader.read + reader.skipped >= TAIL_RECORDS
    advice = "; --from-beginning reads all" if cut else ""
    return f"Nothing is there: of {reader.read:,} emissions read, none has {none}{advice}."


def _print_lines(rows: Iterable[Row]) -> int:
    rows = list(rows)
    # Columns are aligned in what is shown at once, also with items in a statistic.
    longest = max((len(qualified(row.figure)) for row in rows), default=0)
    width = min(max(longest, _NARROWEST), _WIDEST)
    of_window = max((_SHORT_WINDOW, *(len(cells(row)[2]) for row in rows)))
    for row in rows:
        print(_line(row, width, of_window))
    return len(rows)


def _line(row: Row, width: int, of_window: int) -> str:
    key, statistic, window, end, estimate, lower, upper, percent = cells(row)
    share = "" if percent == "-" else f" ±{percent}%"
    mark = f" {row.marks}" if row.marks else ""
    return (
        f"{end} {window:>{of_window}} {statistic:<{width}} {key:<16} {estimate:>14}"
        f" in [{lower}, {upper}]{share}{mark}"
    )


def _table(rows: Sequence[Row], width: int, caption: str | None = None) -> Table:
    """Return a table for a terminal of `width` characters.

    Where it is narrow, keys and statistics continue in a next line, and times have no date: numbers
    are always complete. Rows of older window ends than the newest are dim: their keys were not
    written since.
    """
    newest = max((row.window_end_ms for row in rows), default=0)
    styles = ["dim" if row.window_end_ms < newest else None for row in rows]
    texts = [cells(row) for row in rows]
    marks = [row.marks for row in rows]
    longest = _longest(texts)
    of_marks = min(max(map(cell_len, marks), default=0), _MARKS)
    left = width - sum(longest[2:]) - _BORDER * (len(_HEADINGS) + (of_marks > 0)) - of_marks - 1
    if left < min(_NARROW, sum(longest[:2])):
        texts = [(*row[:3], row[3].rpartition("T")[2], *row[4:]) for row in texts]
        left += longest[3] - _longest(texts)[3]
    of_key = min(longest[0], max(_SHORTEST, left // 2, left - longest[1]))
    widths = of_key, max(_SHORTEST, left - of_key)
    table = Table(caption=caption)
    for heading, most in zip_longest(_HEADINGS, widths):
        table.add_column(
            heading,
            justify="right" if heading in _NUMBERS else "left",
            no_wrap=most is None,
            overflow="ellipsis" if most is None else "fold",
            min_width=None if most is None else min(most, _SHORTEST),
            max_width=most,
        )
    if of_marks:
        table.add_column("", overflow="fold", max_width=of_marks)
    for row, mark, style in zip(texts, marks, styles, strict=True):
        table.add_row(*map(Text, (*row, mark) if of_marks else row), style=style)
    return table


def _longest(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column on a terminal, with its heading."""
    return [max(map(cell_len, column)) for column in zip(_HEADINGS, *rows, strict=True)]


_OF_ALERTS = ("window end", "alert", "key", "state", "", "figures")


def watch_alerts(reader: "AlertReader", rows: int, *, as_json: bool) -> None:
    """Show the changes that the reader reads until it ends or Ctrl-C is pressed; `rows` bounds what
    is shown once. Raises SlidestatError as the reader does.
    """
    console = Console(highlight=False)
    try:
        if reader.once and not as_json:
            shown = _show_newest(reader, rows, console)
        else:
            shown = _show_as_they_come(reader, as_json=as_json)
    except KeyboardInterrupt:
        return  # It is how watching ends.
    if reader.once and not shown:
        print(
            f"Nothing is there: {reader.topic} has {reader.read:,} changes, and none is shown.",
            file=sys.stderr,
        )


def _show_as_they_come(reader: "AlertReader", *, as_json: bool) -> int:
    shown = 0
    for records in _batches(reader, _ALERTED):
        for change, json in records:
            print(json.decode() if as_json else change_line(change))
            shown += 1
        sys.stdout.flush()
    return shown


def _show_newest(reader: "AlertReader", rows: int, console: Console) -> int:
    changes = [record.change for records in reader.batches() for record in records]
    changes.reverse()  # The last record of a place replaces a provisional one.
    changes.sort(key=lambda change: change.window_end_ms, reverse=True)
    newest = list(islice(_distinct(changes), rows))
    table = Table(*_OF_ALERTS)
    for change in newest:
        table.add_row(*map(Text, _cells(change)))
    if not console.is_terminal or full_width(console, table) > console.width:
        for change in newest:
            print(change_line(change))
    elif newest:
        console.print(table)
    return len(newest)


def _distinct(changes: Iterable[AlertChange]) -> Iterable[AlertChange]:
    """Yield the first change of each place: a worker may have sent it several times."""
    seen = set()
    for change in changes:
        place = change.topology, change.alert, change.key, change.window_end_ms
        if place not in seen:
            seen.add(place)
            yield change


def change_line(change: AlertChange) -> str:
    """Return a change in one line: when, which alert and key, the change, how certain, and why."""
    return " ".join(_cells(change))


def _cells(change: AlertChange) -> tuple[str, ...]:
    return (
        iso_time(change.window_end_ms),
        printable(change.alert),
        printable(change.key),
        str(change.state),
        ("forgotten" if change.forgotten else str(change.certainty))
        + (" provisional" if change.provisional else ""),
        "; ".join(
            [
                *([] if change.change is None else [change_text(change.change)]),
                *map(bounds_text, change.figures),
            ]
        ),
    )
