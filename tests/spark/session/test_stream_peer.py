"""The benchmarks on a real broker: systems beside each other on one topic, answers checked."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.delay.latency import measure_latencies
from benchmarks.harness.cases import CaseName
from benchmarks.harness.systems import BARE, OURS, SYSTEMS
from benchmarks.speed.throughput import measure

SPARK = "spark_tumbling"


@pytest.fixture
def console() -> Console:
    return Console(width=150)


@pytest.fixture(autouse=True)
def same_broker(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    # Logs of the processes that it starts.
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.mark.long
def test_a_workload_is_measured_with_its_answers_checked(console: Console) -> None:
    """Ours, a bare loop and Spark take the same topic, and a ratio comes of each; every window of
    Spark's is there and exact.
    """
    systems = [SYSTEMS[name] for name in (OURS, BARE, SPARK)]
    found: dict[str, Any] = measure(CaseName.SUMS, systems, 250_000, 20, "10m", 1, console)
    assert found["settings"]["events"] == 250_000
    assert {name: type(ratio) for name, ratio in found["ratios"].items()} == {
        BARE: float,
        SPARK: float,
    }, found["ratios"]
    checked = {
        name: figures["answers_checked"].median for name, figures in found["systems"].items()
    }
    # 20 keys in four ticks, three statistics in three windows; in each minute of 41 that the
    # watermark has passed.
    assert checked[OURS] == 20 * 4 * 9
    assert checked[BARE] == 0
    assert 20 * 39 <= checked[SPARK] <= 20 * 42


def test_latencies_are_measured(console: Console) -> None:
    """Answers come after the records by which they are due."""
    found: dict[str, Any] = measure_latencies([OURS], 500, 8, console)
    latency = found["systems"][OURS]
    assert latency.answers > 1_000
    assert 0 <= latency.p50_ms <= latency.p99_ms
