"""`slidestat doctor` tells what is there, and what to do about what is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slidestat.doctor.finding import Verdict
from tests.commands import RunCli


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


@pytest.mark.parametrize("writable", [True, False])
def test_the_folder_that_kernels_use(writable: bool, tmp_path: Path) -> None:
    """It is the one that compiled kernels are kept in, and the finding says whether they can be."""
    base = tmp_path if writable else Path("/proc/no-folder")
    run = subprocess.run(
        [sys.executable, "-m", "slidestat", "doctor", "--json", "--bootstrap", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ
        | {"NUMBA_CACHE_DIR": str(base), "PYTHONPATH": str(Path(__file__).parents[2] / "app")},
        check=False,
    )
    kernels = findings(run.stdout)["kernels"]
    assert kernels["verdict"] == (Verdict.GOOD if writable else Verdict.BAD)
    assert f"{base}/kernels" in kernels["found"]
    assert ("NUMBA_CACHE_DIR" in kernels.get("advice", "")) is not writable
