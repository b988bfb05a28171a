"""Format the answer of `slidestat query`: the rows that `slidestat watch` would show, or JSON."""

import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console

from slidestat.admin.query import ask
from slidestat.cli.display.watch import show_rows
from slidestat.schemas.emission import Figure
from slidestat.text.figure_text import Row, iso_time, printable


def query(
    url: str,
    topology: str,
    key: str,
    windows: Sequence[str],
    statistics: Sequence[str],
    quantiles: Sequence[float],
    where: str | None,
    *,
    as_json: bool,
) -> None:
    """Show a key's figures once. Raises SlidestatError as asking does."""
    answer, body = ask(url, topology, key, windows, statistics, quantiles, where)
    if as_json:
        sys.stdout.write(body.decode() + "\n")
        return
    rows = [
        Row(answer.key, answer.window_end_ms, _chosen(figure, answer.where), lost=answer.lost)
        for figure in answer.figures
    ]
    show_rows(rows, Console(highlight=False))
    for absent in answer.absent or ():
        came = (
            "it never came"
            if absent.since_ms is None
            else f"it came to {iso_time(absent.since_ms)}"
        )
        print(f"Without {printable(absent.party)}: {came}.", file=sys.stderr)


def _chosen(figure: Figure, where: str | None) -> Figure:
    """The figure, with what it was asked for told beside its name."""
    if where is None:
        return figure
    return msgspec.structs.replace(figure, statistic=f"{figure.statistic} where {where}")
