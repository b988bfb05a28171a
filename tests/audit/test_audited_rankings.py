"""Rankings recomputed: right ones pass, and what is changed in one is found."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from msgspec import json, structs

from slidestat.declare.forms.resolved import fingerprint, fingerprint_of, resolved
from slidestat.declare.rankings import Ranking
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import AgeOfLast, Count, Mean, Quantiles, Sum
from slidestat.declare.topology import Topology
from slidestat.schemas.alert import Certainty
from slidestat.schemas.ranking import Ranking as Written
from slidestat.spark.audit import rankings
from slidestat.spark.audit.declaration import Declaration, declaration_of
from slidestat.spark.audit.key import BEFORE_ALL, Emitted, Finding, KeyEvents, KeyJudge
from slidestat.spark.audit.rankings import Claim, KeyInRankings, KnownTicks, judged_ranking
from slidestat.testing.driver import RefereeDriver
from tests.engine.cases import laws

START = 1_764_072_000_000
EVERY = 10_000
TOPOLOGY = Topology(
    name="t",
    source="s",
    span="1m",
    every="10s",
    lateness="10s",
    windows=("20s", "1m"),
    value_field="value",
    statistics=(
        Count(epsilon=0.3),
        Mean(epsilon=0.3),
        Sum(epsilon=0.3),
        Quantiles(quantiles=(0.5,), epsilon=0.3),
        AgeOfLast(number=2, epsilon=0.3),
    ),
    derived=("count_20s / count_1m as per", "ago(count_20s, '30s') - count_20s as less"),
    rankings=(
        Ranking(name="busiest", by="count_20s", largest=2),
        Ranking(name="quietest", by="count_1m", smallest=3),
        Ranking(name="slowest", by="p50_1m", largest=1, having="count_20s >= 2"),
        Ranking(name="per", by="per", largest=4, having="per > 0 or ago(count_20s, '20s') > 1"),
        Ranking(name="mean", by="mean_1m", smallest=2, having="mean_20s is not null"),
        Ranking(name="less", by="less", smallest=2),
        Ranking(name="oldest", by="age_of_last_2", largest=2),
    ),
)


class Told:
    """All that a referee has written of some events, and an audit of it."""

    def __init__(self, topology: Topology, partitions: int) -> None:
        self.referee = Referee(of=topology, patience="1d")
        self.driver = RefereeDriver(self.referee, partitions)
        self.declaration: Declaration = declaration_of(resolved(self.referee))
        self.events: defaultdict[tuple[int, str], list[tuple[int, float]]] = defaultdict(list)

    def send(self, key: str, at: int, value: float = 1, partition: int = 0) -> None:
        late = len(self.driver.parties.late)
        event = {"key": key, "time": START + at, "value": value}
        self.driver.send(event, partition=partition)
        if len(self.driver.parties.late) == late:
            self.events[partition, key].append((START + at, value))

    def final(self) -> list[Written]:
        self.driver.advance_to(START + 2_000_000)
        return [one for one in self.driver.rankings if not one.provisional]

    def audit(self, records: Sequence[Written], changed_at: int | None = None) -> list[Finding]:
        """What an audit finds of these records, the events of each key coming one by one. From the
        tick `changed_at` on they are by another declaration, which says the same.
        """
        rows = [
            {"declaration": "m", "value": json.encode(one), "place": place}
            for place, one in enumerate(records)
        ]
        batch = pa.RecordBatch.from_pylist(rows)
        facts = pa.Table.from_batches(rankings._facts([batch])).sort_by("tick").to_pylist()
        listed = pa.Table.from_batches(rankings._places([batch])).to_pylist()
        by_name: defaultdict[str, list[Any]] = defaultdict(list)
        for row in facts:
            by_name[row["ranking"]].append(_Row(row))
        written = {name: rankings._written(of) for name, of in by_name.items()}
        of_all = {name: it.ticks for name, it in written.items()}
        reigns = (
            [(BEFORE_ALL, -BEFORE_ALL)]
            if changed_at is None
            else [
                (BEFORE_ALL, changed_at),
                (changed_at, -BEFORE_ALL),
            ]
        )
        known = [
            KnownTicks(
                {name: ticks[(ticks >= start) & (ticks < end)] for name, ticks in of_all.items()},
                of_all,
            )
            for start, end in reigns
        ]
        counts: rankings.Counts = defaultdict(lambda: [0, 0])
        asked = [rankings._Asked(self.declaration, it) for it in self.declaration.rankings]
        found: list[Finding] = []
        claims: defaultdict[tuple[str, int], list[Claim]] = defaultdict(list)
        places = {(row["source_partition"], row["event_key"]) for row in listed}
        for partition, key in self.events.keys() | places:
            judge = KeyJudge(self.declaration, key, BEFORE_ALL, BEFORE_ALL)
            of_key = [
                it for it in listed if (it["source_partition"], it["event_key"]) == (partition, key)
            ]
            emitted = [Emitted(it["window_end_ms"], it["place"], it["value"], "m") for it in of_key]
            for ticks, (start, end) in zip(known, reigns, strict=True):
                one = KeyInRankings(
                    judge,
                    partition,
                    asked,
                    {name: _between(it, start, end) for name, it in written.items()},
                    counts,
                    ticks,
                    knows_all=True,
                )
                own = [it for it in emitted if start <= it.tick < end]
                for it in (*self._followed(one, sorted(self.events[partition, key]), own),):
                    if isinstance(it, Finding):
                        found.append(it)
                    else:
                        claims[it[0], it[1]].append(it[2])
        for (name, tick, partition), of in counts.items():
            claims[name, tick].append(Claim(None, partition, *of))
        for record in records:
            at = record.ranking, record.window_end_ms
            found += judged_ranking(self.declaration, at[1], record, claims.pop(at, []))
        for (_, tick), of_tick in claims.items():
            found += judged_ranking(self.declaration, tick, None, of_tick)
        return [one for one in found if one.violation]

    def _followed(
        self, one: KeyInRankings, events: Sequence[tuple[int, float]], emitted: Sequence[Emitted]
    ) -> Any:
        in_order: list[Any] = sorted(
            [*((it[0], 1, it) for it in events), *((it.tick, 0, it) for it in emitted)],
            key=lambda it: it[:2],
        )
        for at, is_event, it in in_order:
            yield from one.go_on(
                self._events([it] if is_event else []), [] if is_event else [it], at
            )
        yield from one.end(self._events([]))

    def _events(self, events: Sequence[tuple[int, float]]) -> KeyEvents:
        columns = {
            name: pa.array([repr(value) for _, value in events], pa.string())
            for name in self.declaration.columns
        }
        times = np.array([time for time, _ in events], np.int64)
        return KeyEvents(times, np.arange(len(events)), columns)


def _between(written: rankings.Written, start: int, end: int) -> rankings.Written:
    rows = np.flatnonzero((written.ticks >= start) & (written.ticks < end))
    last = [written.last[row] for row in rows.tolist()]
    return rankings.Written(written.ticks[rows], written.least[rows], last)


class _Row:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)


@settings(laws, max_examples=8)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_what_a_referee_writes_is_right(random: Random, partitions: int) -> None:
    """Of any events over any partitions, with ties, silences and late events: nothing is found."""
    told = Told(TOPOLOGY, partitions)
    at = 0
    for _ in range(random.randint(1, 40)):
        at += random.choice([0, 500, 4_000, 30_000])
        key = random.choice("abcde")
        partition = "abcde".index(key) % partitions
        told.send(key, max(0, at - random.choice([0, 0, 25_000])), random.randint(0, 9), partition)
    found = told.audit(told.final())
    assert not found, found


def _figure(record: Written, place: int, **fields: Any) -> Written:
    figure = structs.replace(record.places[place].figure, **fields)
    return _place(record, place, figure=figure)


def _place(record: Written, row: int, **fields: Any) -> Written:
    places = list(record.places)
    places[row] = structs.replace(places[row], **fields)
    return structs.replace(record, places=places)


def _numbered(record: Written, places: Sequence[Any], **fields: Any) -> Written:
    of = [structs.replace(it, place=number) for number, it in enumerate(places, 1)]
    return structs.replace(record, places=of, **fields)


def _told(*later: int) -> tuple[Told, Written]:
    """A ranking of exact counts: 9 of a, 7 of b and 5 of c, of three places; d and e have less."""
    topology = replace(
        TOPOLOGY,
        statistics=(Count(epsilon=0.05),),
        derived=(),
        rankings=(Ranking(name="busiest", by="count_20s", largest=3),),
    )
    told = Told(topology, 2)
    for at in range(9):
        for key, count in zip("abcde", (9, 7, 5, 2, 1), strict=True):
            if at < count:
                told.send(key, at, partition="abcde".index(key) % 2)
    for at in later:
        told.send("a", at)
    record = told.final()[0]
    assert [it.key for it in record.places] == ["a", "b", "c"]
    assert not told.audit(told.final())
    return told, record


def _violations(told: Told, record: Written) -> str:
    return " | ".join(it.violation for it in told.audit([record, *told.final()[1:]]))


def test_a_wrong_figure_is_found() -> None:
    told, record = _told()
    wrong = _figure(record, 0, estimate=99.0, lower=98.0, upper=100.0)
    assert "more off than promised" in _violations(told, wrong)
    assert "promises less" in _violations(told, _figure(record, 0, relative_error=0.9))
    assert "with another figure" in _violations(told, _figure(record, 0, window_ms=60_000))


def test_a_key_that_has_no_place_is_found() -> None:
    told, record = _told()
    assert "listed, without an event in the span" in _violations(
        told, _place(record, 1, key="nobody")
    )


def test_a_wrong_place_is_found() -> None:
    """Places that agree with the bounds that are written, but not with the events."""
    told, record = _told()
    wide = {"lower": 0.0, "upper": 99.0, "relative_error": 0.05}
    [a, b, c] = record.places
    swapped = [
        structs.replace(a, figure=structs.replace(a.figure, **wide), key="b", source_partition=1),
        structs.replace(b, figure=structs.replace(b.figure, **wide), key="a", source_partition=0),
        c,
    ]
    assert (a.certainty, b.certainty) == (Certainty.CERTAIN, Certainty.CERTAIN)
    found = _violations(told, _numbered(record, swapped))
    assert "busiest: place 1, said to be 1 to 1, is exactly 2" in found
    assert "busiest: place 2, said to be 2 to 2, is exactly 1" in found


@pytest.mark.parametrize("gone", ["a", "b"])
def test_a_key_that_is_left_out_is_found(gone: str) -> None:
    """Where nothing is said to be certain, and the list is as long as it may be."""
    told, record = _told()
    d = structs.replace(
        record.places[-1],
        key="d",
        source_partition=1,
        figure=structs.replace(record.places[-1].figure, estimate=2.0, lower=2.0, upper=2.0),
    )
    likely = {"certainty": "likely", "membership": "likely", "first_place": 1, "last_place": None}
    left = [structs.replace(it, **likely) for it in (*record.places, d) if it.key != gone]
    found = _violations(told, _numbered(record, left))
    assert found == "busiest: left out, though larger than the last place"


def test_a_key_that_is_left_out_with_places_to_spare_is_found() -> None:
    told, record = _told()
    found = _violations(told, _numbered(record, record.places[:2]))
    assert found == " | ".join(["busiest: left out, with places to spare"] * 3)


@pytest.mark.parametrize("keys", [4, 6])
def test_a_wrong_number_of_keys_is_found(keys: int) -> None:
    told, record = _told()
    found = _violations(told, structs.replace(record, keys=keys))
    assert found == f"{keys} keys may have a place, and exactly 5 have one, of 5"


def test_a_ranking_that_contradicts_itself_is_found() -> None:
    told, record = _told()
    [a, b, c] = record.places
    for broken, violation in (
        (_numbered(record, [b, a, c]), "not in the order of their figures and keys"),
        (_place(record, 1, place=3), "place 2 contradicts itself"),
        (_place(record, 1, certainty=Certainty.LIKELY), "place 2 contradicts itself"),
        (_place(record, 1, last_place=None), "place 2 contradicts itself"),
        (_place(record, 1, first_place=3), "place 2 contradicts itself"),
        (_numbered(record, [a, a, b]), "a key has two places"),
        (_numbered(record, [a, b, c, c]), "4 places, of 3 for 5 keys"),
        (structs.replace(record, by="count_1m"), "not declared: 3 largest by count_1m"),
        (structs.replace(record, ranking="other"), "a ranking that is not declared"),
    ):
        assert violation in _violations(told, broken)


def test_a_ranking_that_is_not_there_is_found() -> None:
    told, _ = _told(100_000, 300_000)
    records = told.final()
    gone = next(it for it in records if it.window_end_ms == START + 100_000 + EVERY)
    found = told.audit([it for it in records if it is not gone])
    assert [(it.window_end_ms, it.violation) for it in found] == [
        (gone.window_end_ms, "no ranking is there")
    ]


def test_a_ranking_is_missed_also_where_the_declaration_has_changed() -> None:
    """Between the first and the last record by each; which one had a tick between them, and whether
    it was down then, nobody knows.
    """
    told, _ = _told(*range(100_000, 300_000, 5_000))
    records = told.final()
    changed_at = START + 200_000
    assert not told.audit(records, changed_at)
    for at, is_found in (
        (changed_at - 3 * EVERY, True),
        (changed_at - EVERY, False),
        (changed_at, False),
        (changed_at + 3 * EVERY, True),
    ):
        found = told.audit([it for it in records if it.window_end_ms != at], changed_at)
        missed = [(at, "no ranking is there")] if is_found else []
        assert [(it.window_end_ms, it.violation) for it in found] == missed


def test_a_ranking_that_is_at_no_tick_of_the_others_is_found() -> None:
    """At each of them with events in the span, but for the first and the last."""
    told = Told(TOPOLOGY, 1)
    ats = 0, 100_000, 300_000
    for at in ats:
        told.send("a", at)
    records, span = told.final(), told.declaration.span
    assert not told.audit(records)
    found = told.audit([it for it in records if it.ranking != "quietest"])
    ticks = sorted({it.window_end_ms for it in records})
    live = [it for it in ticks if any(it - span <= START + at < it for at in ats)]
    assert {it.violation for it in found} == {"no ranking is there"}
    inside = [it for it in live if ticks[0] < it < ticks[-1]]
    assert sorted({it.window_end_ms for it in found}) == inside


def test_the_fingerprint_is_that_of_before() -> None:
    """What an audit needs of rankings changes no header of a record."""
    referee = Referee(of=TOPOLOGY, patience="1d")
    table = resolved(referee)
    assert fingerprint_of(referee) == fingerprint(
        {name: it for name, it in table.items() if name != "ranking_figures"}
    )
