"""The guide to rankings: its topology, its table and its record."""

from pathlib import Path

import msgspec

from slidestat.cli.display.query import lines_of
from slidestat.declare.forms.files import load_declaration, load_topology
from slidestat.declare.referee import Referee
from slidestat.testing.driver import RefereeDriver, TopologyDriver
from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "rankings.md"
NOON = 1_700_049_600_000
REQUESTS = {"/search": 900, "/cart": 500, "/login": 490, "/help": 101, "/about": 99, "/jobs": 5}


def test_the_guide_shows_what_is_answered(tmp_path: Path) -> None:
    """Its table, and the record of a key, are those of its topology after these requests."""
    (topology, *_), (table, *_), (record, *_) = (
        blocks(GUIDE, it) for it in ("toml", "console", "json")
    )
    (tmp_path / "api.toml").write_text(topology.text)
    driver = TopologyDriver(load_topology(str(tmp_path / "api.toml")))
    driver.send(
        *(
            {"key": key, "time": NOON + i, "took_ms": i % 90, "status": 200 + 300 * (i % 2)}
            for i in range(max(REQUESTS.values()))
            for key, count in REQUESTS.items()
            if i < count
        ),
        partition=0,
    )
    driver.advance_to(NOON + 120_000)
    found = driver.ranking("count_5m", largest=4)
    assert lines_of(found) == table.text.splitlines()[1:-1]
    told = msgspec.json.encode(found.places[1])
    assert msgspec.json.format(told, indent=0) == msgspec.json.format(
        record.text.encode(), indent=0
    )
    for by in ("error_rate", "p99_5m"):
        assert len(driver.ranking(by, smallest=20, having="count_5m >= 50").places) == 5


def test_the_declared_ranking_is_written_by_its_referee(tmp_path: Path) -> None:
    """The two files of the guide, and the names that it has for what they write."""
    for block in blocks(GUIDE, "toml")[1:]:
        (tmp_path / block.text.splitlines()[0].removeprefix("# ")).write_text(block.text)
    referee = load_declaration(str(tmp_path / "slow_ranked.toml"))
    assert isinstance(referee, Referee)
    assert (referee.source, referee.output_topic) == ("slow-synopses", "slow-global-rankings")
    driver = RefereeDriver(referee, partitions=2)
    for partition, (key, took) in enumerate((("/search", 40), ("/cart", 900))):
        driver.send(
            *({"key": key, "time": NOON + i, "took_ms": took + i} for i in range(150)),
            partition=partition,
        )
    driver.advance_to(NOON + 60_000)
    [ranking] = driver.rankings
    assert ranking.window_end_ms == NOON + 60_000
    assert [(it.key, it.place, it.last_place) for it in ranking.places] == [
        ("/cart", 1, 1),
        ("/search", 2, 2),
    ]
