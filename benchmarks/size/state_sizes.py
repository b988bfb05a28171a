"""What each statistic takes of a key, by events in the span: counted, the same on every machine.

    python -m benchmarks.size.state_sizes        # some seconds

The events are those of `slidestat topology show`: log-normal numbers, items by Zipf's law, evenly
over a span of an hour. Writes results/statistics.json, which the README's table of statistics tells
(`make figures`); a test counts again.
"""

from dataclasses import replace

from benchmarks.accuracy.recounted import RESULTS, keep
from benchmarks.harness.command import typed
from benchmarks.harness.examples import example
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics import Statistic
from slidestat.declare.statistics.base import ValueStatistic
from slidestat.declare.topology import Topology
from slidestat.engine.footprint import measure


def sizes() -> dict[str, list[int]]:
    """Bytes of each statistic's synopsis with 5, 1,000 and 100,000 events, by kind."""
    statistics = tuple(_of_its_field(kind) for kind in KINDS.values())
    topology = Topology(name="sizes", source="events", span="1h", every="1m", statistics=statistics)
    footprints = measure(topology)
    return {
        statistic.kind: [footprint.synopsis_bytes[runner] for footprint in footprints]
        for statistic, runner in zip(statistics, topology.runners, strict=True)
    }


def _of_its_field(kind: type[Statistic]) -> Statistic:
    """The statistic as it comes; of items, in a field of their own."""
    statistic = example(kind)
    columns = statistic.columns(("value",))
    if isinstance(statistic, ValueStatistic) and columns and not columns[0].is_number:
        return replace(statistic, field="item")
    return statistic


def main() -> None:
    """Count and write."""
    keep("sizes", sizes())
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    typed(__doc__)
    main()
