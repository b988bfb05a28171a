"""What was measured, as plain data: medians and spreads, ratios of ours to others, machine."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec
import psutil

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.bench import Run
from benchmarks.harness.systems import OURS

LATEST = RESULTS_FOLDER / "latest.json"


class Spread(msgspec.Struct):
    """A figure over several runs."""

    median: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        return cls(median(figures), min(figures), max(figures), len(figures))


# Figures of one run; each gets its spread over the runs.
_FIGURES: Mapping[str, Callable[[Run], float]] = {
    "events_per_s": lambda run: run.measurement.events_per_s,
    "events_per_cpu_s": lambda run: run.measurement.events_per_cpu_s,
    "peak_memory_mib": lambda run: run.measurement.peak_rss / 2**20,
    "disk_bytes_per_key": lambda run: run.disk_bytes / run.keys,
    "changelog_bytes_per_event": lambda run: run.changelog_bytes / run.events,
    "largest_relative_error": lambda run: run.largest_error,
    "promised_relative_error": lambda run: run.promised_error,
    "answers_checked": lambda run: run.answers,
    "load": lambda run: run.measurement.load,
}


@dataclass
class Outcome:
    """All runs of one workload by system, one a round, or why a system cannot."""

    rounds: list[dict[str, Run]] = field(default_factory=list)
    cannot: dict[str, str] = field(default_factory=dict)

    def fail(self, name: str, why: str) -> None:
        """Have a system cannot, whatever it did in earlier rounds."""
        self.cannot[name] = why
        for measured in self.rounds:
            measured.pop(name, None)

    def systems(self) -> dict[str, object]:
        """Every system's figures with their spreads, or its 'cannot'."""
        found: dict[str, object] = {}
        for name in self.rounds[0]:
            runs = [measured[name] for measured in self.rounds]
            found[name] = {
                "events": runs[0].events,
                **{title: Spread.of([of(run) for run in runs]) for title, of in _FIGURES.items()},
            }
        return found | {name: {"cannot": why} for name, why in self.cannot.items()}

    def ratios(self, figure: str) -> dict[str, Spread]:
        """Ours by theirs in a figure, each ratio of one round."""
        of = _FIGURES[figure]
        others = [name for name in self.rounds[0] if name != OURS]
        return {
            name: Spread.of([of(r[OURS]) / of(r[name]) for r in self.rounds]) for name in others
        }


def machine() -> str:
    """The machine in one line."""
    memory_gib = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, "
        f"load {load:.1f}, Python {platform.python_version()}"
    )


def as_data(outcome: Outcome, settings: Mapping[str, object]) -> dict[str, object]:
    """One workload: its settings, systems and ratios. `ratios` has a number for each system that
    ran, the median over the rounds, and a text for each that cannot.
    """
    wall, cpu = outcome.ratios("events_per_s"), outcome.ratios("events_per_cpu_s")
    cannot = {name: f"cannot: {why}" for name, why in outcome.cannot.items()}
    return {
        "settings": dict(settings),
        "systems": outcome.systems(),
        "ratios": {**{name: ratio.median for name, ratio in wall.items()}, **cannot},
        "ratio_spreads": wall,
        "ratio_spreads_by_cpu_second": cpu,
    }


def write(path: Path, workloads: Mapping[str, object], more: Mapping[str, object]) -> None:
    """Write everything; the ratios of the first workload stand at the top as well."""
    first = next(iter(workloads.values()))
    contents = {
        "machine": machine(),
        "ratios": first["ratios"] if isinstance(first, dict) else {},
        "workloads": workloads,
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(contents)) + b"\n")


def replace_workloads(path: Path, workloads: Mapping[str, object]) -> None:
    """Write workloads that were measured anew, alone, over those of the last whole run: only those
    that are compared with nothing else of that run.
    """
    contents = msgspec.json.decode(path.read_bytes())
    contents["workloads"] |= msgspec.to_builtins(workloads)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(contents)) + b"\n")
