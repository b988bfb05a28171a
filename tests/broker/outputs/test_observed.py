"""A real worker, watched: its metrics, its status and its log agree with what it was sent."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from typing import IO, Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from slidestat.schemas.emission import Emission
from slidestat.schemas.query import KeyHistory
from tests.arenas import count_arenas
from tests.broker.conftest import MakeStage
from tests.broker.workers import Worker, events, produce

START_MS = 1_600_000_000_000


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310  a worker's own
        body: bytes = response.read()
        return body


def started(arguments: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "slidestat", *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def totals(text: str) -> dict[str, float]:
    """Each metric's samples, added up over their labels."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def test_what_a_worker_tells_of_itself(make_stage: MakeStage) -> None:
    """Counts, keys, changelog, emissions and lag in the metrics and in the status are those of the
    records; with `--log json` every line is an event, and what was refused is told with topic,
    partition and offsets.
    """
    stage = make_stage(partitions=2)
    events = [
        json.dumps({"key": f"k{i % 5}", "time": START_MS + i * 1_000, "value": 1}).encode()
        for i in range(200)
    ]
    late = json.dumps({"key": "k0", "time": START_MS, "value": 1}).encode()
    produce(
        stage.bootstrap,
        stage.topology.source,
        [(None, value) for value in (*events, b"no json", late)],
        partition=0,
    )
    flags = [str(stage.file), "--log", "json"]
    with Worker(flags, stage.data_dir(), stage.bootstrap).await_ready() as worker:
        stage.await_settled([worker])
        found = totals(get(f"{worker.url}/metrics").decode())
        status: dict[str, Any] = json.loads(get(f"{worker.url}/topologies/{stage.name}/status"))
        emissions = len(stage.emissions())
        history = get(f"{worker.url}/topologies/{stage.name}/keys/k0/history")
        changelog = sum(map(len, stage.read(stage.changelog).values()))
        assert b"<title>slidestat</title>" in get(worker.url)
        worker.stop()
    assert found["slidestat_records_total"] == 202
    assert found["slidestat_refused_records_total"] == 2
    assert found["slidestat_emissions_total"] == emissions > 0
    assert found["slidestat_emission_latency_seconds_count"] == emissions
    assert found["slidestat_changelog_records_total"] == changelog
    assert found["slidestat_changelog_bytes_total"] > 0
    assert found["slidestat_keys"] == 5
    assert found["slidestat_lag_records"] == 0
    assert found["slidestat_state_bytes"] > 0
    assert found["slidestat_recovery_remaining_records"] == 0
    written = [msgspec.json.decode(value, type=Emission) for value in stage.emissions().values()]
    of_k0 = [emission for emission in written if emission.key == "k0"]
    of_k0.sort(key=lambda emission: emission.window_end_ms)
    assert msgspec.json.decode(history, type=KeyHistory).emissions == of_k0
    assert len(of_k0) >= 9
    (told,) = status["workers"]
    counts = {p["partition"]: p for p in told["partitions"]}
    assert set(counts) == {0, 1}
    read = counts[0]
    assert (read["read"], read["counted"], read["dead"], read["late"]) == (202, 200, 1, 1)
    assert (read["next_offset"], read["end_offset"], read["keys"]) == (202, 202, 5)
    assert read["watermark_ms"] == START_MS + 199_000
    assert (counts[1]["read"], counts[1]["watermark_ms"], counts[1]["keys"]) == (0, None, 0)

    lines = [json.loads(line) for line in worker.said().splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT.*\+00:00", line["time"]) for line in lines)
    source = stage.topology.source
    opened = [line for line in lines if line["event"] == "partition opened"]
    places = {(line["topic"], line["partition"], line["offset"]) for line in opened}
    assert places == {(source, 0, 0), (source, 1, 0)}
    refused = [line for line in lines if line["event"] == "records not counted"]
    assert {(line["topic"], line["partition"]) for line in refused} == {(source, 0)}
    assert (refused[0]["offset"], refused[-1]["last_offset"]) == (200, 201)
    reasons = {reason for line in refused for reason in line["reasons"]}
    assert reasons == {"not-json", "late"}


@pytest.mark.skipif(sys.platform != "linux", reason="it is GNU's library that has arenas")
def test_threads_of_a_worker_share_arenas(make_stage: MakeStage) -> None:
    """Its clients, RocksDB and questions have twenty threads; what each frees is kept for all, in
    at most one arena beside the main thread's. It is started as users do, not forked.
    """
    stage = make_stage(partitions=2)
    with stage.worker(start=started).await_ready() as worker:
        produce(stage.bootstrap, stage.topology.source, events(2_000))
        stage.await_commit_after(1_000)
        get(f"{worker.url}/metrics")
        assert count_arenas(worker.pid) <= 1
