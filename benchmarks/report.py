"""What was measured, as tables for people and as JSON for programs."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

import msgspec
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.bench import Subject
from benchmarks.measure import Measurement

WANTED_RATIO = 40.0

_TITLES = {
    Subject.BARE: "(a)  bare loop",
    Subject.FAUST_COUNT: "(b)  plain Faust",
    Subject.FAUST_COUNT_SUM: "(b2) Faust + sum",
    Subject.OURS: "(c)  slidestat",
}
_RATIOS = (
    ("(c) / (b)", Subject.FAUST_COUNT),
    ("(c) / (b2)", Subject.FAUST_COUNT_SUM),
    ("(c) / (a)", Subject.BARE),
)

# One entry a round: what each subject did in it.
Rounds = Sequence[dict[Subject, Measurement]]


def machine() -> str:
    """The machine in one line."""
    memory_gib = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, "
        f"load {load:.1f}, Python {platform.python_version()}"
    )


def wall_ratios(rounds: Rounds, other: Subject) -> list[float]:
    """Ours by another subject in events a second, one ratio a round."""
    return [r[Subject.OURS].events_per_s / r[other].events_per_s for r in rounds]


def cpu_ratios(rounds: Rounds, other: Subject) -> list[float]:
    """The same in events a CPU second of the subject's process."""
    return [r[Subject.OURS].events_per_cpu_s / r[other].events_per_cpu_s for r in rounds]


def print_report(console: Console, rounds: Rounds, wanted: int | None) -> None:
    """Print speeds, ratios, and whether ours is as fast as it has to be: as `wanted` events a
    second, or as so many times plain Faust.
    """
    console.print(_speeds(rounds))
    console.print(_ratios(rounds))
    if wanted is not None:
        speeds = [measured[Subject.OURS].events_per_s for measured in rounds]
        verdict = "does at least" if median(speeds) >= wanted else "does NOT do"
        console.print(
            f"(c) {verdict} {wanted:,} events a second: median {median(speeds):,.0f},"
            f" {min(speeds):,.0f} to {max(speeds):,.0f} over {len(speeds)} runs.",
            highlight=False,
        )
        return
    ratios = wall_ratios(rounds, Subject.FAUST_COUNT)
    middle = median(ratios)
    verdict = "at least" if middle >= WANTED_RATIO else "NOT"
    console.print(
        f"(c) is {verdict} {WANTED_RATIO:.0f} times (b): median {middle:.1f}, "
        f"{min(ratios):.1f} to {max(ratios):.1f} over {len(ratios)} runs.",
        highlight=False,
    )


def write_json(path: Path, rounds: Rounds, settings: dict[str, object]) -> None:
    """Write settings, machine, every measurement and every ratio."""
    contents = {
        "machine": machine(),
        "settings": settings,
        "rounds": [
            {
                subject: {**asdict(m), "events_per_s": m.events_per_s}
                for subject, m in measurements.items()
            }
            for measurements in rounds
        ],
        "ratios": {name: wall_ratios(rounds, other) for name, other in _compared(rounds)},
        "cpu_ratios": {name: cpu_ratios(rounds, other) for name, other in _compared(rounds)},
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(contents)) + b"\n")


def _compared(rounds: Rounds) -> list[tuple[str, Subject]]:
    return [(name, other) for name, other in _RATIOS if other in rounds[0]]


def _speeds(rounds: Rounds) -> Table:
    table = Table(title="Events per second")
    table.add_column("", no_wrap=True)
    for heading in ("median", "min - max", "a CPU s", "broker"):
        table.add_column(heading, justify="right", no_wrap=True)
    for subject in rounds[0]:
        title = _TITLES[subject]
        runs = [measurements[subject] for measurements in rounds]
        speeds = [run.events_per_s for run in runs]
        shares = [
            run.broker_cpu_seconds / run.seconds
            for run in runs
            if run.broker_cpu_seconds is not None
        ]
        table.add_row(
            title,
            f"{median(speeds):,.0f}",
            f"{min(speeds):,.0f} - {max(speeds):,.0f}",
            f"{median(run.events_per_cpu_s for run in runs):,.0f}",
            f"{median(shares):.0%}" if shares else "-",
        )
    return table


def _ratios(rounds: Rounds) -> Table:
    table = Table(title="Ratios, each of one round")
    table.add_column("", no_wrap=True)
    for heading in ("median", "min - max", "by CPU s", "min - max"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, other in _compared(rounds):
        cells = []
        for ratios in (wall_ratios(rounds, other), cpu_ratios(rounds, other)):
            cells += [f"{median(ratios):.2f}", f"{min(ratios):.2f} - {max(ratios):.2f}"]
        table.add_row(name, *cells)
    return table
