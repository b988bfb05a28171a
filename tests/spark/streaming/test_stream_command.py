"""`slidestat spark stream` as it is typed."""

import sys
from pathlib import Path
from random import Random

import msgspec
import pytest
from pyspark.sql import SparkSession

from slidestat import TopologyDriver, load_topology
from slidestat.cli.main import main
from slidestat.spark import read_statistics
from slidestat.spark.lake.lake import Dataset, Lake
from slidestat.spark.streaming.operator import PROVIDER
from tests.spark.requests_history import NOON

TOPOLOGY = """
source = "events"
span = "2m"
every = "10s"
windows = ["20s", "2m"]

[[statistics]]
kind = "count"

[[alerts]]
name = "busy"
when = "count > 10"
window = "20s"
"""


def typed(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> int | str | None:
    """Type a command; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["slidestat", "spark", "stream", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


@pytest.mark.usefixtures("jobs_in_one_session")
def test_lines_of_json_become_a_lake(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """With the figures of a worker that reads them in order of time; another source is refused."""
    monkeypatch.chdir(tmp_path)
    random = Random(4)
    events = [
        {"key": random.choice("abc"), "time": NOON + 700 * at, "value": 1} for at in range(500)
    ]
    Path("counted.toml").write_text(f'name = "counted"{TOPOLOGY}', "utf-8")
    Path("events").mkdir()
    Path("others").mkdir()
    lines = [msgspec.json.encode(it).decode() for it in random.sample(events, len(events))]
    Path("events/1.json").write_text("\n".join([*lines, "", "no JSON"]), "utf-8")
    words = ["counted.toml", "--lake", str(tmp_path / "lake"), "--from", "json", "--path"]
    tasks = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        code = typed(monkeypatch, [*words, str(tmp_path / "events")])
        written = capsys.readouterr()
        other = typed(monkeypatch, [*words, str(tmp_path / "others")])
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", tasks)
        spark.conf.unset(PROVIDER)
    assert code == 0, written.err
    assert other == 2
    assert "is the checkpoint of a stream from json" in capsys.readouterr().err
    driver = TopologyDriver(load_topology("counted.toml"), 4)
    driver.send(*events)
    assert driver.alerts
    assert sorted(written.out.splitlines()) == [
        f"alerts: {len(driver.alerts):,} records",
        "dead-letters: 1 records",
        f"statistics: {len(driver.emissions):,} records",
    ]
    place = Lake(str(tmp_path / "lake"), "counted")
    alerts = place.read(spark, Dataset.ALERTS).collect()
    assert {(it.event_key, it.window_end_ms, it.state) for it in alerts} == {
        (it.key, it.window_end_ms, it.state) for it in driver.alerts
    }
    figures = {
        (row.key, int(row.window_end.timestamp() * 1000), row.window_ms, row.estimate)
        for row in read_statistics(spark, str(tmp_path / "lake"), "counted").collect()
    }
    assert figures == {
        (it.key, it.window_end_ms, figure.window_ms, figure.estimate)
        for it in driver.emissions
        for figure in it.figures
    }
