"""Declared rankings: at each tick who leads over all partitions, as all keys together have it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.declared import require_emissions
from slidestat.declare.forms.files import load_topology
from slidestat.declare.rankings import Ranking
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Quantiles
from slidestat.declare.topology import Topology
from slidestat.doctor.permissions import uses
from slidestat.engine.emissions.rankings import Ranked
from slidestat.engine.publishing import SynopsisRecord
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.referee.live_referee import RefereeQuery
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.query import Contender, RankedKey
from slidestat.schemas.ranking import Ranking as Written, decode_ranking
from slidestat.testing.driver import RefereeDriver, TopologyDriver
from slidestat.testing.records import MemoryStore
from tests.engine.cases import laws

START = 1_764_072_000_000
SPAN, WINDOW, EVERY = 60_000, 20_000, 10_000
RANKINGS = (
    Ranking(name="busiest", by="count_20s", largest=2),
    Ranking(name="quietest", by="count_1m", smallest=3),
    Ranking(name="slowest", by="p50_1m", largest=1, having="count_20s >= 2"),
    Ranking(name="per", by="per", largest=4),
)
TOPOLOGY = Topology(
    name="t",
    source="s",
    span="1m",
    every="10s",
    windows=("20s", "1m"),
    statistics=(Count(epsilon=0.3), Quantiles(quantiles=(0.5,), epsilon=0.3)),
    derived=("count_20s / count_1m as per",),
    rankings=RANKINGS,
)
REFEREE = Referee(of=TOPOLOGY, patience="1d")


def event(key: str, at: int, value: float = 1) -> dict[str, object]:
    return {"key": key, "time": START + at, "value": value}


def expected(always: TopologyDriver, ranking: Ranking, tick: int) -> list[RankedKey]:
    """Return who has the places among all keys that have an event in the span, by what they emit at
    the tick.
    """
    contenders = []
    place = always.topology.names_over_windows[ranking.by][0]
    for it in always.emissions:
        counted = {(figure.statistic, figure.window_ms): figure for figure in it.figures}
        if it.window_end_ms != tick or not counted["count", SPAN].upper:
            continue
        figure = it.figures[place]
        may = not ranking.having or counted["count", WINDOW].upper >= 2
        sure = not ranking.having or counted["count", WINDOW].lower >= 2
        if figure.upper is not None and may:
            contenders.append(Contender(it.key, figure, sure, it.source_partition, tick))
    contenders.sort(key=lambda it: it.key)
    return Ranked(ranking.size, ranking.is_of_smallest).keys(contenders)


@settings(laws, max_examples=15)
@given(
    st.randoms(use_true_random=False),
    st.integers(1, 4),
    st.sampled_from(["events", "windows", "always", "change"]),
)
def test_a_ranking_is_that_of_all_keys_together(random: Random, partitions: int, emit: str) -> None:
    """Of any events over any partitions, sent in any parts, and with crashes: at each tick the
    places are those of all keys as they are emitted, and emissions are those without rankings.
    """
    topology = replace(TOPOLOGY, emit=emit)
    driver = RefereeDriver(Referee(of=topology, patience="1d"), partitions)
    plain = TopologyDriver(replace(topology, rankings=()), partitions)
    always = TopologyDriver(replace(topology, rankings=(), emit="always"), partitions)
    parties, at = driver.parties, 0
    for _ in range(random.randint(1, 8)):
        events = []
        for _ in range(random.randint(1, 12)):
            at += random.choice([0, 1, 900, 5_000, 11_000, random.randint(0, 40_000)])
            events.append(event(random.choice("abcdefgh"), at, random.choice([1, 2, 2, 5, 90])))
        for one in (driver, plain, always):
            one.send(*events)
        if random.random() < 0.5:
            for one in (driver, plain, always):
                one.advance_to(START + at + 1)
            at += 1
        chance = random.random()
        if chance < 0.3:
            parties.commit()
        elif chance < 0.5:
            parties.restart()
    for one in (driver, plain, always):
        one.advance_to(START + at + 2 * SPAN)
    assert parties.emissions == plain.emissions
    assert not driver.dead_letters
    live = {
        it.window_end_ms
        for it in always.emissions
        if any(figure.statistic == "count" and figure.upper for figure in it.figures)
    }
    for ranking in RANKINGS:
        found = [it for it in driver.rankings if it.ranking == ranking.name]
        assert not any(it.provisional or it.absent for it in found)
        # One more, empty, where the span of all keys has emptied.
        ticks = [it.window_end_ms for it in found]
        assert ticks == sorted(live | {tick + EVERY for tick in live})
        for it in found:
            assert it.places == expected(always, ranking, it.window_end_ms)
            assert (it.by, it.size, it.having) == (ranking.by, ranking.size, ranking.having)


def test_places_that_bounds_leave_open_are_named() -> None:
    """A record has the order by the estimates, and the places that each key may have."""
    driver = RefereeDriver(REFEREE, partitions=2)
    for key, first, end, partition in (("a", 0, 40, 0), ("b", 0, 38, 1), ("c", 50, 53, 0)):
        driver.send(*(event(key, at) for at in range(first, end)), partition=partition)
    driver.advance_to(START + EVERY)
    [found] = [it for it in driver.rankings if it.ranking == "busiest"]
    assert [(it.key, it.place, it.source_partition) for it in found.places] == [
        ("a", 1, 0),
        ("b", 2, 1),
    ]
    assert [(it.first_place, it.last_place) for it in found.places] == [(1, 2), (1, 2)]
    assert (found.keys, found.window_end_ms, found.parties) == (3, START + EVERY, ["s/0", "s/1"])


def test_a_partition_that_is_away_is_named_and_then_made_up_for() -> None:
    """Beyond the patience a ranking is provisional without it, and comes again with its keys."""
    driver = RefereeDriver(replace(REFEREE, patience="10s"), partitions=2)
    driver.send(event("a", 0), partition=0)
    driver.send(*(event("a", 30_000 + at) for at in range(20)), partition=0)
    first = next(it for it in driver.rankings if it.ranking == "busiest")
    assert first.provisional
    assert [it.party for it in first.absent or ()] == ["s/1"]
    driver.send(event("b", 1), event("b", 2), partition=1)
    driver.advance_to(START + EVERY)
    found = [it for it in driver.rankings if it.ranking == "busiest"]
    again = next(it for it in found[1:] if it.window_end_ms == first.window_end_ms)
    assert not again.provisional
    assert [it.key for it in again.places] == ["b", "a"]


def test_a_part_of_a_ranking_that_was_declared_otherwise_is_a_dead_letter() -> None:
    """Workers that have another declaration publish for another ranking of the same name."""
    other = replace(TOPOLOGY, rankings=(replace(RANKINGS[0], by="count_1m"),))
    driver = RefereeDriver(REFEREE)
    driver.parties = TopologyDriver(other)
    driver.send(*(event("a", at) for at in range(3)))
    driver.advance_to(START + EVERY)
    assert not driver.rankings
    assert [str(it.reason) for it in driver.dead_letters] == ["bad-synopsis"]


def judged(records: Sequence[SynopsisRecord], first: int = 0) -> list[Written]:
    """Return the rankings of what partitions publish, those before the record `first` deleted."""
    kept = records[first:]
    batch = RecordBatch(
        REFEREE.source,
        0,
        np.arange(first, len(records)),
        [record.key for record in kept],
        [record.value for record in kept],
        [record.timestamp for record in kept],
        first,
    )
    effects = RefereeProcessor(REFEREE, REFEREE.source, 0, MemoryStore()).process(batch)
    found = [decode_ranking(value) for _, value, _ in effects.emissions]
    return [it for it in found if it.ranking == "busiest"]


def test_a_partition_of_an_old_worker_is_absent() -> None:
    """A ranking that was renamed, in a rolling restart: its tick is passed, but without the keys
    of the partition that has the old name, be it before or behind the others.
    """
    published = []
    for rankings in (RANKINGS, (replace(RANKINGS[0], name="old"), *RANKINGS[1:])):
        driver = TopologyDriver(replace(TOPOLOGY, rankings=rankings), 2)
        driver.send(event("small", 0), partition=0)
        driver.send(event("LARGE", 0), event("LARGE", 1), partition=1)
        driver.advance_to(START + EVERY)
        published.append(driver.published)
    new, old = published
    of_first = [it for it in new if b"s/0" in it.key]
    of_second = [it for it in old if b"s/1" in it.key]
    for mixed in (of_first + of_second, of_second + of_first):
        [found] = judged(mixed)
        assert (found.parties, found.provisional) == (["s/0"], True)
        assert [(it.party, it.since_ms) for it in found.absent or ()] == [("s/1", None)]
    [whole] = judged(new)
    assert (whole.parties, whole.provisional, whole.absent) == (["s/0", "s/1"], False, None)


def test_ticks_before_a_ranking_was_declared_lack_the_partition() -> None:
    """Of a partition that had passed ticks before, they have no keys, and no final record."""
    driver = TopologyDriver(replace(TOPOLOGY, rankings=()), 2)
    for partition, ends in ((0, 3), (1, 1)):
        driver.send(event("ab"[partition], 0), partition=partition)
        driver.send(*[event("ab"[partition], ends * EVERY)] * 2, partition=partition)
    driver.change_statistics(TOPOLOGY)
    for partition in (1, 0):
        driver.send(*[event("ab"[partition], 5 * EVERY)] * 2, partition=partition)
        driver.restart()
    found = [
        ((it.window_end_ms - START) // EVERY, it.provisional, it.parties)
        for it in judged(driver.published)
    ]
    assert found == [
        (2, True, ["s/1"]),
        (3, True, ["s/1"]),
        (4, False, ["s/0", "s/1"]),
        (5, False, ["s/0", "s/1"]),
    ]


def test_what_was_deleted_before_a_referee_began_is_not_missed_in_silence() -> None:
    """Of parts that are deleted the clock may be left: its ticks lack the partition."""
    driver = TopologyDriver(TOPOLOGY, 1)
    driver.send(event("a", 0), event("a", EVERY), event("a", 2 * EVERY), event("a", 3 * EVERY))
    assert [it.parties for it in judged(driver.published)] == [["s/0"]] * 3
    assert judged(driver.published, 1)[0].window_end_ms != START + EVERY
    first = next(n for n, it in enumerate(driver.published) if it.timestamp > START + EVERY)
    later = judged(driver.published, first + 1)
    assert [it.window_end_ms for it in later] == [START + 3 * EVERY]
    assert not later[0].provisional


@pytest.mark.parametrize(
    "moved", [{"source": "", "sources": ["eu", "us"]}, {"repartition": True}], ids=["many", "one"]
)
def test_parties_are_partitions_of_the_moved_records(moved: dict[str, Any]) -> None:
    """Where records are moved before they are counted, the partitions that they are moved to."""
    referee = replace(REFEREE, of=replace(TOPOLOGY, lateness="1s", **moved))
    driver = RefereeDriver(referee, partitions=2)
    driver.send(*(event(key, at) for key in "abcdefgh" for at in range(3)))
    driver.advance_to(START + EVERY)
    assert not driver.dead_letters
    found = driver.rankings[0]
    assert (found.parties, found.absent) == (["t-repartition/0", "t-repartition/1"], None)
    [parties] = [
        use.topic for use in uses(referee, referee.source_topics) if use.check == "parties"
    ]
    assert parties == "t-repartition"


def test_questions_for_figures_are_refused() -> None:
    with pytest.raises(SlidestatError, match="t-global writes the rankings of t, and has no"):
        RefereeQuery(REFEREE)
    with pytest.raises(SlidestatError, match="t-global writes rankings, and a lake reads"):
        require_emissions(REFEREE, "a lake")
    require_emissions(REFEREE, "a lake", or_rankings=True)


def test_what_takes_it_is_named(tmp_path: Path) -> None:
    """Neither what watches figures, nor what draws them."""
    (tmp_path / "of.toml").write_text(
        'name = "t"\nsource = "s"\nspan = "5m"\nevery = "1m"\n[[statistics]]\nkind = "count"\n'
        '[[rankings]]\nname = "busiest"\nby = "count_5m"\nlargest = 2\n'
    )
    file = tmp_path / "ranked.toml"
    file.write_text('of = "of.toml"\npatience = "1m"\n')
    with pytest.raises(SlidestatError, match="is a referee") as refused:
        load_topology(str(file))
    assert (
        "`slidestat run`, `dlq count` and `dlq show`, and `slidestat spark ingest` and `audit`"
        in (refused.value.advice)
    )


@pytest.mark.parametrize("field", ["windows", "emit", "output_format"])
def test_a_referee_of_rankings_writes_nothing_else(field: str) -> None:
    given = {"windows": ("20s",), "emit": "always", "output_format": "avro"}[field]
    with pytest.raises(SlidestatError, match=f"{field} is .*, and t has rankings"):
        replace(REFEREE, **{field: given})
