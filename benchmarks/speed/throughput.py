"""Events per second of slidestat and of others on one topic, on one broker, in one run.

    python -m benchmarks.speed.throughput [--workload sums]... [--system quix_tumbling]... [--quick]

See README.md beside this file for what is compared and how to read it.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.documents import report
from benchmarks.harness import results
from benchmarks.harness.bench import Bench, Run
from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.results import Outcome
from benchmarks.harness.systems import BARE, OURS, SYSTEMS, System
from benchmarks.peers.environments import UnavailableError
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client, require_broker
from slidestat.local.broker import LocalBroker
from slidestat.options import BOOTSTRAP_VARIABLE

PARTITIONS = 2


@contextmanager
def broker() -> Iterator[tuple[str, int | None]]:
    """Bootstrap address and, for a broker of our own, its process id."""
    if given := os.environ.get(BOOTSTRAP_VARIABLE):
        require_broker(given)
        yield given, None
    else:
        with LocalBroker() as local:
            yield local.bootstrap_servers, local.pid


def delete_topics(bootstrap: str, group: str) -> None:
    """Delete the topics that have a group in their name."""
    admin = admin_client(bootstrap)
    topics = [name for name in admin.list_topics(timeout=30).topics if group in name]
    for future in admin.delete_topics(topics).values():
        future.exception()


def compare(
    bench: Bench,
    systems: Sequence[System],
    runs: int,
    console: Console,
    cannot: dict[str, str],
    most_s: float = inf,
) -> Outcome:
    """Run systems in turn, `runs` times, saying what each did; no other round begins after `most_s`
    seconds. `cannot` names those that have no answer to the question, with why; others join them
    when they turn out not to run here.
    """
    outcome = Outcome(cannot=dict(cannot))
    start = time.monotonic()
    for number in range(1, runs + 1):
        if outcome.rounds and time.monotonic() - start > most_s:
            break
        outcome.rounds.append({})
        for system in systems:
            if system.name in outcome.cannot:
                continue
            try:
                with console.status(f"run {number} of {runs}: {system.name}"):
                    run = bench.run(system)
            except UnavailableError as why:
                outcome.cannot[system.name] = str(why)
                continue
            except SlidestatError as error:
                if system.name == OURS:
                    raise
                # A failed run is noted in the results, and the others go on.
                outcome.fail(system.name, f"run {number} failed: {error.message} {error.advice}")
                console.print(f"run {number}: {system.name}: {error.message}", highlight=False)
                continue
            line = f"run {number}: {system.name}: {_said(run)}"
            console.print(line, highlight=False, soft_wrap=True)
            outcome.rounds[-1][system.name] = run
    return outcome


def _said(run: Run) -> str:
    measurement = run.measurement
    said = (
        f"{measurement.events:,} events in {measurement.seconds:.1f} s, "
        f"{measurement.events_per_s:,.0f} a second, CPU {measurement.cpu_seconds:.1f} s, "
        f"{measurement.peak_rss / 2**20:,.0f} MiB at the most, load {measurement.load:.1f}"
    )
    if run.answers:
        said += f"; {run.answers:,} answers checked"
    if run.promised_error:
        said += f", largest relative error {run.largest_error:.4f} of {run.promised_error:.4f}"
    return said


def measure(
    case: CaseName,
    systems: Sequence[System],
    events: int,
    keys: int | None,
    every: str | None,
    runs: int,
    console: Console,
    most_s: float = inf,
) -> dict[str, object]:
    """Run one workload, print its report, and return it as data; no other round begins after
    `most_s` seconds.
    """
    what = CASES[case]
    keys, every = keys or what.keys, every or what.every
    # A wrong `every` is found before anything is started.
    make_topology(case, "events", "bench", every)
    drawn = what.draw(events, keys, PARTITIONS)
    cannot = {system.name: system.cannot[case] for system in systems if case in system.cannot}
    with (
        tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder,
        broker() as (bootstrap, broker_pid),
    ):
        bench = Bench(bootstrap, broker_pid, case, drawn, every, Path(folder))
        try:
            size = bench.fill_topic()
            console.print(
                f"{case}: {len(drawn):,} events of {size} bytes, {drawn.key_count:,} keys"
                f" ({what.distribution or 'real'}), {PARTITIONS} partitions",
                highlight=False,
            )
            outcome = compare(bench, systems, runs, console, cannot, most_s)
        finally:
            bench.clean_up()
    report.print_report(console, outcome, what.wanted, report.WANTED_RATIOS.get(case, {}))
    settings = {
        "events": len(drawn),
        "bytes_per_event": size,
        "keys": drawn.key_count,
        "distribution": what.distribution or "real",
        "every": every,
        "runs": len(outcome.rounds),
    }
    return results.as_data(outcome, settings)


def throughput(
    workload: Annotated[
        list[CaseName] | None, typer.Option(help="What is computed of which topic; several.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(help=f"Who runs beside {OURS}; several, or all: {', '.join(SYSTEMS)}."),
    ] = None,
    events: Annotated[int, typer.Option(min=1_000, help="Events on the topic.")] = 2_000_000,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Different keys, or the workload's.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="How often ours emits, in event time, or the workload's.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each system.")] = 3,
    json: Annotated[Path | None, typer.Option(help="Write all figures there too.")] = None,
) -> None:
    """Compare slidestat with others on named workloads, one after another."""
    console = Console(width=150)
    names = system or [BARE]
    if unknown := [name for name in names if name not in (*SYSTEMS, "all")]:
        raise SlidestatError(
            f"There is no system {unknown[0]}.", f"One of: {', '.join(SYSTEMS)}, all."
        )
    chosen = [
        each for name, each in SYSTEMS.items() if name == OURS or name in names or "all" in names
    ]
    console.print(results.machine(), highlight=False)
    found: dict[str, object] = {
        case: measure(case, chosen, events, keys, every, runs, console)
        for case in workload or [CaseName.SUMS]
    }
    if json is not None:
        results.write(json, found, {})


def run_command(command: Callable[..., None]) -> None:
    """Run a command; an error that a user can correct is two lines, and exit code 2."""
    try:
        typer.run(command)
    except SlidestatError as error:
        print(f"error: {error.message}\nwhat to do: {error.advice}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    run_command(throughput)
