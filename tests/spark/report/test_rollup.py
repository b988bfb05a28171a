"""Synopsis columns in SQL, and rollups of them, against exact recounts."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession, functions as f

from slidestat import TopologyDriver
from slidestat.declare.statistics import (
    AgeOfLast,
    Count,
    Histogram,
    Items,
    LeanDistinct,
    MeanHistogram,
    NetSum,
    Sum,
    SumHistogram,
)
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.schemas.synopsis import ClockKey, SynopsisHeaders, SynopsisKey, encode_key
from slidestat.spark.lake.lake import Lake
from slidestat.spark.rollup import rollup
from slidestat.spark.rollup.rollup import (
    MERGED_AT_ONCE,
    Rollup,
    figures,
    left_out,
    merged,
    roll_up,
    shares_of,
    show,
    summaries,
    synopses_of,
)
from slidestat.spark.sql.functions import register_functions
from slidestat.synopses import (
    CountParameters,
    DistinctParameters,
    ExponentialHistogram,
    SumParameters,
    ValueQuantileParameters,
    ValueQuantiles,
)
from slidestat.synopses.blocks.parameters import FrequentParameters
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.distinct.wave import DistinctWave
from slidestat.synopses.frequent.named_items import NamedItems
from slidestat.synopses.quantiles.quantiles import QuantileParameters, Quantiles

MINUTE, HOUR = 60_000, 3_600_000
START = 1_764_072_000_000 // (6 * HOUR) * (6 * HOUR)
EVERY, SPAN = 10 * MINUTE, 2 * HOUR
KEYS, PARTIES = ("ab", "ac", "bd"), ("s/0", "s/1")
EPSILON = 0.05
Event = tuple[str, int, float, str]


def _events(key: str, party: str) -> list[tuple[int, int, str]]:
    """(time, value, item) of six hours, with half an hour of silence in them."""
    chance = Random(f"{key} {party}")
    times = sorted(START + chance.randrange(6 * HOUR) for _ in range(700))
    quiet = START + 2 * HOUR + 15 * MINUTE
    return [
        (time, chance.randrange(1_000), f"i{int(9 * chance.random() ** 2)}")
        for time in times
        if not quiet <= time < quiet + HOUR // 2
    ]


EVENTS = {(key, party): _events(key, party) for key in KEYS for party in PARTIES}


def _records() -> list[tuple[bytes, bytes, int]]:
    """What the parties publish: at each tick after events, the states as they then are."""
    found: list[tuple[bytes, bytes, int]] = []
    for (key, party), events in EVENTS.items():
        count = ExponentialHistogram.create(CountParameters(EPSILON, SPAN))
        total = ExponentialHistogram.create(SumParameters(EPSILON, SPAN, 0))
        ranks = Quantiles.create(QuantileParameters(EPSILON, SPAN))
        top = NamedItems.create(FrequentParameters(EPSILON, SPAN))
        items = DistinctWave.create(DistinctParameters(0.1, 0.01, SPAN, 0))
        states = {"count": count, "sum": total, "quantile": ranks, "top": top, "distinct": items}
        by_tick = defaultdict(list)
        for event in events:
            by_tick[event[0] // EVERY * EVERY + EVERY].append(event)
        for tick, new in sorted(by_tick.items()):
            times = [time for time, _, _ in new]
            values = [float(value) for _, value, _ in new]
            names = [item for _, _, item in new]
            count.insert(times)
            total.insert(times, values)
            ranks.insert(times, values)
            top.insert(times, names)
            items.insert(times, item_ids(names))
            for statistic, state in states.items():
                place = encode_key(SynopsisKey("t", statistic, key, party))
                found.append((place, state.to_bytes(), tick))
            found.append((encode_key(ClockKey("t", party)), b'{"tick_ms": 0}', tick))
    return found


@pytest.fixture(scope="module")
def synopses(spark: SparkSession) -> Iterator[DataFrame]:
    """The parties' synopses; each record came twice, as records may."""
    register_functions(spark)
    schema = "key binary, value binary, ms bigint"
    records = spark.createDataFrame(_records(), schema)
    records = records.withColumn("record_time", f.timestamp_millis("ms"))
    found = synopses_of(records.union(records)).cache()
    yield found
    found.unpersist()


def _exact(start: int, end: int, keys: tuple[str, ...]) -> list[tuple[int, int, str]]:
    return [
        event
        for (key, _), events in EVENTS.items()
        if key in keys
        for event in events
        if start <= event[0] < end
    ]


def _check(row: Row, events: list[tuple[int, int, str]]) -> None:
    """The figure's bounds hold, and its estimate is as near as one state promises."""
    m = len(events)
    match row.statistic:
        case "count" | "sum":
            exact = m if row.statistic == "count" else sum(value for _, value, _ in events)
            assert row.lower <= exact <= row.upper
            assert abs(row.estimate - exact) <= EPSILON * exact
        case "quantile":
            values = sorted(value for _, value, _ in events)
            rank = max(1, -(-m * round(row.quantile * 1_000) // 1_000))
            assert row.lower <= values[rank - 1] <= row.upper
            off = EPSILON * m
            below = sum(value < row.estimate for value in values)
            upto = sum(value <= row.estimate for value in values)
            assert below - off < rank <= upto + off
        case "top":
            counts = Counter(item for _, _, item in events)
            assert row.lower <= counts[row.item] <= row.upper
            assert row.upper - row.lower < (EPSILON + 1 / 2_049) * m
        case "distinct":
            assert row.estimate == len({item for _, _, item in events})  # few are exact


def test_hours_into_days_keys_into_groups_parties_into_the_whole(synopses: DataFrame) -> None:
    """Counts, sums, quantiles, items and distinct items of three hours and of keys with one first
    letter, over both parties: no emission has them, and each is within its bounds and its promise.
    """
    by_letter = Rollup(SPAN, EVERY, by_ms=3 * HOUR, group="substr(key, 1, 1)", share=EPSILON)
    rows = figures(merged(summaries(synopses, by_letter)), by_letter).collect()
    windows = {(row.start_ms, row.end_ms) for row in rows}
    assert windows == {(START, START + 3 * HOUR), (START + 3 * HOUR, START + 6 * HOUR)}
    assert {row.group for row in rows} == {"a", "b"}
    assert {row.statistic for row in rows} == {"count", "sum", "quantile", "top", "distinct"}
    for row in rows:
        keys = tuple(key for key in KEYS if key[0] == row.group)
        _check(row, _exact(row.start_ms, row.end_ms, keys))
    for group in ("a", "b"):
        keys = tuple(key for key in KEYS if key[0] == group)
        events = _exact(START, START + 3 * HOUR, keys)
        counts = Counter(item for _, _, item in events)
        listed = {r.item for r in rows if r.group == group and r.start_ms == START and r.item}
        assert {item for item, n in counts.items() if n >= 2 * EPSILON * len(events)} <= listed


def test_merging_is_associative(synopses: DataFrame) -> None:
    """Rows merged by key and hour, and these by all keys and six hours, give the very figures of
    totals that one merge of all gives, and bounds that hold of the others.
    """
    hourly = Rollup(SPAN, EVERY, by_ms=HOUR)
    whole = Rollup(SPAN, EVERY, by_ms=6 * HOUR, group="'all'")
    steps = merged(summaries(synopses, hourly)).select(
        "statistic",
        f.lit("all").alias("group"),
        f.lit(START).alias("start_ms"),
        f.lit(START + 6 * HOUR).alias("end_ms"),
        "summary",
    )
    twice = {(r.statistic, r.quantile, r.item): r for r in figures(merged(steps), whole).collect()}
    once = figures(merged(summaries(synopses, whole)), whole).collect()
    assert {row.statistic for row in once} == {"count", "sum", "quantile", "top", "distinct"}
    for row in once:
        other = twice[row.statistic, row.quantile, row.item]
        if row.statistic in ("count", "sum", "distinct"):
            assert other == row
        _check(other, _exact(START, START + 6 * HOUR, KEYS))
        _check(row, _exact(START, START + 6 * HOUR, KEYS))


def test_many_summaries_are_merged_in_stages(
    synopses: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What more than one merge may have becomes several, and these one: the very totals, and the
    bounds and promises of the others.
    """
    whole = Rollup(SPAN, EVERY, by_ms=6 * HOUR, group="'all'")
    parts = summaries(synopses, whole).cache()
    once = {(r.statistic, r.quantile, r.item): r for r in figures(merged(parts), whole).collect()}
    monkeypatch.setattr(rollup, "MERGED_AT_ONCE", 12)
    staged = merged(parts)
    plan = staged._jdf.queryExecution().analyzed().toString()
    assert plan.count("window_merge") == 3  # of some 200 summaries, 34 and 6
    for row in figures(staged, whole).collect():
        _check(row, _exact(START, START + 6 * HOUR, KEYS))
        if row.statistic in ("count", "sum", "distinct"):
            assert row == once[row.statistic, row.quantile, row.item]
    parts.unpersist()


def test_no_share_of_summaries_is_too_large(spark: SparkSession) -> None:
    """Dealt out by their places, of any number of them."""
    for count in (4_097, 100_000, 1_000_000):
        places = f.pmod(f.xxhash64(f.lit("t"), "id"), f.lit(shares_of(count)))
        largest = spark.range(count).groupBy(places).count().agg(f.max("count")).first()
        assert largest is not None
        assert largest[0] <= MERGED_AT_ONCE


@pytest.fixture
def in_kolkata(spark: SparkSession) -> Iterator[None]:
    """A session whose clocks are five and a half hours ahead."""
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    spark.conf.set(zone, "Asia/Kolkata")
    yield
    spark.conf.set(zone, before)


@pytest.mark.usefixtures("in_kolkata")
def test_readers_of_a_synopsis_column(spark: SparkSession, synopses: DataFrame) -> None:
    """window_estimate and window_quantile answer for any window of each row's synopsis, with an
    INTERVAL or milliseconds, and at the tick or at the synopsis's own moment; a timestamp is an
    instant in every session.
    """
    synopses.createOrReplaceTempView("synopses")
    rows = spark.sql(
        """
        SELECT key, party, tick_ms,
               window_estimate(synopsis, INTERVAL 25 MINUTES, timestamp_millis(tick_ms)) AS n,
               window_estimate(synopsis, 1500000L, tick_ms) AS same
        FROM synopses WHERE statistic = 'count'
        """
    ).collect()
    assert len(rows) > 150
    for row in rows:
        assert row.n == row.same
        events = EVENTS[row.key, row.party]
        exact = sum(row.tick_ms - 25 * MINUTE <= time < row.tick_ms for time, _, _ in events)
        assert row.n.lower <= exact <= row.n.upper
        assert abs(row.n.estimate - exact) <= EPSILON * exact

    quantiles = spark.sql(
        """
        SELECT key, party, tick_ms, window_quantile(synopsis, INTERVAL 1 HOUR, 0.5D, tick_ms) AS q,
               window_quantile(window_summary(synopsis, INTERVAL 1 HOUR, tick_ms), NULL, 0.5D) AS s
        FROM synopses WHERE statistic = 'quantile'
        """
    ).collect()
    for row in quantiles:
        assert row.q == row.s
        events = EVENTS[row.key, row.party]
        values = sorted(v for time, v, _ in events if row.tick_ms - HOUR <= time < row.tick_ms)
        assert row.q.lower <= values[(len(values) + 1) // 2 - 1] <= row.q.upper

    items = spark.sql(
        "SELECT window_items(synopsis, INTERVAL 1 HOUR, 0.1D, tick_ms) AS top FROM synopses"
        " WHERE statistic = 'top'"
    ).collect()
    assert all(row.top[0].item.startswith("i") for row in items)
    (row,) = spark.sql(
        """
        SELECT window_items(synopsis, 1000L, CAST(NULL AS DOUBLE)) AS top,
               window_item(synopsis, 1000L, CAST(NULL AS STRING)).estimate AS n
        FROM synopses WHERE statistic = 'top' LIMIT 1
        """
    ).collect()
    assert (row.top, row.n) == (None, None)
    (row,) = spark.sql(
        "SELECT window_quantile(synopsis, 1000L, CAST(NULL AS DOUBLE)).lower AS q FROM synopses"
        " WHERE statistic = 'quantile' LIMIT 1"
    ).collect()
    assert row.q is None


def test_a_value_s_rank_and_an_item_s_count(spark: SparkSession, synopses: DataFrame) -> None:
    """window_rank and window_item hold for any window of each row, and of rows that are merged; an
    item that never came is within its bounds too, and NULL has neither.
    """
    synopses.createOrReplaceTempView("synopses")
    rows = []
    for (key, party), events in EVENTS.items():
        values = ValueQuantiles.create(ValueQuantileParameters(0.01, 0.1, SPAN))
        values.insert([time for time, _, _ in events], [float(v) for _, v, _ in events])
        rows.append((key, party, START + 6 * HOUR, bytearray(values.to_bytes())))
    schema = "key string, party string, at_ms bigint, synopsis binary"
    spark.createDataFrame(rows, schema).createOrReplaceTempView("by_value")
    ranks = spark.sql(
        """
        SELECT key, party, at_ms, window_rank(synopsis, INTERVAL 1 HOUR, 200.5D, at_ms) AS r,
               window_rank(synopsis, INTERVAL 1 HOUR, NULL, at_ms).estimate AS nothing
        FROM by_value
        """
    ).collect()
    assert len(ranks) == len(EVENTS)
    for row in ranks:
        events = EVENTS[row.key, row.party]
        window = [v for time, v, _ in events if row.at_ms - HOUR <= time < row.at_ms]
        exact = sum(value <= 200.5 for value in window)
        assert row.nothing is None
        assert row.r.lower <= exact <= row.r.upper
        assert row.r.lower <= row.r.estimate <= row.r.upper
        assert row.r.share_lower <= exact / len(window) <= row.r.share_upper
    merged_rank = (
        "SELECT window_rank(window_merge(window_summary(synopsis, 3600000L, at_ms)), NULL, 0)"
    )
    (((of_all, *_),),) = spark.sql(f"{merged_rank} FROM by_value").collect()
    assert of_all <= 2 * len(EVENTS)

    for item in ("i1", "never"):
        counts = spark.sql(
            """
            SELECT key, party, tick_ms,
                   window_item(synopsis, INTERVAL 1 HOUR, :item, tick_ms) AS c
            FROM synopses WHERE statistic = 'top'
            """,
            {"item": item},
        ).collect()
        assert len(counts) > 100
        for row in counts:
            events = EVENTS[row.key, row.party]
            inside = [i for time, _, i in events if row.tick_ms - HOUR <= time < row.tick_ms]
            assert row.c.lower <= inside.count(item) <= row.c.upper
            assert row.c.upper - row.c.lower < EPSILON * len(inside)
    wrong = spark.sql("SELECT window_item(synopsis, 1000L, 'i1') FROM by_value")
    with pytest.raises(PythonException, match="has no items"):
        wrong.collect()


def test_foreign_bytes_are_null_and_counted_or_end_the_query(spark: SparkSession) -> None:
    """Bytes that are no synopsis, and a damaged one, are NULL and counted; or, if so wanted, the
    query ends and says what it met. A null row is neither.
    """
    good = ExponentialHistogram.create(CountParameters(0.1, 60_000))
    good.insert([1_000, 2_000])
    sound = good.to_bytes()
    damaged = sound[:-1] + bytes((sound[-1] ^ 1,))
    rows = [(bytearray(one),) for one in (sound, b"no synopsis", b"", damaged)]
    frame = spark.createDataFrame([*rows, (None,)], "synopsis binary").coalesce(1)
    frame.createOrReplaceTempView("column_of_bytes")
    query = "SELECT window_estimate(synopsis, 60000L).estimate AS n FROM column_of_bytes"

    foreign = register_functions(spark)
    assert [row.n for row in spark.sql(query).collect()] == [2.0, None, None, None, None]
    assert foreign.count == 3
    merge = (
        "SELECT window_estimate(window_merge(window_summary(synopsis, 60000L)), NULL).estimate AS n"
        " FROM column_of_bytes"
    )
    assert spark.sql(merge).collect() == [Row(n=2.0)]

    register_functions(spark, fail_on_foreign=True)
    try:
        with pytest.raises(PythonException, match="bytes that are no synopsis"):
            spark.sql(query).collect()
        with pytest.raises(PythonException, match="no synopsis"):
            spark.sql(merge).collect()
    finally:
        register_functions(spark)
    too_long = (
        query.replace("60000L", "60001L").replace("FROM", "FROM (SELECT * FROM") + " LIMIT 1)"
    )
    with pytest.raises(PythonException, match="A synopsis cannot answer"):
        spark.sql(too_long).collect()


def test_statistics_without_a_summary_are_left_out(spark: SparkSession) -> None:
    """They are named, and are no foreign bytes: what a topology publishes is no damage, whether an
    event had the field or not.
    """
    kinds = (NetSum(), SumHistogram(), MeanHistogram(), Histogram(), AgeOfLast(), LeanDistinct())
    topology = Topology(
        name="t",
        source="s",
        span="2h",
        every="10m",
        statistics=(Count(), *kinds, Items(items=("a",)), Sum()),
        publish="partition",
    )
    named = [kind.kind for kind in kinds if kind.kind != "lean_distinct"] + ["items"]
    assert left_out(topology) == named
    driver = TopologyDriver(topology)
    driver.send({"key": "a", "time": START, "value": 5}, {"key": "a", "time": START + EVERY})
    driver.advance_to(START + SPAN)
    sent = [(r.key, r.value, r.timestamp) for r in driver.published if r.headers]
    empty = [(key, b"", tick + EVERY) for key, _, tick in sent]
    assert {json.loads(key)[1] for key, _, _ in sent} >= {"net_sum", "mean_histogram", "count"}
    records = spark.createDataFrame([*sent, *empty], "key binary, value binary, ms bigint")
    records = records.withColumn("record_time", f.timestamp_millis("ms"))
    found, foreign = roll_up(records, Rollup(SPAN, EVERY, HOUR, "'all'"), False)
    assert {row.statistic for row in found.collect()} == set(topology.labels) - set(named)
    assert foreign.count == 0


def test_windows_that_cut_through_ticks_are_refused() -> None:
    """A rollup by what is no multiple of the ticks' distance would split a state."""
    with pytest.raises(SlidestatError, match="Windows of 15m cut through ticks that are 10m"):
        Rollup(SPAN, EVERY, by_ms=15 * MINUTE)


def test_a_group_that_is_no_expression_is_refused(synopses: DataFrame) -> None:
    """A column that is not there gets one clear error."""
    records = synopses.select(
        f.to_json(f.array("topology", "statistic", "key", "party")).cast("binary").alias("key"),
        f.timestamp_millis("tick_ms").alias("record_time"),
        f.col("synopsis").alias("value"),
    )
    with pytest.raises(SlidestatError, match="airport"):
        roll_up(records, Rollup(SPAN, EVERY, HOUR, group="airport"), False)


def test_the_table_of_a_rollup_is_not_cut(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each figure in one line, whatever the terminal's width, the most frequent items first, names
    as they are; times of day only where windows begin at any.
    """
    schema = (
        "statistic string, group string, start_ms long, end_ms long, figure string, "
        "quantile double, item string, estimate double, lower double, upper double, summary binary"
    )
    start, long = 978_307_200_000, "x" * 90
    found = [
        ("top_page", "[b]", "item", None, "/a", 5.0),
        ("top_page", "[b]", "item", None, long, 12_345.0),
        ("mean", "[b]", "deviation", None, None, 0.5),
        ("mean", "[b]", "mean", None, None, None),
        ("quantile", None, "quantile", 0.5, None, 1.5),
    ]
    for shift, time in ((0, "2001-01-01"), (60_000, "2001-01-01 00:01")):
        rows = [
            (name, group, start + shift, start + shift + HOUR, figure, p, item, e, e, e, b"")
            for name, group, figure, p, item, e in found
        ]
        show(spark.createDataFrame(rows, schema))
        lines = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
        assert lines == [
            ["1h from (UTC)", "group", "statistic", "lower", "estimate", "upper"],
            [time, "NULL", "quantile 0.5", "1.5", "1.5", "1.5"],
            [time, "[b]", "mean: deviation", "0.5", "0.5", "0.5"],
            [time, "[b]", "mean"],
            [time, "[b]", f"top_page {long}", "12,345", "12,345", "12,345"],
            [time, "[b]", "top_page /a", "5", "5", "5"],
        ]
    show(spark.createDataFrame([], schema))
    assert capsys.readouterr().out == "There are no synopses of which a window can be told.\n"


def test_synopses_of_changed_declarations_are_not_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A statistic of the same name that had another field, and windows that cut through an interval
    of before, are refused with what the lake has.
    """

    def records(*kept: tuple[str, int]) -> DataFrame:
        key = encode_key(SynopsisKey("t", "users", "k", "s/0"))
        rows = [(key, SynopsisHeaders(meaning, 0, of).encode()) for meaning, of in kept]
        return spark.createDataFrame(
            rows, "key binary, headers array<struct<key: string, value: binary>>"
        )

    lake = Lake(str(tmp_path), "t")
    one = records(("distinct of user", HOUR), ("distinct of user", 24 * HOUR))
    assert not rollup.require_interval_of(lake, one, 24 * HOUR)
    with pytest.raises(SlidestatError, match="cut through synopses that are 1d apart"):
        rollup.require_interval_of(lake, one, HOUR)
    two = records(("distinct of user", HOUR), ("distinct of account", HOUR))
    with pytest.raises(SlidestatError, match="users are of several declarations"):
        rollup.require_interval_of(lake, two, 24 * HOUR)
