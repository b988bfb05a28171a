"""Events in a file, the command line, and a topic's records."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

TIME_MS = 978_307_200_000

ReadTopic = Callable[[str], list[Message]]
WriteEvents = Callable[[int], Path]
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def read_topic(bootstrap_servers: str) -> ReadTopic:
    """`read_topic(name)` gives the records of a topic, each partition's in order."""

    def read(topic: str) -> list[Message]:
        group = f"test-{uuid.uuid4()}"
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
        try:
            numbers = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            partitions = [TopicPartition(topic, number) for number in numbers]
            ends = [consumer.get_watermark_offsets(p, timeout=10)[1] for p in partitions]
            for partition in partitions:
                partition.offset = OFFSET_BEGINNING
            consumer.assign(partitions)
            messages: list[Message] = []
            while len(messages) < sum(ends):
                messages += consumer.consume(10_000, timeout=1)
            return messages
        finally:
            consumer.close()

    return read


@pytest.fixture
def write_events(tmp_path: Path) -> WriteEvents:
    """`write_events(count)` writes a JSON lines file of events, 50 keys, a minute apart."""

    def write(count: int) -> Path:
        path = tmp_path / "events.jsonl"
        with path.open("w") as file:
            for i in range(count):
                event = {"key": f"key-{i % 50}", "time": TIME_MS + 60_000 * i, "value": i}
                file.write(json.dumps(event) + "\n")
        return path

    return write


@pytest.fixture
def run_cli(bootstrap_servers: str) -> RunCli:
    """`run_cli(*arguments, stdin=None, bootstrap=...)` runs `slidestat` as a user would."""

    def run(
        *arguments: str, stdin: str | None = None, bootstrap: str = bootstrap_servers
    ) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
            "PYTHONPATH": str(Path(__file__).parents[1] / "app"),
            # As wide as it takes: a wrapped line is another text.
            "COLUMNS": "300",
        }
        return subprocess.run(
            [sys.executable, "-m", "slidestat", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            # The first on a machine compiles kernels.
            timeout=280,
            env=environment,
            check=False,
        )

    return run
