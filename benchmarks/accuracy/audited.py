"""Every figure of 100,000 flights beside the exact one, as `slidestat spark audit` judges it.

    python -m benchmarks.accuracy.audited        # a minute or two

The topology `flights` runs on the first 100,000 flights of the demo's file, in memory; each figure
that it emits is recomputed from all events of its window. Ends with an error if a promise is
broken. Writes results/audit.json, which docs/spark.md tells (`make figures`).
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import msgspec
import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.harness.command import typed
from benchmarks.speed.referee import BATCH, PARTITIONS, flights
from slidestat import TopologyDriver
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import resolved
from slidestat.schemas.emission import Emission
from slidestat.spark.audit.declaration import declaration_of, labels_of
from slidestat.spark.audit.exact_key import ExactKey
from slidestat.spark.audit.key import audit_key
from slidestat.spark.audit.verdict import Verdict

RESULTS = RESULTS_FOLDER / "audit.json"
FLIGHTS = 100_000
_NEVER_MS = -(2**62)


def verdicts(count: int, kinds: Collection[str] = ()) -> dict[str, list[Verdict]]:
    """The verdicts on all figures of the first `count` flights, by statistic; of some kinds alone,
    if any are given. Raises AssertionError for a broken promise.
    """
    topology = load_topology("flights")
    if kinds:
        kept = [statistic for statistic in topology.statistics if statistic.kind in kinds]
        topology = replace(topology, statistics=kept)
    declaration = declaration_of(resolved(topology))
    events = flights(count)
    driver = TopologyDriver(topology, PARTITIONS)
    for start in range(0, count, BATCH):
        driver.send(*events[start : start + BATCH])
    emissions: dict[str, dict[int, Emission]] = defaultdict(dict)
    for emission in driver.emissions:
        emissions[emission.key][emission.window_end_ms] = emission
    texts = {"value": "value", "destination": "destination"}
    found: dict[str, list[Verdict]] = defaultdict(list)
    for name, of_key in emissions.items():
        own = [event for event in events if event["key"] == name]
        columns = {
            column: [str(event[texts[column[0][0][0]]]) for event in own]
            for column in declaration.columns
        }
        times = np.array([event["time"] for event in own])
        key = ExactKey(times, np.arange(len(own)), columns)
        for finding in audit_key(declaration, key, name, of_key, _NEVER_MS, _NEVER_MS):
            if finding.violation:
                raise AssertionError(
                    f"{finding.key} at {finding.window_end_ms}: {finding.violation}"
                )
            if finding.figure is not None and finding.verdict is not None:
                found[finding.figure.statistic].append(finding.verdict)
    return {label: found[label] for label in labels_of([declaration])}


def rows(count: int, kinds: Collection[str] = ()) -> list[dict[str, object]]:
    """What an audit tells of each statistic."""
    told: list[dict[str, object]] = []
    for label, judged in verdicts(count, kinds).items():
        observed = np.array([v.observed for v in judged if v.observed is not None])
        told.append(
            {
                "statistic": label,
                "figures": len(judged),
                "promised": max(verdict.promised for verdict in judged),
                "median": float(np.percentile(observed, 50)),
                "p99": float(np.percentile(observed, 99)),
                "largest": float(observed.max()),
                "unit": judged[0].unit,
            }
        )
    return told


def main() -> None:
    """Judge and write."""
    data = {"flights": FLIGHTS, "rows": rows(FLIGHTS)}
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    typed(__doc__)
    main()
