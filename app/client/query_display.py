"""What `slidestat query` shows: the rows that `slidestat watch` would, or JSON."""

import sys
from collections.abc import Sequence

from rich.console import Console

from app.client.figure_text import Row, iso_time, printable
from app.client.query import ask
from app.client.watch_display import show_rows


def query(
    url: str,
    topology: str,
    key: str,
    windows: Sequence[str],
    statistics: Sequence[str],
    quantiles: Sequence[float],
    *,
    as_json: bool,
) -> None:
    """Show a key's figures once. Raises SlidestatError as asking does."""
    answer, body = ask(url, topology, key, windows, statistics, quantiles)
    if as_json:
        sys.stdout.write(body.decode() + "\n")
        return
    rows = [Row(answer.key, answer.window_end_ms, figure) for figure in answer.figures]
    show_rows(rows, Console(highlight=False))
    for absent in answer.absent or ():
        came = (
            "it never came"
            if absent.since_ms is None
            else f"it came to {iso_time(absent.since_ms)}"
        )
        print(f"Without {printable(absent.party)}: {came}.", file=sys.stderr)
