"""Sum up the records that a backfill refused, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as f

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.spark.lake.lake import Dataset, records_of, rows_of


@dataclass(frozen=True)
class Refusals:
    """The number of records that were refused for each reason, the most frequent first; `example`
    is the detail of one of them.
    """

    counts: dict[str, int]
    example: str

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class Filled:
    """The result of a backfill: records by dataset, and those refused; of each key that was split,
    in how many stretches of time.
    """

    counts: dict[str, int]
    refusals: Refusals
    split: dict[str, int]


def refusals_of(found: Mapping[Dataset, DataFrame]) -> Refusals:
    """Sum up the refusals among what a backfill gave of each dataset: records with headers."""
    counts: dict[str, int] = {}
    details: dict[str, str] = {}
    for dataset in (Dataset.DEAD_LETTERS, Dataset.LATE):
        if dataset in found:
            letters = rows_of(dataset, records_of(found[dataset])).groupBy("reason")
            for row in letters.agg(f.count(f.lit(1)), f.first("detail")).collect():
                counts[row[0]], details[row[0]] = row[1], row[2]
    counts = dict(sorted(counts.items(), key=lambda item: -item[1]))
    return Refusals(counts, next((details[reason] for reason in counts), ""))


def nothing_counted(topology: Topology, read: int, refusals: Refusals) -> SlidestatError:
    """Return the error of a history of so many records, all of which were refused."""
    if not read:
        return SlidestatError("The history has no records.", "Check the path and the format.")
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in refusals.counts.items())
    return SlidestatError(
        f"All {read:,} records of the history were refused: {reasons};"
        f" of one it is said: {refusals.example}.",
        f"Correct the topology; of files, say which columns are {topology.key_name!r},"
        f" {topology.time_name!r} and the values, and the unit of times that are whole numbers"
        " (--time-unit). Nothing was written.",
    )
