"""Watching shows the statistics of a topic, those there are or those that come."""

import json
import os
import signal
import subprocess
import sys
from io import StringIO
from itertools import chain, islice
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from rich.console import Console

from app.client.watch import StatisticReader
from app.client.watch_display import Latest, cells, iso_time, watch
from schemas.statistic import Statistic
from tests.client.conftest import RunCli
from tests.conftest import MakeTopic

END_MS = 978_328_800_000


def statistic(key: str, estimate: float, end_ms: int = END_MS, name: str = "count") -> Statistic:
    return Statistic(
        topology="flights",
        statistic=name,
        key=key,
        window_start_ms=end_ms - 86_400_000,
        window_end_ms=end_ms,
        window_ms=86_400_000,
        estimate=estimate,
        lower=estimate * 0.99,
        upper=estimate * 1.01,
        epsilon=0.01,
        relative_error=0.01,
        absolute_error=0.0,
        source_topic="flights",
        source_partition=0,
        source_offset=1,
    )


def send(bootstrap: str, topic: str, *values: Statistic | bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        data = value if isinstance(value, bytes) else msgspec.json.encode(value)
        producer.produce(topic, data)
    producer.flush()


@pytest.fixture
def statistics_topic(bootstrap_servers: str, make_topic: MakeTopic) -> str:
    """A topic of 30 statistics of 10 keys, and one record that is none, on 3 partitions."""
    topic = make_topic("statistics", partitions=3)
    ends = (END_MS + 3_600_000 * hour for hour in range(3))
    figures = [statistic(f"K{i}", 100.0 * i, end) for end in ends for i in range(10)]
    send(bootstrap_servers, topic, *figures, b"not a statistic")
    return topic


def test_json_once(statistics_topic: str, run_cli: RunCli) -> None:
    """Once and as JSON: every record as it is, one a line, and an end."""
    run = run_cli("watch", "--topic", statistics_topic, "--once", "--json")
    assert run.returncode == 0
    found = [msgspec.json.decode(line, type=Statistic) for line in run.stdout.splitlines()]
    assert len(found) == 30
    assert {f.key for f in found} == {f"K{i}" for i in range(10)}
    assert run.stderr == "1 records were not statistics.\n"


def test_keys_by_pattern(statistics_topic: str, run_cli: RunCli) -> None:
    """A pattern leaves the other keys out."""
    run = run_cli("watch", "--topic", statistics_topic, "--once", "--json", "--key", "K[12]")
    assert {json.loads(line)["key"] for line in run.stdout.splitlines()} == {"K1", "K2"}


def test_lines_once(statistics_topic: str, run_cli: RunCli) -> None:
    """Once and not on a terminal: a plain line for each series' latest figure, `rows` many."""
    run = run_cli("watch", "--topic", statistics_topic, "--once", "--rows", "7")
    lines = run.stdout.splitlines()
    assert len(lines) == 7
    # Partitions are read side by side, so only a series' own order is sure.
    assert all("1d count" in line and "Z" in line for line in lines)
    everything = run_cli("watch", "--topic", statistics_topic, "--once", "--rows", "99")
    assert len(everything.stdout.splitlines()) == 10


def test_an_empty_topic_once(make_topic: MakeTopic, run_cli: RunCli) -> None:
    """Once on an empty topic shows nothing and ends."""
    run = run_cli("watch", "--topic", make_topic(), "--once")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_watching_as_they_come(bootstrap_servers: str, statistics_topic: str) -> None:
    """A reader from the end gives what comes after it, from the beginning all of it."""
    reader = StatisticReader(bootstrap_servers, statistics_topic, 3, from_beginning=True)
    batches = reader.batches()
    assert len(list(islice(chain.from_iterable(batches), 30))) == 30
    batches.close()

    reader = StatisticReader(bootstrap_servers, statistics_topic, 3)
    batches = reader.batches()
    next(batches)  # Assigned, and asked for the ends.
    send_until_read = []
    while not send_until_read:
        # A partition's end is known at its first fetch only: send until one is seen.
        send(bootstrap_servers, statistics_topic, statistic("new", 5.0))
        send_until_read = next(batches)
    assert {record.statistic.key for record in send_until_read} == {"new"}
    batches.close()


def test_ctrl_c_ends_well(bootstrap_servers: str, statistics_topic: str) -> None:
    """Ctrl-C ends watching with exit code 0 and no stack trace, its output whole."""
    arguments = ["watch", "--topic", statistics_topic, "--from-beginning"]
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ
        | {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(30)]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert all("[" in line and "±1.00%" in line for line in lines if " K0 " not in line)
    assert "Traceback" not in errors


def test_table_on_a_terminal(
    bootstrap_servers: str, statistics_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the latest figures stand in a table with estimate and bounds."""
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120, highlight=False)
    monkeypatch.setattr("app.client.watch_display.Console", lambda **_: console)
    reader = StatisticReader(bootstrap_servers, statistics_topic, 3, key_glob="K7", once=True)
    watch(reader, 20, as_json=False)
    assert "2001-01-01T08:00:00Z" in screen.getvalue()
    for figure in ("K7", "700", "693", "707", "1.00"):
        assert figure in screen.getvalue()


def test_latest_is_bounded_and_newest_first() -> None:
    """The table keeps the series updated last, newest first, and not one more."""
    latest = Latest(2)
    latest.update([statistic("a", 1), statistic("b", 2), statistic("a", 3), statistic("c", 4)])
    assert [(s.key, s.estimate) for s in latest.newest_first()] == [("c", 4), ("a", 3)]


def test_latest_does_not_go_back() -> None:
    """An older window that is read later, from another partition, replaces nothing."""
    latest = Latest(2)
    latest.update([statistic("a", 1, END_MS), statistic("a", 2, END_MS - 1)])
    assert [s.estimate for s in latest.newest_first()] == [1]
    latest.update([statistic("a", 3, END_MS)])
    assert [s.estimate for s in latest.newest_first()] == [3]


def test_cells() -> None:
    """A statistic's cells are its figures for people; half the bounds' width is the ± share."""
    assert cells(statistic("ATL", 1234567.5)) == (
        "ATL",
        "count",
        "1d",
        "2001-01-01T06:00:00Z",
        "1,234,567.5",
        "1,222,221.825",
        "1,246,913.175",
        "1.00",
    )
    assert cells(statistic("ATL", 0.0))[-1] == "0.00"
    assert cells(statistic("\x1b[2J", 1.0))[0] == r"\x1b[2J"


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (END_MS + 5, "2001-01-01T06:00:00.005Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**62, str(2**62)),
    ],
)
def test_iso_time(time_ms: int, text: str) -> None:
    """A window's end is ISO 8601 in UTC, or its number where no date is that far."""
    assert iso_time(time_ms) == text
