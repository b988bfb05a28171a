"""What questions cost the work, and the work the questions.

    python -m benchmarks.speed.questions [--clients 200] [--rate 20000] [--seconds 20]

A worker takes in events of 1,000 keys at a rate, each second emits count, sum, mean and quantiles
of each key, and answers clients that ask for a key at random and, as soon as they have an answer or
a refusal, for another: at first none, then clients that ask for one window, then as many that ask
for as many windows and quantiles as one question may. The work's latency is from the end of a tick
to the broker's stamp on its last emission; a question's is from its first byte to the answer's
last. What was measured goes to results/questions.json, which docs/ask-a-worker.md tells
(`make figures`).
"""

import asyncio
import multiprocessing
import random
import re
import sys
import tempfile
import time
from http import HTTPStatus
from multiprocessing.connection import Connection
from pathlib import Path
from secrets import token_hex
from typing import Annotated, cast

import msgspec
import numpy as np
import typer
from confluent_kafka import Producer
from rich.console import Console
from yarl import URL

from benchmarks.documents.measured_speed import QUESTIONS
from benchmarks.harness import results
from benchmarks.harness.answers import read_messages
from benchmarks.harness.measure import SubjectProcess
from benchmarks.speed.throughput import broker, run_command
from slidestat.admin.topics import create_topic
from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config

KEYS = 1_000
PARTITIONS = 4
_STEP_S = 0.01
_WARM_UP_S = 8
_PATIENCE_S = 180.0
_STAMPED = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
ONE_WINDOW, ALL_ALLOWED = "one window", "50 windows, 10 quantiles"
QUERIES = {
    ONE_WINDOW: "window=1m",
    # The most pairs that web/answers/parameters.py allows in one question.
    ALL_ALLOWED: "&".join(
        [
            *(f"window={10 + seconds}s" for seconds in range(50)),
            *(f"quantile={0.05 + share / 11:.3f}" for share in range(10)),
        ]
    ),
}
_TOPOLOGY = """
name = "{name}"
source = "{source}"
span = "10m"
every = "1s"
windows = ["1m", "10m"]
statistics = [{{kind = "count"}}, {{kind = "sum"}}, {{kind = "mean"}}, {{kind = "quantile"}}]
"""


class Questions(msgspec.Struct):
    """What came of the clients' questions, and of the work beside them. Answers and refusals (429)
    are those of all clients in a second.
    """

    asked: str
    clients: int
    answers_per_s: float
    refusals_per_s: float
    p50_ms: float
    p99_ms: float
    work_p50_ms: float
    work_max_ms: float


class _Emission(msgspec.Struct):
    window_end_ms: int


def send(bootstrap: str, topic: str, rate: int, seconds: float) -> None:
    """Send events as they happen, a handful each 10 ms."""
    producer = Producer({**client_config(bootstrap), "linger.ms": 5})
    start, sent = time.time(), 0
    while (now := time.time()) < start + seconds:
        due = int((now - start) * rate)
        for number in range(sent, due):
            key = number % KEYS
            value = b'{"key":"key-%06d","time":%d,"value":%d.25}' % (key, now * 1000, number % 977)
            producer.produce(topic, value, b"key-%06d" % key, key % PARTITIONS)
        sent = due
        producer.poll(0)
        time.sleep(_STEP_S)
    producer.flush(_PATIENCE_S)


class _Client(asyncio.Protocol):
    """Asks, and asks again as soon as it is told."""

    def __init__(self, url: URL, path: str, took: list[tuple[int, float]]) -> None:
        self._host = url.authority
        self._path = path
        self._took = took
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        path = self._path.format(key=f"key-{random.randrange(KEYS):06d}")  # noqa: S311
        self._began = time.perf_counter()
        self._transport.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, end, body = self._seen.partition(b"\r\n\r\n")
        if not end:
            return
        length = re.search(rb"Content-Length: (\d+)", head)
        if length and len(body) >= int(length[1]):
            self._took.append((int(head[9:12]), time.perf_counter() - self._began))
            self._seen = b""
            self._ask()


def ask(url: str, path: str, clients: int, seconds: float, told: Connection) -> None:
    """Ask with so many clients for so long; tell (status, seconds) of each answer."""
    took: list[tuple[int, float]] = []

    async def all_clients() -> None:
        at, loop = URL(url), asyncio.get_running_loop()
        for _ in range(clients):
            await loop.create_connection(
                lambda: _Client(at, path, took), at.host or "", at.port or 0
            )
        await asyncio.sleep(seconds)

    asyncio.run(all_clients())
    told.send(took)


def measure(bootstrap: str, asked: str, clients: int, rate: int, seconds: int) -> Questions:
    """Ask a worker of its own while it takes in events at a rate."""
    name = f"questions-{token_hex(4)}"
    source, output = f"{name}-events", f"{name}-statistics"
    create_topic(bootstrap, source, PARTITIONS, {"retention.ms": "-1"})
    create_topic(bootstrap, output, PARTITIONS, _STAMPED)
    start = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="slidestat-bench-") as folder:
        file, log = Path(folder) / f"{name}.toml", Path(folder) / "log"
        file.write_text(_TOPOLOGY.format(name=name, source=source))
        command = [sys.executable, "-m", "slidestat", "run", str(file), "--bootstrap", bootstrap]
        with SubjectProcess([*command, "--data-dir", f"{folder}/data"], log) as worker:
            worker.wait_for(lambda: "ready, partitions" in log.read_text(), 1, _PATIENCE_S)
            url = log.read_text().partition("answers at ")[2].split()[0]
            sender = start.Process(
                target=send, args=(bootstrap, source, rate, seconds + _WARM_UP_S + 2)
            )
            sender.start()
            time.sleep(_WARM_UP_S)
            asked_ms = int(time.time() * 1000)
            here, there = start.Pipe()
            path = f"/topologies/{name}/keys/{{key}}?{QUERIES[asked]}"
            asking = start.Process(target=ask, args=(url, path, clients, seconds, there))
            asking.start()
            took = here.recv()
            until_ms = int(time.time() * 1000)
            asking.join()
            sender.join()
            time.sleep(3)
    work = _latencies(bootstrap, output, asked_ms + 1000, until_ms)
    answered = [taken for status, taken in took if status == HTTPStatus.OK]
    refused = sum(status == HTTPStatus.TOO_MANY_REQUESTS for status, _ in took)
    if len(answered) + refused < len(took):
        raise SlidestatError("A question was neither answered nor refused.", "Read the log above.")
    p50, p99 = (np.percentile(answered or [0.0], (50, 99)) * 1000).tolist()
    return Questions(
        asked,
        clients,
        len(answered) / seconds,
        refused / seconds,
        p50,
        p99,
        float(np.median(work)),
        float(max(work)),
    )


def _latencies(bootstrap: str, output: str, asked_ms: int, until_ms: int) -> list[int]:
    """Of each tick meanwhile, the ms to the broker's stamp on its last emission."""
    last: dict[int, int] = {}
    decode = msgspec.json.Decoder(_Emission).decode
    for message in read_messages(bootstrap, output):
        end = decode(message.value() or b"").window_end_ms
        if asked_ms <= end <= until_ms:
            last[end] = max(last.get(end, 0), message.timestamp()[1])
    return [stamp - end for end, stamp in last.items()]


def questions(
    clients: Annotated[int, typer.Option(min=1, help="How many ask without pause.")] = 200,
    rate: Annotated[int, typer.Option(min=100, help="Events a second.")] = 20_000,
    seconds: Annotated[int, typer.Option(min=5, help="For how long.")] = 20,
    json: Annotated[Path, typer.Option(help="Write what the docs tell there.")] = QUESTIONS,
) -> None:
    """Measure questions beside work."""
    console = Console(width=150)
    machine = results.machine()
    console.print(machine, highlight=False)
    rows = []
    with broker() as (bootstrap, _):
        for asked, count in ((ONE_WINDOW, 0), (ONE_WINDOW, clients), (ALL_ALLOWED, clients)):
            found = measure(bootstrap, asked, count, rate, seconds)
            rows.append(found)
            console.print(
                f"{count} clients ({asked}) beside {rate:,} events/s: work p50"
                f" {found.work_p50_ms:,.0f} ms, max {found.work_max_ms:,.0f} ms;"
                f" {found.answers_per_s:,.0f} answers/s, p50 {found.p50_ms:,.0f} ms, p99"
                f" {found.p99_ms:,.0f} ms; {found.refusals_per_s:,.0f} refusals/s",
                highlight=False,
            )
    told = {"machine": machine, "events_per_s": rate, "seconds": seconds, "rows": rows}
    json.write_bytes(msgspec.json.format(msgspec.json.encode(told)) + b"\n")
    console.print(f"written: {json}", highlight=False)


if __name__ == "__main__":
    run_command(questions)
