"""What results/*.json say of states: their sizes, what they cost, and beside other sketches."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.markdown import table

_RESULTS = Path(__file__).with_name("results")
SIZES, COSTS = _RESULTS / "sizes.json", _RESULTS / "costs.json"
REFEREE, QUANTILES = _RESULTS / "referee.json", _RESULTS / "quantiles.json"
AUDIT = _RESULTS / "audit.json"
SQL_AGGREGATES = _RESULTS / "sql_aggregates.json"
QUESTION_TIMES = _RESULTS / "question_times.json"
KERNELS, ONE_WINDOW = _RESULTS / "kernels.json", _RESULTS / "one_window.json"

_SPREAD = "`mean`, `variance`, `deviation`"
# What is said of the statistics that stand in a row together, by the kind whose size is told.
_STATISTICS = {
    "count": ("`count`, `rate`", "how many events; how many a second", "1 %"),
    "sum": ("`sum`", "the total of values that are never negative", "1 %"),
    "net_sum": (
        "`net_sum`",
        "the total of values of both signs",
        "1 % of the total without the signs",
    ),
    "mean": (
        _SPREAD,
        "the average, and how much values vary",
        "7 % of a standard deviation; 10 %; 5 %",
    ),
    "maximum": (
        "`minimum`, `maximum`",
        "the smallest and the largest value",
        "1 %; exact with epsilon 0",
    ),
    "quantile": (
        "`quantile`",
        "the median, p99 and others: the value that a share p of the values does not exceed",
        "1 % of the value; p is off by at most 10 % of the share beyond it, so p99 is one of p98.9"
        " to p99.1",
    ),
    "rank_quantile": (
        "`rank_quantile`",
        "the same, with an error of the rank alone",
        "rank off by 1 % of the events",
    ),
    "top": ("`top`", "the most frequent items, with their counts", "0.5 % of the events"),
    "distinct": (
        "`distinct`",
        "how many different items; can be asked for a part of them later",
        "10 % in 99 % of cases; exact while few",
    ),
    "lean_distinct": (
        "`lean_distinct`",
        "how many different items, in few bytes",
        "10 % in 99 % of cases",
    ),
    "histogram": (
        "`histogram`, `above`",
        "how many values lie in each range; from a threshold on",
        "1 %",
    ),
    "sum_histogram": ("`sum_histogram`", "the total of the values in each range", "1 %"),
    "mean_histogram": (
        "`mean_histogram`",
        "the average of the values in each range",
        "7 % of a standard deviation",
    ),
    "items": ("`items`", "how often each item came that you name", "1 % of each"),
    "age_of_last": (
        "`age_of_last`",
        "how long ago the last event was, or the nth last",
        "1 %",
    ),
    "sample": (
        "`sample`",
        "some values drawn at random, each as likely as any other",
        "the values are exact",
    ),
    "norm": (
        "`norm`",
        "how unevenly items are spread: the L_p norm of their counts",
        "30 % in 95 % of cases; slow",
    ),
    "landmark_sum": (
        "`landmark_count`, `landmark_sum`",
        "count and total since the key's first event",
        "exact",
    ),
}
_NOTES = {
    "mean": " for all three",
    "maximum": " each",
    "histogram": " for five ranges",
    "sum_histogram": " for five ranges",
    "mean_histogram": " for five ranges",
    "items": " for two",
    "sample": " for 10",
    "landmark_sum": " each",
}


def statistics() -> str:
    """A row for each statistic: what it is, its error, its bytes."""
    sizes: dict[str, list[int]] = json.loads(SIZES.read_text())
    heads = (
        "statistic",
        "what it answers",
        "largest error, by default",
        "bytes of a key with 5, 1,000 and 100,000 events",
    )
    return table(
        heads,
        [
            (*words, ", ".join(f"{size:,}" for size in sizes[kind]) + _NOTES.get(kind, ""))
            for kind, words in _STATISTICS.items()
        ],
    )


def cost() -> str:
    """Bytes of a key with few events and of a busy one, and time an event."""
    rows: dict[str, dict[str, float]] = json.loads(COSTS.read_text())
    heads = ("statistic, epsilon", "few, bytes", "busy, bytes", "an event, ns")
    return table(
        heads,
        [
            (name, f"{row['few']:,}", f"{row['busy']:,}", f"{row['ns']:,.0f}")
            for name, row in rows.items()
        ],
    )


def whole_set() -> str:
    """What all statistics of a key cost together, and counts beside sketches of others."""
    told: dict[str, Any] = json.loads(KERNELS.read_text())
    whole, peers = told["whole_set"], told["peers"]
    ns = sorted(whole["together"])
    more = {name: median(whole[name]) for name in ("distinct, 0.1", "lean distinct, 0.05")}
    counts = [peers[f"count, epsilon {epsilon}"] for epsilon in (0.1, 0.01, 0.001)]
    kll, adwin = (
        ", ".join(f"{count[peer]:,.2g}" for count in counts)
        for peer in ("DataSketches KLL, k 200", "river ADWIN")
    )
    return (
        "Count, sum, minimum, maximum, spread, a sample of 10, quantiles by value and frequent\n"
        "items together (count and sum 0.01, spread 0.1, frequent items 0.05) took"
        f" {median(ns):,.0f} ns an event\n({ns[0]:,.0f} to {ns[-1]:,.0f}). Distinct items of 0.1"
        f" would add {more['distinct, 0.1']:,.0f} ns, lean distinct items of 0.05\n"
        f"{more['lean distinct, 0.05']:,.0f} ns. In the same rounds an event cost DataSketches' KLL"
        f" sketch, which has no window,\n{kll} times as much as a count of 0.1, 0.01 and 0.001, and"
        f" river's ADWIN\n{adwin} times."
    )


def many_keys() -> str:
    """Time a key, of 100,000 keys with few new events each."""
    told: dict[str, dict[str, list[float]]] = json.loads(KERNELS.read_text())["keys"]
    heads = ("statistic, epsilon", "new key", "key with 50 events")
    rows = [
        (name, *(f"{min(us):.1f} - {max(us):.1f}" for us in (found["0"], found["50"])))
        for name, found in told.items()
    ]
    return table(heads, rows)


def question_times() -> str:
    """Time of one more question to a full state, over three windows."""
    told: dict[str, Any] = json.loads(QUESTION_TIMES.read_text())
    rows = [(name, f"{us:.1f}") for name, us in told["us"].items()]
    head = ("statistic, epsilon", "a question over three windows, us")
    return f"{table(head, rows)}\n\nOn {told['machine']}."


def one_window() -> str:
    """Bytes of the structures for windows of any length, and for one window."""
    told: list[dict[str, Any]] = json.loads(ONE_WINDOW.read_text())
    rows = [
        (
            f"{row['epsilon']}",
            f"{row['events']:,}",
            *(f"{any_window:,}; {one:,}" for any_window, one in row["bytes"].values()),
        )
        for row in told
    ]
    shares = sorted(
        one / any_window
        for row in told
        for any_window, one in (row["bytes"]["prices"], row["bytes"]["doubles"])
    )
    return (
        f"Quantiles take {100 * shares[0]:.0f} to {100 * shares[-1]:.0f} % of the bytes:\n\n"
        + table(("epsilon", "N", *told[0]["bytes"]), rows)
    )


def sketches() -> str:
    """Quantiles by value beside sketches without windows."""
    told: dict[str, Any] = json.loads(QUANTILES.read_text())
    shares = [f"p{100 * share:.6g}" for share in told["shares"]]
    heads = ("", "bytes", "an event, ns", *shares)
    rows = [
        (
            name,
            f"{row['bytes']:,}",
            f"{row['ns']:,.0f}",
            *(
                f"{100 * value:.1f} %, {100 * rank:.1f} %"
                for value, rank in zip(row["value_errors"], row["rank_errors"], strict=True)
            ),
            *([""] * (len(shares) - len(row["value_errors"]))),
        )
        for name, row in told["rows"].items()
    ]
    return f"{table(heads, rows)}\n\nOn {told['machine']}; of {told['streams']} streams."


def audit() -> str:
    """What an audit of flights tells, as it prints it."""
    told: dict[str, Any] = json.loads(AUDIT.read_text())
    lines = [
        f"{'statistic':<20} {'figures':>8} {'promised':>9} {'median':>8} {'99 %':>8} {'largest':>8}"
        "  error"
    ]
    for row in told["rows"]:
        shares = (row["promised"], row["median"], row["p99"], row["largest"])
        cells = [f"{row['statistic']:<20}", f"{row['figures']:>8,}"]
        cells += [f"{share:>{width}.4%}" for share, width in zip(shares, (9, 8, 8, 8), strict=True)]
        lines.append(" ".join(cells) + f"  {row['unit']}")
    return "```text\n" + "\n".join(lines) + "\n```"


def sql_aggregates() -> str:
    """How long aggregates of SQL take in a GROUP BY, beside Spark's own."""
    told: dict[str, Any] = json.loads(SQL_AGGREGATES.read_text())
    rows = [
        (
            f"`{one['call']}`",
            f"`{one['beside']}`",
            f"{one['ratio']:.1f} ({one['least']:.1f} to {one['most']:.1f})",
        )
        for one in told["calls"]
    ]
    heads = ("slidestat", "Spark", "times as long")
    said = f"{told['rows']:,} rows in {told['groups']:,} groups, five pairs in turn on two cores:"
    return f"{said}\n\n{table(heads, rows)}"


def flights() -> str:
    """The referee's answers beside the exact ones, and what travelled."""
    told: dict[str, Any] = json.loads(REFEREE.read_text())
    heads = ("statistic", "window", "lower", "estimate", "upper", "exact")
    largest = max(told["bytes"], key=told["bytes"].__getitem__)
    sent, raw = told["sent_a_tick"], told["json_a_tick"]
    return (
        f"{table(heads, told['rows'])}\n\n"
        f"What travels does not grow with the traffic, but it is not nothing. Here a partition\n"
        f"publishes {sent / 1_000:.1f} kB a tick, where its flights of six hours are"
        f" {raw / 1_000:.0f} kB of JSON: {100 * sent / raw:.0f} %.\n"
        f"The largest part is `{largest}`, {told['bytes'][largest] / 1_000:.1f} kB."
    )
