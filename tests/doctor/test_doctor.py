"""`slidestat doctor` tells what is there, and what to do about what is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from slidestat.doctor.finding import Verdict
from slidestat.engine.decoding.formats.source_schemas import framed
from tests.commands import RunCli
from tests.conftest import MakeTopic
from tests.registry.stand_in import stand_in


def findings(out: str) -> dict[str, dict[str, str]]:
    return {finding["check"]: finding for finding in map(json.loads, out.splitlines())}


def test_a_machine_that_will_do(run_cli: RunCli) -> None:
    """With a broker that answers nothing is bad: versions, codecs, disk and what is allowed."""
    run = run_cli("doctor", "--json")
    found = findings(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "numba" in found["python"]["found"]
    assert found["codecs"]["found"] == "gzip, lz4, snappy, zstd"
    assert found["topics"]["found"] == "this user may create them"
    assert found["java for the local broker"]["verdict"] == Verdict.GOOD
    for_people = run_cli("doctor").stdout
    assert "good  broker: " in for_people
    assert "BAD" not in for_people


def test_a_broker_that_is_not_there(run_cli: RunCli) -> None:
    """What is bad is told with what to do, after all that is good; the exit code says so."""
    run = run_cli("doctor", "--json", bootstrap="127.0.0.1:1")
    assert run.returncode == 1
    found = findings(run.stdout)
    assert found["broker"]["verdict"] == Verdict.BAD
    assert "No Kafka broker answers" in found["broker"]["found"]
    assert found["broker"]["advice"]
    assert found["tables"]["verdict"] == Verdict.GOOD


def test_a_registry_that_is_another_server(
    run_cli: RunCli, bootstrap_servers: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A worker would wait for it: so it is bad, and the exit code says so."""
    source = make_topic("framed")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(source, framed(1, b"abc"), key=b"k")
    assert producer.flush(30) == 0
    file = tmp_path / "orders.toml"
    file.write_text(
        f'name = "{source}-orders"\nsource = "{source}"\nsource_format = "avro"\nspan = "1h"\n'
        'every = "1m"\n[[statistics]]\nkind = "count"\n'
    )
    with stand_in() as server:
        server.fail = 404
        run = run_cli("doctor", str(file), "--json", "--schema-registry", server.url)
    assert run.returncode == 1, run.stdout
    found = findings(run.stdout)["source fields"]
    assert (found["verdict"], bool(found["advice"])) == (Verdict.BAD, True)
    assert server.url in found["found"]


@pytest.mark.parametrize("setting", ["KAFKA_SASL_PASSWORD", "KAFKA_SSL_CA_FILE"])
def test_settings_that_cannot_be(setting: str) -> None:
    """A mistake in the security settings is a finding, and its value is not told."""
    run = subprocess.run(
        [sys.executable, "-m", "slidestat", "doctor"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ
        | {setting: "a-secret", "PYTHONPATH": str(Path(__file__).parents[2] / "app")},
        check=False,
    )
    assert run.returncode == 1
    assert f"BAD   broker: {setting} is set" in run.stdout
    assert "a-secret" not in run.stdout + run.stderr


def doctor_with(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run the command without a broker, with these variables as well."""
    return subprocess.run(
        [sys.executable, "-m", "slidestat", "doctor", "--json", "--bootstrap", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment | {"PYTHONPATH": str(Path(__file__).parents[2] / "app")},
        check=False,
    )


@pytest.mark.parametrize("writable", [True, False])
def test_the_folder_that_kernels_use(writable: bool, tmp_path: Path) -> None:
    """It is the one that compiled kernels are kept in, and the finding says whether they can be."""
    base = tmp_path if writable else Path("/proc/no-folder")
    run = doctor_with({"NUMBA_CACHE_DIR": str(base)})
    kernels = findings(run.stdout)["kernels"]
    assert kernels["verdict"] == (Verdict.GOOD if writable else Verdict.BAD)
    assert f"{base}/kernels" in kernels["found"]
    assert ("NUMBA_CACHE_DIR" in kernels.get("advice", "")) is not writable


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    """They are told with what to do, and the checks behind them are made."""
    (tmp_path / "file").touch()
    base = tmp_path / "file" / "folder"
    run = doctor_with(
        {
            "SLIDESTAT_CACHE_DIR": str(base),
            "XDG_DATA_HOME": str(base),
            "NUMBA_CACHE_DIR": str(tmp_path),
        }
    )
    found = findings(run.stdout)
    assert "SLIDESTAT_CACHE_DIR" in found["downloads"]["advice"]
    assert "broker" in found
    if sys.platform.startswith("linux"):
        assert "--data-dir" in found["tables"]["advice"]
        assert "cannot be written" in found["tables"]["found"]
