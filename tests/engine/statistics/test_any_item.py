"""Counts of any items in topologies: in records, asked for, of the past, over many parties."""

from collections import Counter
from random import Random

import pytest
from msgspec import structs

from slidestat import (
    Alert,
    Count,
    ItemCounts,
    Referee,
    RefereeDriver,
    TopItems,
    Topology,
    TopologyDriver,
)
from slidestat.declare.statistics import Statistic
from tests.audit.test_audit_key import Partition
from tests.engine.memory import SOURCE, Record
from tests.engine.streams import START_MS as STREAM_MS

MINUTE = 60_000
START_MS = STREAM_MS // (60 * MINUTE) * 60 * MINUTE
PATHS = [f"/{n}" for n in range(300)]


def declared(*statistics: Statistic, **fields: object) -> Topology:
    return Topology(
        name="law",
        source=SOURCE,
        span="1h",
        windows=("5m", "1h"),
        every="5m",
        value_field="path",
        statistics=statistics,
        **fields,  # type: ignore[arg-type]
    )


def events(seed: int, count: int) -> list[dict[str, object]]:
    random = Random(seed)
    weights = [1 / (n + 1) for n in range(len(PATHS))]
    return [
        {
            "key": "k",
            "time": START_MS + 2_000 * i,
            "path": random.choices(PATHS, weights)[0],
            "n": i,
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("others", [(), (TopItems(limit=2),)], ids=["alone", "beside a list"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"emit": "change"}, {"emit": "always"}, {"output_format": "avro"}, {"publish": ("k",)}],
    ids=str,
)
def test_none_need_be_named(others: tuple[Statistic, ...], fields: dict[str, object]) -> None:
    """A topology whose counts are all asked for later has records without figures of them."""
    topology = declared(ItemCounts(), *others, **fields)
    referee = RefereeDriver(Referee(of=topology, patience="1m")) if topology.publish else None
    driver = TopologyDriver(topology) if referee is None else referee.parties
    (driver if referee is None else referee).send(*events(3, 400))
    emissions = (driver if referee is None else referee).emissions
    assert emissions
    for emission in emissions:
        assert {figure.statistic for figure in emission.figures} == {it.kind for it in others}
    answer = driver.query("k", ["1h"], items=["/0"])
    assert answer is not None
    assert min(figure.upper or 0 for figure in answer.figures) > 0


def test_counts_asked_for_are_those_of_records_and_hold() -> None:
    """Named ones in records, any others in a question, both at once where a condition holds."""
    some = ItemCounts(items=("/0", "/never"), epsilon=0.02, delta=1e-6)
    none = ItemCounts(name="none", epsilon=0.02, delta=1e-6)
    chosen = ItemCounts(name="odd", where="n % 2 = 1", items=("/1",), epsilon=0.02, delta=1e-6)
    driver = TopologyDriver(declared(some, none, chosen))
    sent = events(1, 2_390)
    driver.send(*sent)
    driver.advance_to(START_MS + 80 * MINUTE)
    last = driver.emissions[-1]
    named = [(f.statistic, f.item) for f in last.figures]
    assert named == [("item_counts", "/0"), ("item_counts", "/never")] * 2 + [("odd", "/1")] * 2
    for ago, end in (("0s", 80), ("20m", 60)):
        for window in ("5m", "17m", "40m"):
            minutes = int(window[:-1])
            since, until = (START_MS + m * MINUTE for m in (end - minutes, end))
            inside = [e for e in sent if since <= e["time"] < until]  # type: ignore[operator]
            counts = Counter(e["path"] for e in inside)
            odd = Counter(e["path"] for e in inside if e["n"] % 2)  # type: ignore[operator]
            asked = ["/0", "/1", "/7", "/299", "/absent"]
            answer = driver.query("k", [window], items=asked, ago=None if ago == "0s" else ago)
            assert answer is not None
            assert len(answer.figures) == 3 * len(asked)
            for figure in answer.figures:
                exact = (odd if figure.statistic == "odd" else counts)[figure.item]
                assert figure.lower <= exact <= figure.upper
                assert figure.confidence == 1 - 1e-6
                if ago == "0s":
                    events_there = sum((odd if figure.statistic == "odd" else counts).values())
                    assert abs(figure.estimate - exact) <= 0.02 * events_there
    (told,) = driver.query("k", ["1h"], ["item_counts"], items=["/0"]).figures  # type: ignore[union-attr]
    assert told == next(f for f in last.figures if f.item == "/0" and f.window_ms == 60 * MINUTE)


def test_other_items_of_records_keep_what_is_counted() -> None:
    """States do not depend on which items are named; alerts read those that are."""
    driver = TopologyDriver(declared(ItemCounts(items=("p0",), delta=1e-6), Count()))
    driver.send(*({"key": "k", "time": START_MS + i, "path": f"p{i % 2}"} for i in range(18)))
    alert = Alert(name="often", when="item_counts_p1 >= 9", window="1h")
    changed = declared(ItemCounts(items=("p1", "p2"), delta=1e-6), Count(), alerts=(alert,))
    driver.change_statistics(changed)
    driver.send({"key": "k", "time": START_MS + MINUTE, "path": "p1"})
    driver.advance_to(START_MS + 5 * MINUTE)
    counts = [f.estimate for f in driver.emissions[-1].figures if f.window_ms == 60 * MINUTE]
    assert counts == [10, 0, 19]
    assert [a.alert for a in driver.alerts] == ["often"]


def test_counts_of_all_parties_add_up() -> None:
    """Over partitions with the same items, those of one key that lies in all."""
    of = declared(ItemCounts(items=("/0", "/9"), epsilon=0.05, delta=1e-6), publish=("k",))
    driver = RefereeDriver(Referee(of=of, patience="10m"), 3)
    every: list[dict[str, object]] = []
    for partition in range(3):
        sent = events(partition, 1_200)
        every += sent
        driver.send(*sent, partition=partition)
    driver.advance_to(START_MS + 41 * MINUTE)
    (final,) = [e for e in driver.emissions if e.window_end_ms == START_MS + 40 * MINUTE][-1:]
    for figure in final.figures:
        since = START_MS + 40 * MINUTE - (figure.window_ms or 0)
        inside = [e["path"] for e in every if e["time"] >= since]  # type: ignore[operator]
        assert figure.lower <= inside.count(figure.item) <= figure.upper
        assert abs(figure.estimate - inside.count(figure.item)) <= 0.05 * len(inside)


def test_the_audit_counts_from_events_and_knows_the_chance() -> None:
    """What a partition emits is found right; a count below the exact one's bounds is found."""
    law = declared(ItemCounts(items=("/0", "/5", "/never"), epsilon=0.1, delta=0.3))
    records = [
        Record(i, b"k", b'{"key":"k","time":%d,"path":"%s"}' % (e["time"], e["path"].encode()), 0)  # type: ignore[attr-defined]
        for i, e in enumerate(events(3, 1_000))
    ]
    partition = Partition(law, records)
    findings = partition.audit("k")
    faults = [it for it in findings if it.violation or (it.verdict and it.verdict.violation)]
    assert len(findings) > 30
    assert len(faults) <= 0.3 * len(findings)
    assert all(it.figure is not None and it.figure.confidence == 0.7 for it in faults)
    end, emission = max(partition.emissions["k"].items())
    wrong = [structs.replace(f, lower=1e6, estimate=1e6, upper=1e6) for f in emission.figures]
    partition.emissions["k"][end] = structs.replace(emission, figures=wrong)
    again = partition.audit("k")
    more = [it for it in again if it.violation or (it.verdict and it.verdict.violation)]
    assert len(more) >= len(faults) + len(wrong) - 2
