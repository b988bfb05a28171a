"""Cost of the synopses' batch kernels alone: no Kafka, no Faust, no table.

    python -m benchmarks.speed.kernels

CPU time, in five tables: nanoseconds an event where one key has all 10,000 events of each batch,
beside DataSketches' KLL and river's ADWIN in the same rounds; the same for the whole set of
statistics together; microseconds a key where each of 100,000 keys has 1 or 10 events in the batch;
and nanoseconds an event that is read from JSON with a condition, and without.
Writes results/kernels.json, which docs/choose-a-statistic.md tells (`make figures`). See README.md
beside this file.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.command import typed
from benchmarks.harness.results import machine
from benchmarks.speed.kernel_subjects import (
    OF_ITEMS,
    OF_MANY_KEYS,
    WHOLE_SET,
    Insert,
    States,
    adwin,
    count,
    kll,
    total,
)
from slidestat.declare.statistics import Count, Maximum, Mean
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.binary_column import BinaryColumn
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.synopses.core.arrays import Floats, Integers

RESULTS = RESULTS_FOLDER / "kernels.json"
_GAP_MS = 2
_BATCH, _BATCHES = 10_000, 100
_ADWIN_EVENTS = 20_000
_KEYS = 100_000
_MOST_KNOWN = 50
_ROUNDS = 5
_SEED = 20020106
_FIRST_MS = 1_764_000_000_000

_WANTED_COUNT_NS, _WANTED_WHOLE_SET_NS, _WANTED_KEY_US = 15.0, 500.0, 2.0
_WANTED_COMPARISON_NS = 60.0

_values = np.random.default_rng(_SEED).integers(1, 10_000, _KEYS * _MOST_KNOWN) / 100

Run = Callable[[], float]


def rounds(
    runs: Mapping[str, Run], each: Mapping[str, int]
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Run all subjects in turn, several times, after one round that loads and compiles.

    Returns CPU seconds for each of what a run does, one figure a round, and what the last run
    returned, by name. Kernels have one thread: what else the machine does is none of their cost.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    sizes: dict[str, float] = {}
    for name, run in runs.items():
        sizes[name] = run()
    for _ in range(_ROUNDS):
        for name, run in runs.items():
            start = time.process_time()
            run()
            seconds[name].append((time.process_time() - start) / each[name])
    return seconds, sizes


def one_key(insert: Insert) -> Run:
    """A run of one key's 1,000,000 events; returns the bytes of the state at the end.

    The state is carried from batch to batch as bytes, as a worker does; the span holds more events
    than there are, so that nothing expires and the state is the largest it can be.
    """
    starts = np.array([0, _BATCH], np.int64)
    times = np.arange(_BATCH * _BATCHES, dtype=np.int64) * _GAP_MS
    batches = list(zip(np.split(times, _BATCHES), np.split(_events(), _BATCHES), strict=True))

    def run() -> float:
        states: States = [None]
        for batch_times, batch_values in batches:
            states = insert(states, starts, batch_times, batch_values)
        return len(states[0] or b"")

    return run


def many_keys(insert: Insert, events: int, known: int) -> Run:
    """A run of one batch of `events` events of each key; returns the mean bytes of a state after.

    The keys are new, or have `known` events already.
    """
    rng = np.random.default_rng(_SEED)

    def batch(first_ms: int, each: int) -> tuple[Integers, Integers, Floats]:
        times = np.sort(rng.integers(first_ms, first_ms + 60_000, (_KEYS, each)), axis=1)
        starts = np.arange(_KEYS + 1, dtype=np.int64) * each
        return starts, times.ravel(), _values[: _KEYS * each]

    states: States = [None] * _KEYS
    if known:
        states = insert(states, *batch(0, known))
    columns = batch(60_000, events)

    def run() -> float:
        return sum(map(len, insert(states, *columns))) / _KEYS

    return run


def _events() -> Floats:
    return _values[: _BATCH * _BATCHES]


def _peers() -> dict[str, Run]:
    few = _events()[:_ADWIN_EVENTS].tolist()
    batches = np.split(_events(), _BATCHES)
    return {"DataSketches KLL, k 200": lambda: kll(batches), "river ADWIN": lambda: adwin(few)}


def _spread(figures: list[float]) -> str:
    return f"{min(figures):,.2f} - {max(figures):,.2f}"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def of_one_key(console: Console) -> dict[str, dict[str, float]]:
    """Measure counts and sums beside the peers; return how many times as long these take, by the
    name of what is ours.
    """
    ours = {
        f"{name}, epsilon {e}": one_key(make(e))
        for name, make in (("count", count), ("sum", total))
        for e in (0.1, 0.01, 0.001)
    }
    peers = _peers()
    each = dict.fromkeys([*ours, *peers], _BATCH * _BATCHES) | {"river ADWIN": _ADWIN_EVENTS}
    seconds, sizes = rounds({**ours, **peers}, each)
    table = _table(
        f"One key, batches of {_BATCH:,} events",
        "ns an event",
        "min - max",
        "state bytes",
        "KLL takes",
        "ADWIN takes",
    )
    found: dict[str, dict[str, float]] = {}
    for name, figures in seconds.items():
        of_peers = {
            peer: [p / f for p, f in zip(seconds[peer], figures, strict=True)] for peer in peers
        }
        found[name] = {peer: median(ratios) for peer, ratios in of_peers.items()}
        ratios = [f"{median(r):,.1f} ({min(r):,.1f} - {max(r):,.1f})" for r in of_peers.values()]
        ns = [s * 1e9 for s in figures]
        table.add_row(name, f"{median(ns):,.2f}", _spread(ns), f"{sizes[name]:,.0f}", *ratios)
    console.print(table)
    slowest = max(median(seconds[name]) for name in ours if name.startswith("count")) * 1e9
    _verdict(console, "a count", slowest, _WANTED_COUNT_NS, "ns an event")
    return {name: found[name] for name in ours}


def of_the_whole_set(console: Console) -> dict[str, list[float]]:
    """Measure each statistic alone, and the whole set of them for each event; return ns an event by
    name, a figure a round.
    """
    runs = {name: one_key(insert) for name, insert in {**WHOLE_SET, **OF_ITEMS}.items()}
    seconds, sizes = rounds(runs, dict.fromkeys(runs, _BATCH * _BATCHES))
    table = _table("One key, every statistic", "ns an event", "min - max", "state bytes")
    found: dict[str, list[float]] = {}
    every = [sum(figures) for figures in zip(*(seconds[name] for name in WHOLE_SET), strict=True)]
    together = f"the first {len(WHOLE_SET)} together"
    for name, figures in [*seconds.items(), (together, every)]:
        found[name] = ns = [s * 1e9 for s in figures]
        size = sizes.get(name, sum(sizes[name] for name in WHOLE_SET))
        table.add_row(name, f"{median(ns):,.1f}", _spread(ns), f"{size:,.0f}")
    console.print(table)
    _verdict(console, "the whole set", median(every) * 1e9, _WANTED_WHOLE_SET_NS, "ns an event")
    return {**found, "together": found[together]}


def of_many_keys(console: Console) -> dict[str, dict[str, list[float]]]:
    """Measure all synopses, for keys that are new and for keys that have events already; return us
    a key with 1 and with 10 new events, by name and known events.
    """
    table = _table(f"{_KEYS:,} keys", "known", "new events", "us a key", "min - max", "state bytes")
    slowest: dict[int, dict[str, float]] = {0: {}, _MOST_KNOWN: {}}
    found: dict[str, dict[str, list[float]]] = {}
    for name, insert in OF_MANY_KEYS.items():
        found[name] = {"0": [], str(_MOST_KNOWN): []}
        for known in (0, _MOST_KNOWN):
            for events in (1, 10):
                seconds, sizes = rounds({name: many_keys(insert, events, known)}, {name: _KEYS})
                us = [s * 1e6 for s in seconds[name]]
                row = (f"{median(us):.2f}", _spread(us), f"{sizes[name]:,.0f}")
                table.add_row(name, str(known), str(events), *row)
                found[name][str(known)].append(median(us))
                slowest[known][name] = max(slowest[known].get(name, 0.0), median(us))
    console.print(table)
    for known, of in slowest.items():
        # both are said: a key that has events costs what reading and writing them costs
        what = f"a key that has {known} events"
        _verdict(console, what, max(of.values()), _WANTED_KEY_US, "us")
        above = [f"{name} {us:.2f}" for name, us in of.items() if us > _WANTED_KEY_US]
        if above:
            console.print(f"  above: {'; '.join(above)}", highlight=False)
    return found


def of_conditions(console: Console) -> None:
    """Records of a web log, read with one comparison and without; what it compares is read."""
    values = [
        b'{"key":"/p%d","time":%d,"value":%d.5,"status":%d}'
        % (i % 100, _FIRST_MS + i, i % 900, 500 if i % 20 == 0 else 200)
        for i in range(_BATCH)
    ]
    plain = Topology(
        name="log",
        source="requests",
        span="1h",
        every="1m",
        statistics=(Count(), Mean(), Maximum(field="status")),
    )
    of_all = "without a condition"
    conditions = {
        of_all: plain,
        "where of the topology": replace(plain, where="status >= 500"),
        "where of a statistic": replace(
            plain, statistics=(*plain.statistics, Count(name="errors", where="status >= 500"))
        ),
    }
    runs = {name: _decoding(topology, values) for name, topology in conditions.items()}
    seconds, _ = rounds(runs, dict.fromkeys(runs, _BATCH * _BATCHES))
    table = _table("status >= 500", "ns an event", "min - max", "more than without")
    most = 0.0
    for name, figures in seconds.items():
        ns = [s * 1e9 for s in figures]
        more = median([(s - b) * 1e9 for s, b in zip(figures, seconds[of_all], strict=True)])
        table.add_row(name, f"{median(ns):,.1f}", _spread(ns), f"{more:,.1f}")
        most = max(most, more)
    console.print(table)
    _verdict(console, "a comparison", most, _WANTED_COMPARISON_NS, "ns an event")


def _decoding(topology: Topology, values: list[bytes]) -> Run:
    decoder, fetched = EventDecoder(topology), BinaryColumn.of(values)

    def run() -> float:
        return float(sum(len(decoder.decode(fetched).rows) for _ in range(_BATCHES)))

    return run


def _verdict(console: Console, what: str, found: float, wanted: float, unit: str) -> None:
    word = "within" if found <= wanted else "ABOVE"
    console.print(f"{what}: {found:,.2f} {unit} at most, {word} {wanted:,.0f}", highlight=False)


def main() -> None:
    """Measure and print all tables, and write what docs tell; three to five minutes."""
    console = Console(width=140)
    console.print(machine(), highlight=False)
    found: dict[str, Any] = {
        "machine": machine(),
        "peers": of_one_key(console),
        "whole_set": of_the_whole_set(console),
        "keys": of_many_keys(console),
    }
    of_conditions(console)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    typed(__doc__)
    main()
