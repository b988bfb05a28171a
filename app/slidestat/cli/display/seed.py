"""Format the result of `slidestat seed`."""

from collections.abc import Iterator

from slidestat.admin.seed import SeedReport
from slidestat.text import iso_time


def report_lines(report: SeedReport, declared: str) -> Iterator[str]:
    """Yield the result in a few lines, and the next step."""
    yield f"read        {report.read:,} rows; {report.left:,} from --until on are left to the topic"
    for it in report.partitions:
        counters = it.counters
        newest = "" if it.newest_ms is None else f", the newest of {iso_time(it.newest_ms)}"
        refused = counters.dead + counters.late
        yield (
            f"partition {it.partition}: {counters.counted:,} counted{newest};"
            f" {refused:,} refused, {counters.passed_over:,} passed over;"
            f" goes on at offset {it.next_offset:,}"
        )
        for reason, detail in it.refused.items():
            yield f"            refused as {reason}, such as: {detail}"
    yield f"Seeded. To go on with the topic: slidestat run {declared}"
