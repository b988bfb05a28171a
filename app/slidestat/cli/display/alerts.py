"""Show what `slidestat watch --alerts` reads: lines as they come, a table at once, or JSON."""

import sys
from collections.abc import Iterable
from itertools import islice

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slidestat.kafka.read.topic_reader import AlertReader
from slidestat.schemas.alert import AlertChange
from slidestat.text import bounds_text, change_text, iso_time, printable

_HEADINGS = ("window end", "alert", "key", "state", "", "figures")


def watch_alerts(reader: AlertReader, rows: int, *, as_json: bool) -> None:
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


def _show_as_they_come(reader: AlertReader, *, as_json: bool) -> int:
    shown = 0
    for records in reader.batches():
        for change, json in records:
            print(json.decode() if as_json else change_line(change))
            shown += 1
        sys.stdout.flush()
    return shown


def _show_newest(reader: AlertReader, rows: int, console: Console) -> int:
    changes = [record.change for records in reader.batches() for record in records]
    changes.reverse()  # The last record of a place replaces a provisional one.
    changes.sort(key=lambda change: change.window_end_ms, reverse=True)
    newest = list(islice(_distinct(changes), rows))
    if not console.is_terminal:
        for change in newest:
            print(change_line(change))
    elif newest:
        table = Table(*_HEADINGS)
        for change in newest:
            table.add_row(*map(Text, _cells(change)))
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
    """Return a change in one line: when, which alert, of which key, the change, how certain, by
    which figures.
    """
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
