"""Show the progress of `slidestat produce`, and its result."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from slidestat.produce.produce import OnProgress, ProduceReport
from slidestat.produce.readers import Reader


@contextmanager
def produce_bar(label: str) -> Iterator[OnProgress]:
    """Show a progress bar on standard error, for `produce_file`'s `on_progress`; terminals only."""
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task(label, total=None, events=0)

        def show(reader: Reader, events: int) -> None:
            progress.update(task, completed=reader.done, total=reader.total or None, events=events)

        yield show


def show_report(report: ProduceReport, *, as_json: bool) -> None:
    """Print the report on standard output: as text, or as one JSON object with ProduceReport's
    fields.
    """
    for line in [msgspec.json.encode(report).decode()] if as_json else _lines(report):
        print(line)


def _lines(report: ProduceReport) -> list[str]:
    """Return the report as text: what was left out, if anything, and what was sent."""
    lines = []
    if report.skipped:
        lines.append(
            f"{_counted(report.skipped, 'bad row')} left out, the first: {report.first_skipped}"
        )
    lines.append(
        f"{_counted(report.sent, 'event')} sent to {report.topic} in {report.seconds:.1f} s "
        f"({report.events_per_s:,.0f} events/s)"
    )
    if report.negative:
        # Which statistics will read them is not known here.
        lines.append(
            f"{_counted(report.negative, 'value')} below 0: a topology with a sum of them sets such"
            " events aside, on its topic of dead letters"
        )
    if report.non_numbers:
        lines.append(
            f"{_counted(report.non_numbers, 'value')} no number, the first in"
            f" {report.first_non_number}: a topology with a statistic of numbers sets such events"
            " aside, on its topic of dead letters"
        )
    if report.valueless:
        lines.append(
            f"{_counted(report.valueless, 'event')} without a value: no statistic of it counts such"
        )
    if report.zoneless:
        lines.append(f"{_counted(report.zoneless, 'time')} without a time zone: taken for UTC")
    if report.unkeyed:
        lines.append(
            f"{_counted(report.unkeyed, 'line')} went without a key, to any partition: --key PATH"
            " says where it is"
        )
    return lines


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
