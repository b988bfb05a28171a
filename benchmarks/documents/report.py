"""What was measured, as tables for people."""

from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.harness.cases import CaseName
from benchmarks.harness.results import Outcome, Spread
from benchmarks.harness.systems import BARE, OURS, SYSTEMS

# Ours by theirs, in events a second.
WANTED_RATIOS: dict[CaseName, dict[str, float]] = {
    CaseName.SUMS: {
        BARE: 0.4,
        "faust_tumbling_table": 150,
        "quix_tumbling": 14,
        "quix_sliding": 60,
        "kafka_streams_sliding": 35,
        "kafka_streams_tumbling": 3.5,
        "pathway_tumbling": 2.5,
        "pathway_hopping": 8,
    },
    CaseName.QUIET_SUMS: {BARE: 0.75},
}


def print_report(
    console: Console, outcome: Outcome, wanted: int | None, wanted_ratios: dict[str, float]
) -> None:
    """Print ratios, speeds and what they cost; whether ours is as fast as it has to be, as `wanted`
    events a second and as so many times the others.
    """
    console.print(_ratios(outcome, wanted_ratios))
    console.print(_speeds(outcome))
    console.print(_costs(outcome))
    for name, why in outcome.cannot.items():
        console.print(f"{name} cannot: {why}", highlight=False, soft_wrap=True)
    if wanted is not None:
        speeds = [measured[OURS].measurement.events_per_s for measured in outcome.rounds]
        verdict = "does at least" if median(speeds) >= wanted else "does NOT do"
        console.print(
            f"{OURS} {verdict} {wanted:,} events a second: median {median(speeds):,.0f},"
            f" {min(speeds):,.0f} to {max(speeds):,.0f} over {len(speeds)} runs.",
            highlight=False,
        )


def _ratios(outcome: Outcome, wanted_ratios: dict[str, float]) -> Table:
    table = _table(
        f"{OURS} is so many times as fast, each ratio of one round",
        ("median", "min - max", "by CPU s", "min - max", "wanted"),
    )
    wall, cpu = outcome.ratios("events_per_s"), outcome.ratios("events_per_cpu_s")
    for name, ratio in wall.items():
        wanted = wanted_ratios.get(name)
        short = wanted is not None and ratio.median < wanted
        goal = "" if wanted is None else f"{wanted}{', NOT reached' if short else ''}"
        table.add_row(name, *_cells(ratio, ".2f"), *_cells(cpu[name], ".2f"), goal)
    return table


def _speeds(outcome: Outcome) -> Table:
    headings = ("what", "events", "a second", "min - max", "a CPU s", "broker", "answers checked")
    table = _table("Events per second", headings)
    for name in outcome.rounds[0]:
        runs = [measured[name] for measured in outcome.rounds]
        shares = [
            run.measurement.broker_cpu_seconds / run.measurement.seconds
            for run in runs
            if run.measurement.broker_cpu_seconds is not None
        ]
        table.add_row(
            name,
            SYSTEMS[name].question,
            f"{runs[0].events:,}",
            *_cells(Spread.of([run.measurement.events_per_s for run in runs]), ",.0f"),
            f"{median(run.measurement.events_per_cpu_s for run in runs):,.0f}",
            f"{median(shares):.0%}" if shares else "-",
            f"{runs[0].answers:,}" if runs[0].answers else "-",
        )
    return table


def _costs(outcome: Outcome) -> Table:
    headings = ("peak MiB", "disk bytes a key", "changelog bytes an event", "largest error")
    table = _table("What it costs, medians", headings)
    for name in outcome.rounds[0]:
        runs = [measured[name] for measured in outcome.rounds]
        error, promised = (
            median(run.largest_error for run in runs),
            median(run.promised_error for run in runs),
        )
        table.add_row(
            name,
            f"{median(run.measurement.peak_rss for run in runs) / 2**20:,.0f}",
            f"{median(run.disk_bytes / run.keys for run in runs):,.0f}",
            f"{median(run.changelog_bytes / run.events for run in runs):,.0f}",
            f"{error:.4f} of {promised:.4f}" if promised else "0" if runs[0].answers else "-",
        )
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "what" else "right", no_wrap=True)
    return table


def _cells(spread: Spread, how: str) -> tuple[str, str]:
    return f"{spread.median:{how}}", f"{spread.least:{how}} - {spread.most:{how}}"
