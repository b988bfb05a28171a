"""Events per second of three ways to count one topic, on one broker, in one run; or of what a
worker is to be able to do, beside a bare consumer.

    python -m benchmarks.throughput [--workload sums|default|million-keys] [--quick]

See README.md beside this file for what is compared and how to read it.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.client.connection import require_broker
from app.client.options import BOOTSTRAP_VARIABLE
from app.errors import SlidestatError
from app.local.broker import LocalBroker
from benchmarks import report
from benchmarks.bench import Bench, Subject
from benchmarks.cases import CASES, CaseName, make_topology
from benchmarks.check import Check
from benchmarks.measure import Measurement
from benchmarks.workload import KeyDistribution, draw

_PARTITIONS = 2
_FAUST_EVENTS = 40_000
_QUICK_FAUST_EVENTS, _QUICK_RUNS = 15_000, 1


@contextmanager
def _broker() -> Iterator[tuple[str, int | None]]:
    """Bootstrap address and, for a broker of our own, its process id."""
    if given := os.environ.get(BOOTSTRAP_VARIABLE):
        require_broker(given)
        yield given, None
    else:
        with LocalBroker() as broker:
            yield broker.bootstrap_servers, broker.pid


def _compare(
    bench: Bench, subjects: Sequence[Subject], runs: int, console: Console
) -> list[dict[Subject, Measurement]]:
    """Run subjects in turn, `runs` times, saying what each did."""
    rounds = []
    for number in range(1, runs + 1):
        measured: dict[Subject, Measurement] = {}
        for subject in subjects:
            with console.status(f"run {number} of {runs}: {subject}"):
                measured[subject], check = bench.run(subject)
            line = f"run {number}: {subject}: {_said(measured[subject], check)}"
            console.print(line, highlight=False, soft_wrap=True)
        rounds.append(measured)
    return rounds


def _said(measurement: Measurement, check: Check | None) -> str:
    said = (
        f"{measurement.events:,} events in {measurement.seconds:.1f} s, "
        f"{measurement.events_per_s:,.0f} a second, CPU {measurement.cpu_seconds:.1f} s, "
        f"load {measurement.load:.1f}"
    )
    if check is not None:
        said += (
            f"; {check.records:,} output records, {check.records / measurement.events:.2f} an "
            f"event; {check.figures:,} figures in them checked, largest relative error "
            f"{check.largest_relative_error:.4f} of {check.promised_relative_error:.4f} promised; "
            f"{measurement.peak_rss / 2**20:,.0f} MiB of memory at the most"
        )
    return said


def compare(
    workload: Annotated[
        CaseName, typer.Option(help="What is computed of which topic.")
    ] = CaseName.COMPARE,
    events: Annotated[int, typer.Option(min=200_000, help="Events on the topic.")] = 2_000_000,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Different keys; 1,000, or the workload's.")
    ] = None,
    distribution: Annotated[
        KeyDistribution | None,
        typer.Option(help="How often each key comes; as Zipf has it, or the workload's."),
    ] = None,
    every: Annotated[str, typer.Option(help="How often ours emits, in event time.")] = "1m",
    runs: Annotated[int, typer.Option(min=1, help="Runs of each subject.")] = 3,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="One round, plain Faust timed on fewer events: a rough figure."
        ),
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write all figures there too.")] = None,
) -> None:
    """Compare a bare consumer, plain Faust and slidestat on one topic; or show what slidestat does
    beside the consumer alone, on a workload that it is to do so many events a second of.
    """
    console = Console()
    case = CASES[workload]
    keys = keys or case.keys
    distribution = distribution or case.distribution
    subjects = list(Subject) if case.wanted is None else [Subject.BARE, Subject.OURS]
    faust_events = _FAUST_EVENTS
    if quick:
        faust_events, runs = _QUICK_FAUST_EVENTS, _QUICK_RUNS
    console.print(report.machine(), highlight=False)
    make_topology(
        workload, "events", "bench", every
    )  # a wrong `every` is found before anything is started
    drawn = draw(events, keys, distribution, _PARTITIONS, case.mean_gap_ms)
    with (
        tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder,
        _broker() as (bootstrap, broker_pid),
    ):
        bench = Bench(bootstrap, broker_pid, workload, drawn, every, faust_events, Path(folder))
        try:
            size = bench.fill_topic()
            console.print(
                f"{events:,} events of {size} bytes, {keys:,} keys ({distribution}), "
                f"{_PARTITIONS} partitions",
                highlight=False,
            )
            rounds = _compare(bench, subjects, runs, console)
        finally:
            bench.clean_up()
    report.print_report(console, rounds, case.wanted)
    if json is not None:
        settings = {
            "workload": workload,
            "events": events,
            "keys": keys,
            "distribution": distribution,
            "every": every,
        }
        report.write_json(json, rounds, settings)


def main() -> None:
    """Run the command; a fault that a user can mend is two lines, and exit code 2."""
    try:
        typer.run(compare)
    except SlidestatError as error:
        print(f"error: {error.message}\nwhat to do: {error.advice}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
