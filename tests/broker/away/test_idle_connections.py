"""Connections to the web port that say nothing take no descriptor that the work needs."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from yarl import URL

from tests.broker.conftest import MakeStage
from tests.broker.workers import DRAIN_S, Worker, events, produce, wait_until

SOCKETS = 1_100
# What a login shell gets by default.
OPEN_FILES = 1_024
TOKEN = "t0ken"
HALF_A_HEADER = b"GET /topologies HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


@contextmanager
def idle(url: str, count: int) -> Iterator[None]:
    """Connections, of which every other one sends half a header, and none anything more."""
    at = URL(url)
    with ExitStack() as sockets:
        for number in range(count):
            one = sockets.enter_context(socket.socket())
            one.settimeout(10)
            one.connect((at.host, at.port))
            if number % 2:
                one.sendall(HALF_A_HEADER)
        yield


def files(worker: Worker) -> int:
    """How many files it has open."""
    return sum(1 for _ in Path(f"/proc/{worker.pid}/fd").iterdir())


def status(worker: Worker, path: str) -> int:
    """The status of an answer, 0 for a connection that was closed."""
    at = URL(worker.url)
    connection = HTTPConnection(at.host or "", at.port, timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


@pytest.fixture
def room_for_sockets() -> Iterator[None]:
    """This process holds all ends of the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * SOCKETS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.long
@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.usefixtures("room_for_sockets")
def test_idle_connections_leave_the_work_alone(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """Beside 1,100 connections that send nothing or half a header, a worker that may open 1,024
    files takes in its events, gives a partition to another worker and takes it back; and when their
    time is over, it answers.
    """
    if token:
        monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", token)
    stage = make_stage(partitions=4)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(5_000))
    with stage.worker("a") as one:
        resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        one.await_ready()
        with idle(one.url, SOCKETS):
            with stage.worker("b") as two:
                two.await_ready()
                produce(stage.bootstrap, source, events(5_000, start=5_000))
                stage.await_settled([one, two])
                two.stop()
            produce(stage.bootstrap, source, events(5_000, start=10_000))
            stage.await_settled([one])
            assert files(one) < OPEN_FILES // 2
            path = f"/topologies/{stage.topology.name}/keys/k1"
            wait_until(lambda: status(one, path) == 200, "an answer", DRAIN_S)
        one.stop()
    stage.check()
