"""The driver's clock moves event time as later events would, and is seen nowhere else."""

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from time import process_time

import pytest
from hypothesis import given, settings, strategies as st

from slidestat import RefereeDriver, Slo, TopologyDriver
from slidestat.declare.alerts import Alert
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Distinct, Quantiles, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.clock import RECORDS
from tests.engine.cases import laws

START = 1_764_000_000_000
MINUTE = 60_000
# Keys of the records that are sent by hand: the events of a case have others.
BY_HAND = 90

SIMPLE = (
    "status >= 500",
    "status = 7",
    "status BETWEEN 200 AND 299",
    "status IN (200, 404)",
    "status IS NULL",
    "key = 7",
    "key <> 7",
    "key < 3",
    "ms > 5",
    "ms / status > 0.01",
    "ms IS NOT NULL",
    "region = 'eu'",
    "region <> ''",
    "region LIKE 'e%'",
    "up",
    "NOT up",
    "status > 9007199254740992.5",
    "status IN (9007199254740993, 500)",
    "try_cast(region AS bigint) % 2 = 1",
    "cast(status AS varchar) = '7'",
    "CASE WHEN up THEN ms ELSE status END >= 5",
    "substring(lower(region), 1, 1) = 'e'",
)


def conditions() -> st.SearchStrategy[str]:
    """Conditions over numbers, texts, truths and the key, alone and joined."""
    return st.recursive(
        st.sampled_from(SIMPLE),
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("NOT ({})".format, inner),
        ),
        max_leaves=4,
    )


def topology(where: str = "", **changes: object) -> Topology:
    """Statistics of the fields that conditions read, also of numbers as items."""
    declared: dict[str, object] = {
        "name": "clocked",
        "source": "requests",
        "span": "5m",
        "windows": ("1m", "5m"),
        "every": "1m",
        "value_field": "ms",
        "where": where,
        "statistics": (Count(), Sum(), Distinct(field="status"), TopItems(field="region")),
    }
    return Topology(**(declared | changes))  # type: ignore[arg-type]


def event(key: int, at: int, random: Random) -> dict[str, object]:
    """An event of a case, some without a field, some with a field of another type."""
    found: dict[str, object] = {
        "key": key,
        "time": at,
        "status": random.choice((7, 200, 404, 500)),
        "ms": random.randint(0, 20),
        "region": random.choice(("eu", "us", "")),
        "up": random.random() < 0.5,
    }
    for name in ("status", "ms", "region", "up"):
        if random.random() < 0.05:
            found[name] = random.choice((None, "other", 1.5))
    return found


def advance_by_hand(driver: TopologyDriver, time: int) -> None:
    """Send later events that any condition can be computed for, until event time is at `time`."""
    for number, processor in enumerate(driver._processors):
        later = {
            "key": BY_HAND + number,
            "time": time + driver.topology.lateness_ms,
            "status": 200,
            "ms": 1,
            "region": "eu",
            "up": True,
        }
        for _ in range(RECORDS):
            if processor.watermark < time:
                driver.send(later, partition=number)


def told(driver: TopologyDriver) -> Iterator[object]:
    """What a user sees of a driver, but for what was sent by hand."""
    yield [e for e in driver.emissions if int(e.key) < BY_HAND]
    yield [change for change in driver.alerts if int(change.key) < BY_HAND]
    yield driver.late
    yield driver.dead_letters


@settings(laws, max_examples=40)
@given(
    where=st.just("") | conditions(),
    counted=st.none() | conditions(),
    lateness=st.sampled_from(("0s", "10s", "3m")),
    partitions=st.integers(1, 2),
    crash=st.booleans(),
    random=st.randoms(use_true_random=False),
)
def test_time_moves_as_later_events_move_it(
    where: str, counted: str | None, lateness: str, partitions: int, crash: bool, random: Random
) -> None:
    """Whatever the conditions: emissions, alerts and letters are, to the byte, those of a driver to
    which the later events are sent by hand, also over a crash.
    """
    statistics = [Count(), Sum(), Distinct(field="status"), TopItems(field="region")]
    if counted is not None:
        statistics.append(Count(name="some", where=counted))
    declared = topology(
        where,
        lateness=lateness,
        statistics=statistics,
        alerts=(Alert(name="many", when="count > 2", window="1m"),),
    )
    own, by_hand = (TopologyDriver(declared, partitions) for _ in range(2))
    now = START
    for _ in range(random.randint(1, 4)):
        for _ in range(random.randint(0, 25)):
            now += random.randint(0, 10_000)
            key = random.randint(1, 8)
            sent = event(key, now - random.randint(0, 15_000), random)
            for driver in (own, by_hand):
                driver.send(sent, partition=key % partitions)
        at = max(now, *(it.watermark for it in own._processors)) + random.randint(0, 2 * MINUTE)
        own.advance_to(at)
        advance_by_hand(by_hand, at)
        assert min(processor.watermark for processor in own._processors) == at
        if crash:
            how = random.choice(("commit", "restart"))
            for driver in (own, by_hand):
                getattr(driver, how)()
        assert list(told(own)) == list(told(by_hand))
        assert own.left_out == by_hand.left_out
    own.close_windows()
    advance_by_hand(by_hand, min(processor.watermark for processor in own._processors))
    assert list(told(own)) == list(told(by_hand))


@pytest.mark.parametrize(
    "changes",
    [
        {"where": "key = 7"},
        {"where": "status >= 500"},
        {"where": "region = 'eu' AND status / ms > 1"},
        {"computed": ("upper(region) AS who",), "key_field": "who", "where": "status = 1"},
        {"key_field": "kafka:key", "where": "status >= 500"},
        {"time_field": "kafka:timestamp", "where": "status >= 500"},
        {"publish": "partition", "where": "status >= 500"},
        {"tombstones": "dead-letter"},
        {"value_field": "a.b", "where": "a.c > 1", "statistics": (Quantiles(quantiles=(0.5,)),)},
    ],
    ids=str,
)
def test_time_moves_without_any_event(changes: dict[str, object]) -> None:
    """Where nothing was sent, nothing comes out, and no counter has the driver's own records."""
    driver = TopologyDriver(topology(**changes), 2)  # type: ignore[arg-type]
    driver.advance_to(START)
    driver.advance_to(START + 10 * MINUTE)
    driver.restart()
    driver.close_windows()
    assert (driver.emissions, driver.alerts, driver.late, driver.dead_letters) == ([], [], [], [])
    assert driver.left_out == {}


CHANGES: tuple[dict[str, object], ...] = (
    {},
    *({"time_format": text} for text in ("s", "us", "ns", "iso8601", "iso8601-utc")),
    {"time_format": "sequence", "span": "900000 events", "windows": (), "every": "60000 events"},
    {"key_field": "who", "computed": ("region || cast(status AS varchar) AS who",)},
    {"key_field": "who", "computed": ("CASE WHEN up THEN status + 0 ELSE NULL END AS who",)},
    {"key_field": "kafka:key", "expected": ("7", "silent"), "emit": "always"},
    {"envelope": "debezium", "lateness": "2m"},
    {"windows": ("20 events",), "span": "100 events", "every": "10 events", "alerts": ()},
    {"emit": "change", "having": "count_1m > 1", "tolerance": "5%"},
    {"repartition": True, "lateness": "1m", "tombstones": "dead-letter"},
    {"publish": "partition", "alerts": (), "statistics": (Count(), Distinct(field="status"))},
    {"output_shape": "rows", "statistics": (Count(), Sum())},
    {"slos": (Slo(name="o", good="ms < 10", objective=0.9, alerts=("2 over 5m and 1m as page",)),)},
)


def in_format(declared: Topology, ms: int, sent: dict[str, object]) -> dict[str, object]:
    """An event of a case as a topology's source has it."""
    times = {"s": ms / 1_000, "us": ms * 1_000, "ns": ms * 1_000_000, "sequence": ms - START + 1}
    text = datetime.fromtimestamp(ms / 1_000, UTC).isoformat()
    name = declared.time_format
    found = sent | {"time": text if "iso" in name else times.get(name, ms)}
    if declared.envelope:
        return {"op": "c", "before": None, "after": found, "ts_ms": ms}
    return found


@settings(laws, max_examples=60)
@given(
    where=st.just("") | conditions(),
    counted=conditions(),
    changes=st.sampled_from(CHANGES),
    random=st.randoms(use_true_random=False),
)
def test_the_clock_ends_and_is_seen_nowhere(
    where: str, counted: str, changes: dict[str, object], random: Random
) -> None:
    """Whatever is declared: closing ends, and nothing has a record of its own."""
    statistics = changes.get("statistics", (Count(), Sum(), TopItems(field="status")))
    assert isinstance(statistics, tuple)
    added = {"statistics": (*statistics, Count(name="some", where=counted))}
    alerts = {"alerts": (Alert(name="none", when="count = 0", window="1m"),)}
    if changes.get("time_format") == "sequence":
        alerts = {"alerts": ()}
    declared = topology(where, **alerts | changes | added)
    driver = TopologyDriver(declared)
    sent = random.randint(0, 12)
    for number in range(sent):
        at = START + number * 20_000
        one = in_format(declared, at, event(random.randint(1, 3), at, random))
        driver.send(one, key=f"{number % 3}", timestamp=at)
    began = process_time()
    driver.close_windows()
    driver.close_windows()
    assert process_time() - began < 10  # It ended never; kernels are loaded in it as well.
    assert all(0 <= letter.offset < sent for letter in (*driver.dead_letters, *driver.late))
    counters = driver._processors[0].reached.counters
    told_of = counters.counted + counters.dead + counters.late
    assert told_of <= sent
    if not where and not declared.repartition:
        assert told_of == sent
    if declared.writes_rows:
        assert len(driver.rows) >= len(driver.emissions)


def test_any_key_and_any_value_may_be_an_events_own() -> None:
    """The driver tells its own records by nothing that a user could send."""
    driver = TopologyDriver(topology(statistics=(Count(),)))
    for key in ("\0clock", "a tick of the driver's clock"):
        driver.send({"key": key, "time": START}, key=key)
    driver.send_bytes(b"a tick of the driver's clock", bytes(bytearray(b"\0clock")))
    driver.close_windows()
    assert len(driver.dead_letters) == 2
    assert {emission.key for emission in driver.emissions} == {
        "\0clock",
        "a tick of the driver's clock",
    }


def test_a_referee_counts_no_record_of_the_driver() -> None:
    """Neither of whole partitions nor of published keys."""
    for publish in ("partition", ("7",)):
        declared = topology(publish=publish, statistics=(Count(),), where="status >= 500")
        driver = RefereeDriver(Referee(of=declared, patience="10m"), 2)
        for number in range(2):
            driver.send({"key": 7, "time": START, "status": 500}, partition=number)
        for minute in range(1, 8):
            driver.advance_to(START + minute * MINUTE)
        assert [emission.figures[1].estimate for emission in driver.emissions][:1] == [2]
        assert max(emission.figures[1].estimate or 0 for emission in driver.emissions) == 2
        assert (driver.dead_letters, driver.parties.dead_letters) == ([], [])
