"""What results/*.json say of states: their sizes, what they cost, and beside other sketches."""

import json
from statistics import median
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.accuracy.recounted import NOTES, RESULTS, WORDS
from benchmarks.documents.markdown import table

_RESULTS = RESULTS_FOLDER
COSTS = _RESULTS / "costs.json"
REFEREE, QUANTILES = _RESULTS / "referee.json", _RESULTS / "quantiles.json"
AUDIT = _RESULTS / "audit.json"
SQL_AGGREGATES = _RESULTS / "sql_aggregates.json"
QUESTION_TIMES = _RESULTS / "question_times.json"
KERNELS, ONE_WINDOW = _RESULTS / "kernels.json", _RESULTS / "one_window.json"


def statistics() -> str:
    """A row for each statistic: what it is, its error, its bytes."""
    sizes: dict[str, list[int]] = json.loads(RESULTS.read_text())["sizes"]
    heads = (
        "statistic",
        "what it answers",
        "largest error, by default",
        "bytes of a key with 5, 1,000 and 100,000 events",
    )
    return table(
        heads,
        [
            (*words, ", ".join(f"{size:,}" for size in sizes[kind]) + NOTES.get(kind, ""))
            for kind, words in WORDS.items()
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
        f"The synopses that are sent do not grow with the traffic, but they have a cost. Here a\n"
        f"partition publishes {sent / 1_000:.1f} kB a tick, where its flights of six hours are"
        f" {raw / 1_000:.0f} kB of JSON: {100 * sent / raw:.0f} %.\n"
        f"The largest part is `{largest}`, {told['bytes'][largest] / 1_000:.1f} kB."
    )
