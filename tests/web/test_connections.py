"""Connections on real sockets: how many a worker takes, and how long they may say nothing."""

import asyncio
import gc
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

import pytest
import rocksdict
from yarl import URL

from slidestat.engine.garbage_collector import calm_garbage_collector, collect_garbage
from slidestat.errors import SlidestatError
from slidestat.faust.worker.resources import open_files, raise_open_files
from slidestat.faust.worker.run import raise_for_the_user
from slidestat.web.server import IDLE_S, MOST_CONNECTIONS, most_connections
from tests.web.serving import Served, get, serving

HALF_A_HEADER = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LONG_ANSWER = WHOLE.replace(b"/healthz", b"/openapi.json")
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(worker: Served, sent: bytes = b"") -> Stream:
    """A connection that has sent something."""
    url = URL(worker.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


@pytest.mark.asyncio
async def test_one_connection_too_many_is_told_so() -> None:
    """Beside 256 connections another one gets 503; when one has gone, it is served."""
    async with serving({0: ["a"]}) as [worker]:
        assert most_connections() == MOST_CONNECTIONS
        streams = [await connect(worker) for _ in range(MOST_CONNECTIONS)]
        reader, writer = await connect(worker)
        refused = await reader.read()
        head, _, body = refused.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in head
        assert json.loads(body).keys() == {"error", "advice"}
        writer.close()
        streams[0][1].close()
        await streams[0][1].wait_closed()
        await asyncio.sleep(0.1)
        assert (await get(worker.url, "/healthz")).status == 200
        for _, each in streams:
            each.close()


@pytest.mark.asyncio
async def test_one_that_says_or_reads_nothing_is_closed() -> None:
    """Connections without a whole header are closed when their time is over, also after an answer
    to a first question; and so is one that asks and asks, and takes no answer.
    """
    async with serving({0: ["a"]}) as [worker], asyncio.timeout(3 * IDLE_S):
        began = asyncio.get_running_loop().time()
        streams = [
            await connect(worker, sent) for sent in (b"", HALF_A_HEADER, WHOLE + HALF_A_HEADER)
        ]
        silent = [asyncio.create_task(reader.read()) for reader, _ in streams]
        with deaf(worker) as asking:
            for _ in range(20):
                await asyncio.sleep(0.05)
                with suppress(BlockingIOError):
                    asking.send(20 * LONG_ANSWER)
            await asyncio.gather(*silent)
            assert asyncio.get_running_loop().time() - began > IDLE_S / 2
            while worker.runner.server.connections:
                await asyncio.sleep(0.1)
        for _, writer in streams:
            writer.close()


@pytest.mark.asyncio
async def test_closed_connections_leave_nothing_behind() -> None:
    """asyncio leaves a cycle of each, also of one that never finished its header: where the garbage
    collector is calmed, as in a worker, what that one does each half minute collects them.
    """

    def transports() -> int:
        return sum(isinstance(each, asyncio.Transport) for each in gc.get_objects())

    async with serving({0: ["a"]}) as [worker]:
        with calm_garbage_collector():
            collect_garbage()
            before = transports()
            for number in range(100):
                _, writer = await connect(worker, HALF_A_HEADER if number % 2 else WHOLE)
                writer.close()
                await writer.wait_closed()
            del writer
            while worker.runner.server.connections:
                await asyncio.sleep(0.1)
            collect_garbage()
            assert transports() - before < 5  # The loop may have the last ones in its hands.


@contextmanager
def deaf(worker: Served) -> Iterator[socket.socket]:
    """A connection that takes next to nothing."""
    url = URL(worker.url)
    with socket.socket() as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asking.connect((url.host, url.port))
        asking.setblocking(False)
        yield asking


def test_few_open_files_leave_few_to_connections(tmp_path: Path) -> None:
    """A process that may open few files raises the limit as far as it can; connections get a
    quarter. RocksDB without a descriptor is told of as that: nothing is to be deleted.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
        assert most_connections() == 100
        raise_open_files()
        assert open_files() == min(before[1], 65_536)
        gc.collect()  # What is collected later would give descriptors back.
        # The limit is of numbers: those that were given back are free below it.
        taken = {int(descriptor.name) for descriptor in Path("/proc/self/fd").iterdir()}
        free = (number for number in count() if number not in taken)
        _, _, third = islice(free, 3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (third, before[1]))
        with pytest.raises(Exception, match="Too many open files") as refused:
            rocksdict.Rdict(str(tmp_path / "table"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with pytest.raises(SlidestatError, match="no file left to open") as told:
        raise_for_the_user(refused.value, tmp_path)
    assert "elete" not in told.value.advice
