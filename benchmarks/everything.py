"""All benchmarks in one run, and results/latest.json of them.

    python -m benchmarks.everything             # quick: half an hour on two quiet cores
    python -m benchmarks.everything --full      # more events, workloads and runs: an hour or two

`ratios` of results/latest.json is how many times as fast ours is on the workload `sums`, the median
over the rounds; a text where a system cannot, with why.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.accuracy.demonstration import EVENTS, demonstrate
from benchmarks.delay.due import SUBJECTS
from benchmarks.delay.latency import measure_latencies
from benchmarks.harness import results
from benchmarks.harness.bench import Bench
from benchmarks.harness.cases import CASES, CaseName
from benchmarks.harness.systems import BARE, OURS, SYSTEMS
from benchmarks.peers.environments import UnavailableError
from benchmarks.speed.held import measure_held
from benchmarks.speed.real_rate import WORKLOADS
from benchmarks.speed.throughput import PARTITIONS, broker, measure, run_command
from slidestat.errors import SlidestatError

# Plain Faust can keep up with it.
_RATE = 1_000


@dataclass(frozen=True)
class Plan:
    """What is run: the systems, events and rounds of the comparison on `sums`, of which none begins
    after `most_s` seconds; other workloads, with which systems and how many rounds; which systems
    are restarted, after how many events; for how long latency is measured.
    """

    systems: tuple[str, ...]
    events: int
    runs: int
    others: tuple[CaseName, ...]
    others_systems: tuple[str, ...]
    others_runs: int
    restarted: tuple[str, ...]
    restart_events: int
    latency_s: int
    most_s: float = inf


# For want of time: hopping windows of Quix are in.
_LEFT_OUT = ("kafka_streams_hopping", "bytewax_hopping", "spark_hopping", "flink_hopping")
# Kafka Streams does not leave its group when it is closed: a restart waits for 45 seconds.
_RESTARTED = tuple(name for name in SUBJECTS if name != "kafka_streams_tumbling")
QUICK = Plan(
    tuple(name for name in SYSTEMS if name not in _LEFT_OUT),
    4_800_000,
    3,
    (CaseName.QUIET_SUMS, CaseName.DEFAULT, CaseName.MILLION_KEYS, CaseName.FLIGHTS),
    (OURS, BARE),
    2,
    _RESTARTED,
    10_000,
    12,
    # All of it is to take half an hour at the most, on slow machines with a round less.
    8 * 60,
)
FULL = Plan(
    tuple(SYSTEMS),
    6_000_000,
    5,
    tuple(case for case in CaseName if case is not CaseName.SUMS),
    tuple(SYSTEMS),
    2,
    tuple(SYSTEMS),
    40_000,
    60,
)


def restarts(names: Sequence[str], events: int, console: Console) -> dict[str, object]:
    """Start systems again after so many events, with their data folders and without."""
    case = CaseName.SUMS
    what = CASES[case]
    found: dict[str, object] = {}
    with (
        tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder,
        broker() as (bootstrap, broker_pid),
    ):
        drawn = what.draw(events, what.keys, PARTITIONS)
        bench = Bench(bootstrap, broker_pid, case, drawn, what.every, Path(folder))
        try:
            for system in map(SYSTEMS.__getitem__, names):
                if not system.has_changelog:
                    found[system.name] = {"cannot": "it has no state on the broker"}
                    continue
                size = min(events, system.most_events or events)
                try:
                    found[system.name] = restart = bench.restart(system, size)
                except UnavailableError as why:
                    found[system.name] = {"cannot": str(why)}
                    continue
                except SlidestatError as error:
                    if system.name == OURS:
                        raise
                    found[system.name] = {"cannot": f"it failed: {error.message}"}
                    continue
                console.print(
                    f"{system.name}: {restart.kept_s:.1f} s to the first event after a restart,"
                    f" {restart.emptied_s:.1f} s with an empty folder, {size:,} events before",
                    highlight=False,
                )
        finally:
            bench.clean_up()
    return found


def everything(
    full: Annotated[bool, typer.Option("--full", help="More of all of it.")] = False,
    json: Annotated[Path, typer.Option(help="Where the results go.")] = results.LATEST,
) -> None:
    """Run all benchmarks, printing what each came to, and write the results."""
    run(FULL if full else QUICK, json, Console(width=150))


def run(plan: Plan, json: Path, console: Console) -> None:
    """Run a plan; what has been measured is written after each part of it."""
    start = time.monotonic()
    # The machine's load before the benchmarks make it.
    more: dict[str, object] = {"machine": results.machine()}
    console.print(more["machine"], highlight=False)
    workloads: dict[str, object] = {}
    for case in (CaseName.SUMS, *plan.others):
        is_first = case is CaseName.SUMS
        names = plan.systems if is_first else plan.others_systems
        runs = plan.runs if is_first else plan.others_runs
        systems = [SYSTEMS[name] for name in names]
        most_s = plan.most_s if is_first else inf
        workloads[case] = measure(case, systems, plan.events, None, None, runs, console, most_s)
        results.write(json, workloads, more)
        console.print(f"{case}: done after {_minutes(start)}", highlight=False)
    for name in WORKLOADS:
        workloads |= measure_held([name], console)
        results.write(json, workloads, more)
    demonstration = demonstrate(EVENTS)
    console.print(
        f"demonstration: {demonstration['events_per_cpu_s']:,.0f} events a CPU second; the article"
        ' of 2013: "a few hundred thousand events per second"',
        highlight=False,
    )
    more["demonstration"] = demonstration
    results.write(json, workloads, more)
    console.print(f"held at their rates: done after {_minutes(start)}", highlight=False)
    more["latency"] = measure_latencies(list(SUBJECTS), _RATE, plan.latency_s, console)
    results.write(json, workloads, more)
    console.print(f"latency: done after {_minutes(start)}", highlight=False)
    more["restarts"] = restarts(plan.restarted, plan.restart_events, console)
    results.write(json, workloads, more)
    console.print(f"written: {json}, after {_minutes(start)}", highlight=False)


def _minutes(start: float) -> str:
    return f"{(time.monotonic() - start) / 60:.1f} minutes"


if __name__ == "__main__":
    run_command(everything)
