"""Parties and a referee: what travels, how far answers are off, how many synopses are judged.

    python -m benchmarks.speed.referee [number of trials]

1. The flights of the demo over four partitions: the newest figures over all of them beside the
   exact ones, and the bytes that each partition published beside the bytes of its events. They are
   written to results/referee.json, and stand in docs/many-parties.md (`make figures`).
2. Trials (1,000 by default) of distinct items over the union of eight parties, each with coins of
   its own seed, by epsilon and delta: how many answers were off by epsilon or more, or out of their
   bounds. The share may not exceed delta; the command fails, with exit code 2, if one does.
3. Union counting: the least bytes that any deterministic algorithm must send of n bits, by the
   counting of Gibbons and Tirthapura 2002, theorem 4, beside what a randomised wave sends.
4. Synopses a second: a referee of whole partitions, fed from memory, by number of parties.

All in this process, without a broker.
"""

import sys
import time
from importlib import resources
from math import lgamma, log, log2
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.command import typed
from slidestat import RefereeDriver, TopologyDriver
from slidestat.declare.forms.files import load_declaration
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Mean, Quantiles
from slidestat.declare.topology import Topology
from slidestat.engine.records import RecordBatch
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.synopsis import SynopsisKey, decode_key
from slidestat.synopses import Bundle, DistinctParameters, DistinctWave, insert_bits, union_distinct
from slidestat.synopses.distinct.parameters import plan
from slidestat.testing.records import MemoryStore

PARTITIONS = 4
FLIGHTS = 600_000
BATCH = 20_000
# A trial's streams: windows with more items than are kept, so that chance comes in.
TRIAL_PARTIES, TRIAL_ITEMS, TRIAL_SPAN = 8, 3_000, 10_000
# (epsilon, delta): one instance each, then three, then five.
TRIAL_PROMISES = ((0.5, 0.25), (0.2, 0.1), (0.2, 0.01), (0.2, 1e-5), (0.5, 1e-6))
LEAST_EPSILON = 1 / 64
RESULTS = RESULTS_FOLDER / "referee.json"


def flights(count: int) -> list[dict[str, Any]]:
    """The first `count` of the demo's flights as events."""
    with resources.as_file(
        resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
    ) as file:
        table = pq.read_table(file).slice(0, count)
    times = pc.cast(pc.cast(table["date"], pa.timestamp("ms")), pa.int64())
    columns = (table["origin"], times, table["delay"], table["destination"])
    return [
        {"key": key, "time": at, "value": delay, "destination": destination}
        for key, at, delay, destination in zip(*(c.to_pylist() for c in columns), strict=True)
    ]


def show_flights(count: int) -> None:
    """Print the newest answers over all partitions beside the exact ones, and what travelled, and
    write them to results/referee.json.
    """
    referee = load_declaration("flights_global")
    if not isinstance(referee, Referee):
        raise TypeError("flights_global is no referee")
    events = flights(count)
    driver = RefereeDriver(referee, PARTITIONS)
    for start in range(0, count, BATCH):
        driver.send(*events[start : start + BATCH])
    newest = [emission for emission in driver.emissions if not emission.provisional][-1]
    times = np.array([event["time"] for event in events])
    rows = []
    print("| statistic | window | lower | estimate | upper | exact |")
    print("|---|---|---|---|---|---|")
    for figure in newest.figures:
        end, window = newest.window_end_ms, figure.window_ms or 0
        first, last = np.searchsorted(times, (end - window, end)).tolist()
        name, exact = exact_figure(figure.statistic, figure.quantile, events[first:last])
        if exact is not None:
            days = f"{window // 86_400_000}d"
            numbers = (figure.lower, figure.estimate, figure.upper, exact)
            cells = [name, days, *(f"{number:,.6g}" for number in numbers)]
            rows.append(cells)
            print(f"| {' | '.join(cells)} |")
    raw, sent, ticks = 0, 0, set()
    for event in events:
        raw += len(msgspec.json.encode(event))
    for record in driver.parties.published:
        sent += len(record.key) + len(record.value)
        sent += sum(len(name) + len(value) for name, value in record.headers)
        ticks.add(record.timestamp)
    print(f"\n{count:,} events, {raw:,} bytes of JSON; published {sent:,} bytes: {sent / raw:.1%}")
    a_tick = PARTITIONS * len(ticks)
    print(f"{sent / a_tick:,.0f} bytes a party and tick, {len(ticks)} ticks")
    of_statistic: dict[str, list[int]] = {}
    for record in driver.parties.published:
        key = decode_key(record.key)
        if isinstance(key, SynopsisKey):
            of_statistic.setdefault(key.statistic, []).append(len(record.value))
    for statistic, sizes in of_statistic.items():
        print(f"  {statistic}: {np.mean(sizes):,.0f} bytes a synopsis")
    told = {
        "events": count,
        "window_end_ms": newest.window_end_ms,
        "rows": rows,
        "json_a_tick": raw / a_tick,
        "sent_a_tick": sent / a_tick,
        "bytes": {statistic: float(np.mean(sizes)) for statistic, sizes in of_statistic.items()},
    }
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(told)) + b"\n")


def exact_figure(
    statistic: str, quantile: float | None, events: list[dict[str, Any]]
) -> tuple[str, float | None]:
    """(what it is called, the exact figure), None for what is not shown."""
    if statistic == "count":
        return statistic, len(events)
    if statistic == "distinct_destination":
        return statistic, len({event["destination"] for event in events})
    if quantile is not None:
        values = sorted(event["value"] for event in events)
        rank = max(1, int(np.ceil(round(quantile * len(values), 6))))
        return f"{statistic} {quantile}", values[rank - 1]
    return statistic, None


def failures(trials: int, epsilon: float, delta: float) -> tuple[int, int]:
    """Of so many trials, how many answers were off by epsilon or more, and how many of the bounds
    did not hold.
    """
    off = outside = 0
    rng = np.random.default_rng(1)
    for seed in range(trials):
        made_with = DistinctParameters(epsilon, delta, TRIAL_SPAN, seed)
        items = rng.integers(0, 2 * TRIAL_ITEMS, (TRIAL_PARTIES, TRIAL_ITEMS // 4))
        sent = {}
        for party, seen in enumerate(items):
            wave = DistinctWave.create(made_with)
            wave.insert(np.arange(len(seen)), seen)
            sent[f"party-{party}"] = wave.to_bytes()
        exact = len(np.unique(items))
        answer = union_distinct([Bundle.of(sent)], [items.shape[1]], [TRIAL_SPAN])
        off += abs(answer.estimates[0, 0] - exact) >= epsilon * exact
        outside += not answer.lowers[0, 0] <= exact <= answer.uppers[0, 0]
    return int(off), outside


def show_trials(trials: int) -> bool:
    """Print how often answers missed, by what was promised; whether all promises were kept."""
    kept = True
    print(f"\n{trials:,} trials of {TRIAL_PARTIES} parties:\n")
    print("| epsilon | delta | instances | off by epsilon | out of their bounds | allowed |")
    print("|---|---|---|---|---|---|")
    for epsilon, delta in TRIAL_PROMISES:
        instances, _ = plan(epsilon, delta)
        off, outside = failures(trials, epsilon, delta)
        allowed = delta * trials
        kept &= max(off, outside) <= allowed
        print(
            f"| {epsilon} | {delta:g} | {instances} | {off} | {outside} | {allowed:g} |", flush=True
        )
    return kept


def least_deterministic_bits(n: int, epsilon: float) -> float:
    """The least bits that the first of two parties must send of its n bits, if no answer may be off
    by more than `epsilon`.

    Inputs with n/2 ones that lead to one message are at most 4 n epsilon apart (Hamming), so there
    are at most (1 + 2 n epsilon) C(n/2, 2 n epsilon)^2 of them to a message, of C(n, n/2) in all.
    n is a multiple of 2; 2 n epsilon is rounded up, which makes the bound less.
    """
    apart = int(np.ceil(2 * n * epsilon))
    return _log2_comb(n, n // 2) - log2(1 + apart) - 2 * _log2_comb(n // 2, apart)


def _log2_comb(n: int, k: int) -> float:
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def show_lower_bound() -> None:
    """Print what must be sent of n bits, and what a randomised wave sends."""
    print("| n | at least, deterministic, 1/64 | wave, 1/64 | wave, 10 % | the bits themselves |")
    print("|---|---|---|---|---|")
    rng = np.random.default_rng(1)
    for n in (1_024, 16_384, 262_144, 4_194_304, 67_108_864):
        made_with = [DistinctParameters(epsilon, 0.01, n, 1) for epsilon in (LEAST_EPSILON, 0.1)]
        waves = [DistinctWave.create(parameters) for parameters in made_with]
        for start in range(0, n, 65_536):
            bits = rng.random(min(n - start, 65_536)) < 0.5
            for wave in waves:
                insert_bits(wave, bits)
        sent = " | ".join(f"{len(wave.to_bytes()):,}" for wave in waves)
        least = least_deterministic_bits(n, LEAST_EPSILON) / 8
        print(f"| {n:,} | {least:,.0f} | {sent} | {n // 8:,} |")


def throughput(parties: int, ticks: int) -> tuple[int, float]:
    """(synopses, seconds) of a referee that is fed from memory, three statistics a tick."""
    declared = Topology(
        name="bench",
        source="events",
        span="10m",
        every="10s",
        windows=("1m", "10m"),
        publish="partition",
        statistics=(Count(), Mean(), Quantiles()),
    )
    driver = TopologyDriver(declared, parties)
    rng = np.random.default_rng(1)
    start = 1_700_000_000_000
    for number in range(parties):
        times = start + np.sort(rng.integers(0, ticks * 10_000, ticks * 50))
        driver.send(
            *({"key": "k", "time": t, "value": float(t % 1_009)} for t in times.tolist()),
            partition=number,
        )
    records = sorted(driver.published, key=lambda record: record.timestamp)
    referee = Referee(of=declared, patience="1h")
    for life in range(2):  # once to load the kernels
        processor = RefereeProcessor(referee, referee.source, 0, MemoryStore())
        used = records[: len(records) // 8] if life == 0 else records
        batch = RecordBatch(
            referee.source,
            0,
            np.arange(len(used)),
            [record.key for record in used],
            [record.value for record in used],
            [record.timestamp for record in used],
            0,
        )
        began = time.process_time()
        effects = processor.process(batch)
        seconds = time.process_time() - began
        if effects.dead_letters:
            raise RuntimeError(f"a referee refused what was published: {effects.dead_letters[0]}")
    return sum(bool(record.headers) for record in records), seconds


def show_throughput() -> None:
    """Print synopses a CPU second."""
    print("| parties | synopses | a CPU second |")
    print("|---|---|---|")
    for parties in (1, 8, 64):
        synopses, seconds = throughput(parties, ticks=max(20, 400 // parties))
        print(f"| {parties} | {synopses:,} | {synopses / seconds:,.0f} |", flush=True)


def main(trials: int) -> int:
    """Print all four; the exit code."""
    show_flights(FLIGHTS)
    began = time.monotonic()
    kept = show_trials(trials)
    print(f"\nthe trials took {time.monotonic() - began:.0f} s\n")
    show_lower_bound()
    show_throughput()
    return 0 if kept else 2


if __name__ == "__main__":
    sys.exit(main(*typed(__doc__, trials=1_000)))
