"""Rollups of what a worker writes are those of a backfill of the same events."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer

from slidestat.cli.spark import backfill, ingest, rollup
from slidestat.errors import SlidestatError
from tests.broker.workers import Stage

HOUR_MS = 3_600_000
START_MS = 1_764_072_000_000 // (24 * HOUR_MS) * (24 * HOUR_MS)
PARTITIONS = 2
BODY = (
    'span="6h", every="10m", windows=("1h",), lateness="5m", synopses="1h", exactly_once=True,\n'
    "    statistics=(Count(), Mean(), Quantiles()),\n"
)

pytestmark = pytest.mark.usefixtures("jobs_in_one_session")


def _events() -> list[dict[str, object]]:
    """A day of keys that come all the time, once, and with a silence of ten hours; at last events
    that move the watermark of each partition past the day.
    """
    hours = {"steady": range(24), "once": [5], "pausing": [*range(3), *range(13, 20)]}
    events = [
        {"key": key, "time": START_MS + hour * HOUR_MS + minute * 60_000, "value": hour + minute}
        for key, of_key in hours.items()
        for hour in of_key
        for minute in (1, 20, 59)
    ]
    events.sort(key=lambda event: (event["time"], event["key"]))
    ends = [{"key": f"end {n}", "time": START_MS + 25 * HOUR_MS, "value": 0} for n in range(30)]
    return [*events, *ends]


@pytest.mark.long
def test_rollups_of_live_synopses_are_those_of_a_backfill(
    make_topic: Callable[..., str],
    bootstrap_servers: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also in one transaction with the states, of a key that was silent, and in windows of several
    intervals; windows that cut through the interval are refused.
    """
    source = make_topic("live", PARTITIONS)
    stage = Stage(bootstrap_servers, tmp_path, source, source, BODY)
    file = str(stage.file)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    events = _events()
    for event in events:
        producer.produce(source, msgspec.json.encode(event), str(event["key"]))
    assert producer.flush(60) == 0
    del producer
    stage.drain()

    live, history = str(tmp_path / "lake"), str(tmp_path / "history")
    ingest(file, live, bootstrap=bootstrap_servers, records_per_batch=10_000)
    backfill(file, history, bootstrap=bootstrap_servers)
    records = ds.dataset(Path(live) / source / "synopses", partitioning="hive").to_table()
    hours = {(it["key"], it["time"] // HOUR_MS) for it in events if "end" not in str(it["key"])}
    assert len(records) == 3 * len(hours)
    capsys.readouterr()
    found = []
    for lake in (live, history):
        into = str(tmp_path / f"figures of {Path(lake).name}")
        rollup(file, lake, "12h", "substr(key, 1, 1)", into)
        figures = ds.dataset(into).to_table().drop(["summary"]).to_pylist()
        # The history ends with the last event, a worker's synopses with the last tick before it.
        days = [row for row in figures if row["end_ms"] <= START_MS + 24 * HOUR_MS]
        found.append(sorted(days, key=repr))
    assert found[0] == found[1]
    counts = {
        (row["group"], row["start_ms"]): row["estimate"]
        for row in found[0]
        if row["statistic"] == "count"
    }
    assert counts["s", START_MS] == counts["s", START_MS + 12 * HOUR_MS] == 36
    assert counts["o", START_MS] == 3
    assert (counts["p", START_MS], counts["p", START_MS + 12 * HOUR_MS]) == (9, 21)
    with pytest.raises(SlidestatError, match="cut through synopses that are 1h apart"):
        rollup(file, live, "30m")
