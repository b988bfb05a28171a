"""An audit's outcome on the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slidestat.spark.audit.audit_report import AuditReport, Judged, StatisticSummary

_WIDTH = 110


def show(report: AuditReport) -> None:
    """Print what was compared, a line for each statistic, and every broken promise's sample."""
    console = Console()
    console.width = max(console.width, _WIDTH)  # A table that is cut is of no use.
    r = report.records
    console.print(
        f"{r.read:,} records read = {r.counted:,} counted + {r.late:,} late + {r.dead:,} dead"
        + (f" + {r.passed_over:,} passed over" if r.passed_over else "")
        + (f" + {r.unaccounted:,} unaccounted for" if r.unaccounted else ""),
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("statistic", no_wrap=True)
    for column in ("figures", "promised", "median", "99 %", "largest", "broken"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("error", no_wrap=True)
    for statistic in report.statistics:
        table.add_row(*_cells(statistic))
    console.print(table)
    for line in report.broken:
        console.print(f"broken: {line}", highlight=False, markup=False, soft_wrap=True)
    for line in _judged(report.judged):
        console.print(line, highlight=False, soft_wrap=True)
    if report.sample < 1:
        console.print(f"a sample of {report.sample:.4%} of the keys, by a hash", highlight=False)
    if report.published:
        names = ", ".join(report.published)
        console.print(
            f"published, so audited with the referee that answers for them: {names}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    figures = sum(statistic.figures for statistic in report.statistics)
    verdict = "every promise kept" if report.is_clean else "PROMISES BROKEN"
    console.print(
        f"{figures:,} figures in {report.emissions:,} emissions audited: {verdict}",
        highlight=False,
    )


def _judged(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield by which declarations emissions were judged, unless by the given one alone."""
    if all(one.declaration and one.is_given for one in judged):
        return
    for one in judged:
        if not one.declaration:
            yield (
                f"{one.emissions:,} emissions without a declaration's fingerprint, of an older"
                " version: judged by the topology given, and not for what they lack"
            )
        else:
            which = "the topology given" if one.is_given else "as the lake keeps it"
            yield f"{one.emissions:,} emissions by declaration {one.declaration}, {which}"


def _cells(s: StatisticSummary) -> tuple[str, ...]:
    unit = s.unit if s.confidence == 1 else f"{s.unit}, in {s.confidence:.4g} of cases"
    return (
        escape(s.statistic),  # It may be of another job.
        f"{s.figures:,}",
        *(f"{number:.4%}" for number in (s.promised, s.median, s.p99, s.worst)),
        f"{s.faults:,}",
        unit,
    )
