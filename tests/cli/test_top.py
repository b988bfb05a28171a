"""What `slidestat top` prints of a ranking, and whom it asks."""

import pytest

from slidestat.cli.display.query import lines_of
from slidestat.schemas.alert import Certainty
from slidestat.schemas.emission import Figure
from slidestat.schemas.query import RankedKey, RankingAnswer
from tests.commands import RunCli


def at(
    place: int, last: int | None, key: str, figure: Figure, end: int, *, lost: bool
) -> RankedKey:
    likely = Certainty.LIKELY
    return RankedKey(place, place, last, likely, likely, key, figure, end, 0, lost)


def test_lines_of_a_ranking() -> None:
    """A line a place, with what is known of it: of a key that is anybody's text, that records may
    be missing, and that its window is an older one.
    """
    now = 1_700_049_720_000
    narrow = Figure("count", 20.0, 20.0, 20.0, window_ms=60_000)
    wide = Figure("count", 10.0, None, 12.0, window_ms=60_000)
    rows = [
        at(1, 1, "a\nb", narrow, now, lost=False),
        at(2, None, "old", wide, now - 60_000, lost=True),
    ]
    answer = RankingAnswer("t", "count_1m", "largest", 2, 7, rows)
    assert lines_of(answer) == [
        "place   may be  count_1m    bounds  key",
        r"    1  certain        20  [20, 20]  a\nb",
        "    2   2 to ?        10   [-, 12]  old  may lack lost records"
        "  until 2023-11-15T12:01:00Z",
    ]
    assert lines_of(RankingAnswer("t", "p99", "largest", 2, 0, [])) == [
        "place  may be  p99  bounds  key"
    ]


def test_without_a_figure(run_cli: RunCli) -> None:
    """Those of the topology are named; no worker need run."""
    run = run_cli("top", "flights")
    assert run.returncode == 2
    first, advice = run.stderr.splitlines()
    assert first == "error: It is not clear by which figure to rank the keys."
    assert "count_1d" in advice


@pytest.mark.parametrize(
    "asked", [["query", "flights", "JFK"], ["top", "flights", "count_1d"], ["mcp"]]
)
def test_a_worker_at_no_address(run_cli: RunCli, asked: list[str]) -> None:
    """A variable that is not set names no worker: none of this machine is asked in its place."""
    run = run_cli(*asked, "--url", "")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: '' is no worker's address.")
