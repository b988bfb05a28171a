"""Questions to real workers of one group: over HTTP, and with `slidestat query`."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from slidestat.engine.partition import PartitionProcessor
from slidestat.live.live_query import LiveQuery
from slidestat.schemas.query import KeyAnswer
from slidestat.web.address import Announced
from tests.broker.conftest import MakeStage
from tests.broker.workers import DRAIN_S, Stage, Worker, as_batch, events, produce, wait_until
from tests.engine.memory import MemoryStore

BODY = 'span="10m", every="20s", windows=("1m", "10m"), lateness="5s"'
WINDOWS = ["90s", "7m", "10m"]

# A worker that is busy, or restores; or another test's, at the port of one that was killed.
ASK_AGAIN = (429, 502, 503)


def get(url: str, path: str) -> tuple[int, Any]:
    """Status and body of a GET."""
    try:
        with urllib.request.urlopen(url + path, timeout=30) as response:  # noqa: S310  a worker's
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def expected(stage: Stage) -> dict[str, KeyAnswer]:
    """The answer for each key of the source, as one process without Kafka gives it."""
    question = LiveQuery(stage.topology, WINDOWS)
    answers = {}
    for partition, records in stage.read(stage.topology.source).items():
        processor = PartitionProcessor(
            stage.topology, stage.topology.source, partition, MemoryStore()
        )
        processor.process(as_batch(stage.topology.source, partition, records))
        for key in processor.view().keys("", "", 1_000_000):
            answer = question.answer(processor.view(), key)
            answers[key] = msgspec.json.decode(msgspec.json.encode(answer), type=KeyAnswer)
    return answers


def await_answers(stage: Stage, worker: Worker, answers: Mapping[str, KeyAnswer]) -> None:
    """Return once the worker tells of exactly these keys, and of each what it should."""
    path = f"/topologies/{stage.topology.name}/keys"
    windows = "&".join(f"window={window}" for window in WINDOWS)

    def answered() -> bool:
        status, page = get(worker.url, f"{path}?limit=1000")
        if status != 200:
            assert status in ASK_AGAIN, page
            return False
        found = {}
        for key in page["keys"]:
            status, body = get(worker.url, f"{path}/{key}?{windows}")
            if status != 200:
                assert status in ASK_AGAIN, body
                return False
            found[key] = msgspec.convert(body, KeyAnswer)
        # A partition that has just come here has yet to read again what waits for the watermark.
        return found == answers

    wait_until(answered, f"{worker.url} answers for all keys", DRAIN_S)


def test_every_worker_answers_for_all_partitions(make_stage: MakeStage) -> None:
    """Of keys on four partitions, each of two workers gives the figures that a single process
    gives, bit for bit; so does the one that is left when the other is killed, and a worker that
    was started again and has read nothing new.
    """
    stage = make_stage(partitions=4, body=BODY)
    # The Kafka keys are others than those of the events: where a key is cannot be computed.
    records = [(b"user-" + key, value) for key, value in events(20_000, jitter_ms=400)]
    produce(stage.bootstrap, stage.topology.source, records)
    answers = expected(stage)
    assert len(answers) == 40
    with stage.worker("a") as one, stage.worker("b") as two:
        stage.await_settled([one, two])
        for worker in (one, two):
            await_answers(stage, worker.await_ready(), answers)
        path = f"/topologies/{stage.topology.name}"
        described = get(one.url, path)[1]["workers"]
        assert sorted(each["url"] for each in described) == sorted((one.url, two.url))
        held = [number for each in described for number in each["partitions"]]
        assert sorted(held) == [0, 1, 2, 3]
        assert get(one.url, f"{path}/keys/nobody")[0] == 404
        two.kill()
        await_answers(stage, one, answers)
        one.stop()
    with stage.worker("a").await_ready() as again:
        await_answers(stage, again, answers)
        again.stop()
    stage.check()


def run(stage: Stage, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`slidestat query` of the stage's topology."""
    return subprocess.run(
        [sys.executable, "-m", "slidestat", "query", str(stage.file), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment | {"COLUMNS": "200"},
    )


def test_the_command_finds_a_worker(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`slidestat query` asks the worker that runs in the user's own folder; it passes a killed
    one over, shows what the worker refuses, and carries the token.
    """
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "t0ken")
    stage = make_stage(partitions=1, body=BODY)
    produce(stage.bootstrap, stage.topology.source, events(2_000, keys=3))
    answers = expected(stage)
    nobody = run(stage, "k1")
    assert nobody.returncode == 2
    assert "No worker of" in nobody.stderr

    home = tmp_path / "home" / "slidestat" / stage.topology.application_id
    # As a killed worker leaves it.
    (home / "worker-0").mkdir(parents=True)
    gone = msgspec.json.encode(Announced("http://127.0.0.1:1", "gone"))
    (home / "worker-0" / "web.json").write_bytes(gone)
    assert run(stage, "k1").returncode == 2
    with Worker(stage.file, home / "worker-1", stage.bootstrap) as worker:
        stage.await_settled([worker])
        windows = [part for window in WINDOWS for part in ("--window", window)]
        answer = run(stage, "k1", *windows, "--json")
        assert msgspec.json.decode(answer.stdout, type=KeyAnswer) == answers["k1"]

        shown = run(stage, "k1", "--window", "7m", "--statistic", "quantile", "--quantile", "0.123")
        assert shown.stderr == ""
        (line,) = shown.stdout.splitlines()
        assert " 7m quantile 0.123" in line
        assert run(stage, "k1", "--url", worker.url).returncode == 0
        ranked = run(stage, "k1", "--window", "7m", "--rank", "-1", "--rank", "250")
        assert ranked.stderr == ""
        lines = ranked.stdout.splitlines()
        assert len(lines) == 8
        assert " 7m quantile at most -1, events " in lines[0]
        assert " 7m quantile more than 250, share " in lines[-1]

        past = run(stage, "k1", "--window", "7m", "--statistic", "count", "--ago", "1m")
        assert past.stderr == ""
        assert " 7m count " in past.stdout

        for arguments, says in (
            (["k1", "--ago", "2h"], "ago is '2h': the windows begin before"),
            (["k1", "--window", "2h"], "window is '2h'"),
            (["k1", "--statistic", "sun"], "statistic is 'sun'"),
            (["k1", "--rank", "nan"], "rank is nan, which is no finite number"),
            (["k1", "--rank", "9" * 5_000], "rank is inf, which is no finite number"),
            (["k9"], "has no key 'k9'"),
            (["k1", "--url", "127.0.0.1:1"], "is no worker's address"),
            (["k1", "--url", "http://127.0.0.1:1"], "No worker answers"),
        ):
            refused = run(stage, *arguments)
            assert refused.returncode == 2, refused
            assert says in refused.stderr
            assert "Traceback" not in refused.stderr
        other = run(stage, "k1", SLIDESTAT_WEB_TOKEN="another")  # noqa: S106
        assert other.returncode == 2
        assert "does not carry the worker's token" in other.stderr
        worker.stop()
    assert not (home / "worker-1" / "web.json").exists()


def test_beyond_loopback_only_with_a_token(make_stage: MakeStage) -> None:
    """A worker that would answer to anyone does not start, and says what to set."""
    stage = make_stage(partitions=1)
    command = [sys.executable, "-m", "slidestat", "run", str(stage.file)]
    command += ["--bootstrap", stage.bootstrap, "--web-host", "0.0.0.0"]  # noqa: S104
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "open to anyone" in ended.stderr
    assert "SLIDESTAT_WEB_TOKEN" in ended.stderr
