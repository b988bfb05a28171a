"""basic_count and its relatives in real SQL, against what SQL itself says exactly."""

import re
from collections.abc import Iterator
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PythonException
from pyspark.sql import Row, SparkSession

from slidestat.spark.sql.frame_values import item_text
from slidestat.spark.sql.functions import register_functions
from tests.docs.markdown import ROOT, blocks

# The stream of the Stream Mill example: s(v Int, t Timestamp), bits at 0 to 3 of a second.
BITS = """
    SELECT id % 3 AS g, CAST(rand(7) < 0.6 AS INT) AS v,
           timestamp_seconds(1000000000 + id * 2) AS t,
           concat('item-', CAST(floor(40 * rand(3) * rand(4)) AS INT)) AS item,
           CAST(round(100 * rand(5), 2) AS DOUBLE) AS x
    FROM range(6000)
"""


@pytest.fixture(scope="module")
def sql(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with the functions, and the stream as the view `s`."""
    register_functions(spark)
    frame = spark.sql(BITS).cache()
    frame.createOrReplaceTempView("s")
    yield spark
    spark.catalog.dropTempView("s")
    frame.unpersist()


def _rows(sql: SparkSession, query: str) -> list[Row]:
    rows = sql.sql(query).collect()
    assert rows
    return rows


def test_the_form_with_a_window(sql: SparkSession) -> None:
    """SELECT basicCount(v, t, 2) OVER (RANGE 10 MINUTE) FROM s: each figure is off by half of the
    exact count at most, as k = 2 promises, and by a hundredth with k = 100.
    """
    rows = _rows(
        sql,
        """
        SELECT basic_count(v, t, 2) OVER w AS half, basic_count(v, t, 100) OVER w AS hundredth,
               sum(v) OVER w AS exact
        FROM s WINDOW w AS (PARTITION BY g ORDER BY t
                            RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW)
        """,
    )
    assert len(rows) == 6_000
    assert all(abs(row.half - row.exact) <= row.exact / 2 for row in rows)
    assert all(abs(row.hundredth - row.exact) <= row.exact / 100 for row in rows)
    assert any(row.half != row.exact for row in rows)


def test_the_form_without_a_window(sql: SparkSession) -> None:
    """SELECT basicCount(v, t, 2) FROM s, the aggregate deleting by itself what is older than T: a
    figure after each event, over an unbounded frame, and one after the last.
    """
    rows = _rows(
        sql,
        """
        SELECT basic_count(v, t, 2, INTERVAL 10 MINUTES) OVER (PARTITION BY g ORDER BY t) AS found,
               sum(v) OVER (PARTITION BY g ORDER BY t RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING
                            AND CURRENT ROW) AS exact
        FROM s
        """,
    )
    assert len(rows) == 6_000
    assert all(abs(row.found - row.exact) <= row.exact / 2 for row in rows)

    last = _rows(sql, "SELECT g, basic_count(v, t, 2, INTERVAL 10 MINUTES) AS n FROM s GROUP BY g")
    exact = _rows(
        sql,
        """
        SELECT g, sum(v) AS n FROM (SELECT *, max(t) OVER (PARTITION BY g) AS now FROM s)
        WHERE t >= now - INTERVAL 10 MINUTES GROUP BY g
        """,
    )
    counts = {row.g: row.n for row in exact}
    assert {row.g for row in last} == {0, 1, 2}
    assert all(abs(row.n - counts[row.g]) <= counts[row.g] / 2 for row in last)


def _check_by_value(found: float, p: float, k: int, ranked: list[float]) -> None:
    """Within 1/k of some value whose rank is off by a tenth of the rows beyond; `ranked` rises."""
    share = 0.1 * min(p, 1 - p)
    first = max(1, ceil(round((p - share) * len(ranked), 9)))
    last = min(len(ranked), floor(round((p + share) * len(ranked), 9)) + 1)
    nearest = min(max(found, ranked[first - 1]), ranked[last - 1])
    assert abs(found - nearest) <= abs(nearest) / k


def test_relatives_as_plain_aggregates(sql: SparkSession) -> None:
    """Sum, quantile, distinct and top of a group are within 1/k of what SQL says exactly."""
    found = _rows(
        sql,
        """
        SELECT g, basic_sum(x, t, 50) AS total, basic_rank_quantile(x, t, 100, 0.5D) AS median,
               basic_quantile(x, t, 50, 0.95D) AS p95,
               basic_distinct(item, t, 10) AS items, basic_top(item, t, 20) AS top
        FROM s GROUP BY g
        """,
    )
    exact = {
        row.g: row
        for row in _rows(
            sql,
            """
            SELECT g, sum(x) AS total, sort_array(collect_list(x)) AS ranked,
                   count(DISTINCT item) AS items FROM s GROUP BY g
            """,
        )
    }
    counts = {
        (row.g, row.item): row.n
        for row in _rows(sql, "SELECT g, item, count(*) AS n FROM s GROUP BY g, item")
    }
    for row in found:
        truth = exact[row.g]
        events = len(truth.ranked)
        assert abs(row.total - truth.total) <= truth.total / 50
        ranks = [rank for rank, x in enumerate(truth.ranked, 1) if x == row.median]
        assert any(abs(rank - events / 2) <= events / 100 for rank in ranks)
        _check_by_value(row.p95, 0.95, 50, truth.ranked)
        assert abs(row.items - truth.items) <= truth.items / 10
        listed = {entry["item"]: entry for entry in row.top}
        for (group, item), n in counts.items():
            if group == row.g and n >= events / 20:
                assert listed[item].lower <= n <= listed[item].upper
        estimates = [entry.estimate for entry in row.top]
        assert estimates == sorted(estimates, reverse=True)


def test_relatives_over_frames(sql: SparkSession) -> None:
    """The same functions answer for each row's frame."""
    rows = _rows(
        sql,
        """
        SELECT basic_sum(x, t, 10) OVER w AS total, sum(x) OVER w AS exact_total,
               basic_rank_quantile(x, t, 10, 0.9D) OVER w AS q,
               basic_quantile(x, t, 100, 0.9D) OVER w AS p90,
               sort_array(collect_list(x) OVER w) AS ranked,
               basic_distinct(item, t, 10) OVER w AS items,
               size(collect_set(item) OVER w) AS exact_items,
               size(basic_top(item, t, 50) OVER w) AS listed
        FROM (SELECT * FROM s WHERE g = 0 LIMIT 500)
        WINDOW w AS (ORDER BY t RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW)
        """,
    )
    assert len(rows) == 500
    for row in rows:
        assert abs(row.total - row.exact_total) <= row.exact_total / 10
        below = sum(x < row.q for x in row.ranked)
        upto = sum(x <= row.q for x in row.ranked)
        wanted, off = 0.9 * len(row.ranked), len(row.ranked) / 10
        assert below - off <= wanted <= upto + off
        _check_by_value(row.p90, 0.9, 100, row.ranked)
        assert row.items == row.exact_items  # few items are exact
        assert row.listed >= 1  # of 40 items, one has a fortieth


def test_bounds_hold(sql: SparkSession) -> None:
    """Of each form with bounds, in a group and over frames: SQL's exact figure is between them, and
    the estimate is that of the form without.
    """
    rows = _rows(
        sql,
        """
        SELECT g, basic_count_bounds(v, t, 10) AS n, basic_sum_bounds(x, t, 10) AS total,
               basic_quantile_bounds(x, t, 50, 0.9D) AS q, basic_distinct_bounds(item, t, 10) AS i,
               basic_rank_quantile_bounds(x, t, 10, 0.5D) AS r, basic_count(v, t, 10) AS plain
        FROM s GROUP BY g
        """,
    )
    exact = _rows(
        sql,
        """
        SELECT g, sum(v) AS n, sum(x) AS total, count(DISTINCT item) AS i,
               sort_array(collect_list(x)) AS xs FROM s GROUP BY g
        """,
    )
    of_group = {row.g: row for row in exact}
    for row in rows:
        truth = of_group[row.g]
        ranked = {
            "q": truth.xs[ceil(0.9 * len(truth.xs)) - 1],
            "r": truth.xs[ceil(len(truth.xs) / 2) - 1],
        }
        known = {"n": truth.n, "i": truth.i, "total": truth.total, **ranked}
        for name, value in known.items():
            assert row[name]["lower"] <= value + 1e-6, name
            assert row[name]["upper"] >= value - 1e-6, name
        assert row.n["estimate"] == row.plain
    frames = _rows(
        sql,
        """
        SELECT n.lower, n.upper, exact
        FROM (SELECT basic_count_bounds(v, t, 2) OVER w AS n, sum(v) OVER w AS exact FROM s
              WHERE g = 0 WINDOW w AS (ORDER BY t RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING
                                       AND CURRENT ROW))
        """,
    )
    assert all(row.lower <= row.exact <= row.upper for row in frames)
    assert any(row.lower < row.upper for row in frames)


@pytest.mark.parametrize(
    "zone", ["America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC+01:00", "GMT+1", "Z"]
)
def test_the_hour_that_clocks_repeat_is_two(sql: SparkSession, zone: str) -> None:
    """01:30 in New York comes twice in November: an interval of half an hour has one of them, and
    both are there, in words that no session changes. So it is in zones that Spark alone knows, and
    long before 1970 and after 2038.
    """
    name = "spark.sql.session.timeZone"
    before = sql.conf.get(name)
    sql.conf.set(name, zone)
    query = """
        SELECT g, basic_count(1, t, 100, INTERVAL 30 MINUTES) AS n,
               basic_distinct(t, t, 20) AS times, basic_top(t, t, 20) AS top
        FROM (SELECT g, timestamp_seconds(s) t
              FROM VALUES (0, 1762061400), (0, 1762062300), (0, 1762065000), (1, -2208988800),
                          (1, -1), (1, 2147483647), (1, 2147483648) x(g, s))
        GROUP BY g ORDER BY g
    """
    try:
        first, second = _rows(sql, query)
    finally:
        sql.conf.set(name, before)
    assert (first.n, first.times) == (1, 3)
    texts = [f"2025-11-02 {clock}:00Z" for clock in ("05:30", "05:45", "06:30")]
    assert [item["item"] for item in first.top] == texts
    assert (second.n, second.times) == (2, 4)
    texts = [f"{day}Z" for day in ("1900-01-01 00:00:00", "1969-12-31 23:59:59")]
    texts += [f"2038-01-19 03:14:0{last}Z" for last in (7, 8)]
    assert sorted(item["item"] for item in second.top) == texts


def test_a_group_without_rows_is_no_group(sql: SparkSession) -> None:
    """Over no rows at all, there is no figure: neither an error nor a wrong one."""
    assert sql.sql("SELECT basic_count(v, t, 2) AS n FROM s WHERE v > 1").collect() == []
    nulls = (
        "SELECT basic_count(CAST(NULL AS INT), t, 2) AS n, basic_sum(NULL, t, 2) AS total FROM s"
    )
    assert sql.sql(nulls).collect() == [Row(n=0.0, total=0.0)]


def test_what_cannot_be_counted_says_so(sql: SparkSession) -> None:
    """A value that is no bit ends the query with our words."""
    with pytest.raises(PythonException, match=r"neither 0 nor 1\. Use basic_sum"):
        sql.sql("SELECT basic_count(7, t, 2) FROM s").collect()


IDS = """
    SELECT id AS t, CASE WHEN id % 10 > 0 THEN 9223372036854775807 - (id % 4999) END AS far,
           CASE WHEN id % 10 > 0 THEN id % 4 END AS near,
           CASE WHEN id % 10 > 0 THEN CAST(id % 4 AS DECIMAL(38, 4)) / 100 END AS price,
           CASE WHEN id % 10 > 0 THEN id % 4 = 0 END AS flag,
           CASE WHEN id % 10 > 0 THEN date_add(DATE '2026-01-01', CAST(id % 4 AS INT)) END AS day,
           CASE WHEN id % 10 > 0 THEN CAST(CHR(id % 4) AS BINARY) END AS bytes,
           CASE WHEN id % 10 > 0 THEN CAST(id % 4 / 10 AS FLOAT) END AS tenth
    FROM range(50000)
"""


@pytest.fixture(params=[10_000, 70])
def batched(sql: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session, with rows that come to Python so many at once: a group has one batch or many."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = sql.conf.get(name)
    sql.conf.set(name, request.param)
    yield sql
    sql.conf.set(name, before)


def test_ids_near_2_to_63_stay_apart_with_nulls_among_them(batched: SparkSession) -> None:
    """Ids whose doubles would be one are counted and told by all their digits, in a group and over
    frames, where a tenth of the rows is NULL.
    """
    sql = batched
    sql.sql(IDS).createOrReplaceTempView("ids")
    (row,) = _rows(
        sql, "SELECT basic_distinct(far, t, 10) AS n, basic_sum(near, t, 10) AS total FROM ids"
    )
    assert abs(row.n - 4_999) <= 4_999 / 10
    (exact,) = _rows(sql, "SELECT sum(near) AS total FROM ids")
    assert abs(row.total - exact.total) <= exact.total / 10
    frames = _rows(
        sql,
        """
        SELECT basic_distinct(far, t, 10) OVER w AS n, basic_top(far, t, 10) OVER w AS top,
               basic_sum(price, t, 1000) OVER w AS total, sum(price) OVER w AS exact,
               collect_list(far) OVER w AS there
        FROM (SELECT * FROM ids WHERE t < 300)
        WINDOW w AS (ORDER BY t ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)
        """,
    )
    for row in frames:
        assert row.n == len(set(row.there))
        assert {item["item"] for item in row.top} == {str(number) for number in row.there}
        assert row.total == pytest.approx(float(row.exact or 0), rel=1 / 1_000)


def test_items_of_every_kind_have_their_names_with_nulls_among_them(sql: SparkSession) -> None:
    """Whole numbers, decimals, truth values, dates and floats are called as SQL casts them to text,
    bytes as hex() has them.
    """
    sql.sql(IDS).createOrReplaceTempView("ids")
    names = {"near": "near", "price": "price", "flag": "flag", "day": "day", "tenth": "tenth"}
    names["bytes"] = "hex(bytes)"
    ids = sql.table("ids").where("t < 1000")
    (found,) = ids.selectExpr(
        *[f"basic_top({name}, t, 10) AS {name}" for name in names],
        *[f"basic_distinct({name}, t, 10) AS {name}_n" for name in names],
    ).collect()
    (exact,) = ids.selectExpr(
        *[f"collect_set(CAST({text} AS STRING)) AS {name}" for name, text in names.items()]
    ).collect()
    for name in names:
        assert {item["item"] for item in found[name]} == set(exact[name])
        assert found[f"{name}_n"] == len(exact[name])


@pytest.mark.parametrize(
    "item",
    [
        "id % 2",
        "id % 2 = 0",
        "CAST(CAST(id % 2 AS STRING) AS BINARY)",
        "(id % 2) * 1e-7D",
        "(id % 2) * 1e20D",
        "CAST(id % 2 AS FLOAT)",
        "CAST((id % 2) * 10 AS DECIMAL(5, 2))",
        "date_add(DATE'2026-03-01', CAST(id % 2 AS INT))",
        "timestamp_seconds(id % 2)",
        "IF(id < 5, NULL, 7)",
    ],
)
def test_an_item_is_found_by_itself(sql: SparkSession, item: str) -> None:
    """Of every kind: its name is not what Python calls it. That of NULL is NULL."""
    rows = _rows(
        sql,
        """
        WITH items AS (SELECT _item_ AS item FROM range(10)),
             summary AS (SELECT basic_top_partial(item, 5) AS data FROM items)
        SELECT i.item IS NULL AS is_null, window_item(data, NULL, i.item).estimate AS found, exact
        FROM summary, (SELECT item, CAST(count(*) AS DOUBLE) AS exact FROM items GROUP BY item) i
        """.replace("_item_", item),
    )
    assert [row.found for row in rows] == [None if row.is_null else row.exact for row in rows]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_floats_have_the_names_that_sql_has(kind: type[np.floating[Any]]) -> None:
    """With powers where CAST(v AS STRING) has them, in their own width; zero is one item."""
    names = ["0.0", "1.0", "1.5", "0.1", "0.001", "5.0E-4", "9999999.0", "1.0E7", "-2.5E-7"]
    assert [item_text(kind(name)) for name in names] == names
    assert item_text(kind(16_777_216)) == "1.6777216E7"
    assert item_text(kind(-0.0)) == "0.0"
    assert item_text(kind("inf")) == "Infinity"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("basic_sum(1e10D, t, 2)", "is above 9007199255, the largest value that 6 decimals leave"),
        ("basic_sum(double('inf'), t, 2)", "infinite"),
        ("basic_quantile(double('inf'), t, 2, 0.5D)", "infinite, and has no rank"),
        ("basic_rank_quantile(double('inf'), t, 2, 0.5D)", "infinite, and has no rank"),
        ("basic_quantile(-1e300D, t, 2, 0.5D)", "has no bin.*Use basic_rank_quantile"),
        ("basic_quantile(1, t, 1, 0.5D)", "relative_error must be from 0.001 to 0.5.*another k"),
        ("basic_quantile(1, t, 2, 1.5D)", "a quantile must be a number from 0 to 1"),
        ("basic_count(1, t, 2, INTERVAL 1 MONTH)", "has no one length"),
        ("basic_distinct(array(t), t, 2)", "no item. Give it as a text: to_json"),
        ("basic_top(struct(t), t, 2)", "no item. Give it as a text: to_json"),
        ("basic_sum('7', t, 2)", r"'7' is no number.*CAST\(v AS DOUBLE\)"),
        ("basic_count(1, '2026-01-01', 2)", r"t is a text.*CAST\(t AS TIMESTAMP\)"),
        ("basic_count(1, t, 'many')", "'many', which is no number"),
        ("basic_count(1, t, 2, INTERVAL -1 SECOND)", "the interval is negative"),
        ("basic_count(1)", "basic_count was given 1 argument. Give v, t, k, and maybe an interval"),
        ("basic_quantile(1, t, 2)", "was given 3 arguments. Give v, t, k, p, and maybe"),
        ("basic_count_partial(1)", "basic_count_partial was given 1 argument. Give v and k"),
        ("window_estimate(X'00')", "window_estimate was given 1 argument. Give data, n, and maybe"),
        ("window_item(X'00', 1, 'a', t, 1)", "given 5 arguments. Give data, n, item, and maybe at"),
        ("window_estimate('00', 1)", r"A column of texts is none of synopses.*unbase64\(data\)"),
    ],
)
def test_what_is_not_taken_is_told_with_what_to_do(sql: SparkSession, call: str, told: str) -> None:
    """One line of ours, not an error from inside a library."""
    with pytest.raises(PythonException, match=f"slidestat.errors.SlidestatError: .*{told}"):
        sql.table("s").selectExpr(call).collect()


def test_a_group_in_parts(sql: SparkSession) -> None:
    """The query of docs/spark.md as it stands, and each other partial form: within 1/k of what SQL
    says exactly. No task is handed a group: rows are shuffled by part, and then 256 summaries.
    """
    (query,) = [
        block.text.rstrip().rstrip(";")
        for block in blocks(ROOT / "docs" / "spark.md", "sql")
        if block.name == "in-parts"
    ]
    exact = {
        row.g: row
        for row in _rows(
            sql,
            """
            SELECT g, sum(v) AS n, sum(x) AS total, sort_array(collect_list(x)) AS ranked,
                   count(DISTINCT item) AS items, mode(item) AS top FROM s GROUP BY g
            """,
        )
    }
    found = _rows(sql, query)
    assert {row.g for row in found} == exact.keys()
    for row in found:
        assert row.n.lower <= exact[row.g].n <= row.n.upper
        assert abs(row.n.estimate - exact[row.g].n) <= exact[row.g].n / 100
    plan = sql.sql(query)._jdf.queryExecution().executedPlan().toString()
    last, first = re.findall(r"Exchange hashpartitioning\((.*?), \d+\)", plan)
    assert re.fullmatch(r"g#\w+, _groupingexpression#\w+", first)
    assert re.fullmatch(r"g#\w+", last)

    others = _rows(
        sql,
        """
        SELECT g, window_estimate(window_merge(total), NULL) AS total,
               window_quantile(window_merge(p95), NULL, 0.95D) AS p95,
               window_quantile(window_merge(ranks), NULL, 0.5D) AS median,
               window_estimate(window_merge(items), NULL) AS items,
               window_items(window_merge(top), NULL, 0.05D) AS top
        FROM (SELECT g, basic_sum_partial(x, 50) AS total, basic_quantile_partial(x, 50) AS p95,
                     basic_rank_quantile_partial(x, 100) AS ranks,
                     basic_distinct_partial(item, 10) AS items, basic_top_partial(item, 20) AS top
              FROM s GROUP BY g, pmod(xxhash64(t), 8))
        GROUP BY g
        """,
    )
    assert len(others) == 3
    for row in others:
        truth = exact[row.g]
        assert abs(row.total.estimate - truth.total) <= truth.total / 50
        _check_by_value(row.p95.estimate, 0.95, 50, truth.ranked)
        assert row.median.lower <= truth.ranked[ceil(len(truth.ranked) / 2) - 1] <= row.median.upper
        assert row["items"].estimate == truth["items"]  # few are exact
        assert row.top[0]["item"] == truth.top
