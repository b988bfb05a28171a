"""The broker in the foreground."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from slidestat.local.settings import HOST
from slidestat.options import BROKER_PORT

AwaitGone = Callable[[int | None], None]

_RUN = """
import sys
from pathlib import Path
from slidestat.local.broker import run_in_foreground
run_in_foreground(None, Path(sys.argv[1]))
"""


@pytest.mark.usefixtures("real_jars")
def test_it_tells_where_it_is_and_stops_when_asked(tmp_path: Path, await_gone: AwaitGone) -> None:
    """It says that 9092 is in use, prints a line to paste, and Ctrl-C ends it with status 0."""
    with socket.socket() as taken, suppress(OSError):
        with suppress(OSError):  # then somebody else has it, which will do
            taken.bind((HOST, BROKER_PORT))
            taken.listen()
        with subprocess.Popen(
            [sys.executable, "-c", _RUN, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            said = ""
            while "Ctrl-C ends" not in said:
                line = process.stdout.readline()
                assert line, said
                said += line
            [address] = [
                line.split("=")[1]
                for line in said.splitlines()
                if "export KAFKA_BOOTSTRAP_SERVERS=" in line
            ]
            below = psutil.Process(process.pid).children(recursive=True)
            assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=10).brokers
            process.send_signal(signal.SIGINT)
            rest = process.communicate(timeout=60)[0]
            assert process.returncode == 0
    assert f"Port {BROKER_PORT} of {HOST} is in use" in said
    assert not address.endswith(str(BROKER_PORT))
    assert str(tmp_path / "data" / "broker.log") in said
    assert "Stopping" in rest
    assert len(below) == 2
    for child in below:
        await_gone(child.pid)
