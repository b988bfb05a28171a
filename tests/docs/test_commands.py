"""Every command in the documents is typed, in its order, by someone with a broker and a topic."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from slidestat.admin.topics import create_topic, retention_config
from slidestat.local.broker import LocalBroker
from tests.docs.markdown import DOCUMENTS, ROOT, blocks, commands, named
from tests.docs.reader import Reader

FORGET_S = 60.0
LATENCY = ROOT / "docs" / "declare-a-topology.md"

# What is not run, and why. The command line of ours is parsed all the same.
NOT_RUN = {
    r"make ": "this test is part of it",
    r"export ": "the reader's shell has the broker and the PATH already",
    r"slidestat (broker|demo)": "the broker is there, and the demo has a test of its own",
    r"slidestat alertmanager": "there is none; tests/admin plays one",
    r"slidestat spark": "the tests of Spark run each of them, a session for all",
    r"zip |spark-submit ": "there is no cluster",
    r"docker |kubectl |helm |echo \"SLIDESTAT_WEB_TOKEN": "no engine; tests/deploy checks them",
    r"python -m benchmarks": "they take minutes; the tests of benchmarks run small ones",
}
# Whole documents whose brokers or clusters are not here.
ELSEWHERE = {
    "docs/secured-brokers.md": "tests/security has such a broker",
    "docs/spark.md": "tests/spark",
    "docs/rankings.md": "tests/docs/test_rankings.py has its events, tests/cli its command",
    "docs/seed.md": "tests/broker/restarts/test_seed.py has such files",
    "docs/slos.md": "tests/examples types the commands of the example web-slo",
    "docs/source-formats.md": "tests/broker/source/test_avro_source.py has a schema registry",
}
# What the reader has done before, in other documents.
BEFORE = {
    "docs/dead-letters.md": [
        "slidestat run latency.toml",
        """echo '{"path": "/home", "at": '$(date +%s)'000, "ms": "slow"}'"""
        " | slidestat produce - --topic requests --raw --key path",
    ],
    "docs/ask-a-worker.md": [
        "slidestat topics create --topology flights --partitions 4",
        "slidestat produce app/slidestat/demo/data/flights-2001.parquet --topic flights"
        " --key origin --time date --value delay --with destination --limit 20000",
        "slidestat run flights",
    ],
    "docs/read-the-output.md": ["slidestat run latency.toml"],
}


def mend_letters(reader: Reader) -> None:
    """As one would in an editor."""
    file = reader.folder / "letters.jsonl"
    letters = [json.loads(line) for line in file.read_text().splitlines()]
    assert letters
    for letter in letters:
        letter["value"] = letter["value"].replace('"slow"', "900")
    file.write_text("".join(f"{json.dumps(letter)}\n" for letter in letters))


def await_letters(reader: Reader) -> None:
    """A worker takes a moment to come to the record that it refuses."""
    reader.await_lines("slidestat dlq show latency.toml --json", 1)


def await_statistics(reader: Reader) -> None:
    """Of each key at least: emissions come a moment after the worker is ready."""
    reader.await_lines("slidestat watch latency.toml --from-beginning --once --json", 3)


PREPARATIONS = {
    "slidestat dlq send": mend_letters,
    "slidestat dlq count": await_letters,
    "slidestat watch latency.toml --once": await_statistics,
}


@pytest.fixture(scope="module")
def one_broker() -> Iterator[LocalBroker]:
    """To start one takes a third of the time of a document."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def broker(one_broker: LocalBroker) -> Iterator[LocalBroker]:
    """A broker for each document, as good as new: they call their topics what readers call theirs,
    and workers of one name are one group.
    """
    address = one_broker.bootstrap_servers
    for topic in ("requests", "sensors"):
        create_topic(address, topic, 4, retention_config("forever"))
    producer = Producer({"bootstrap.servers": address})
    random, now = Random(3), int(time.time() * 1000)
    for i in range(6_000):
        path = random.choice(["/checkout", "/search", "/home"])
        at = now - 600_000 + 100 * i
        took = round(random.expovariate(0.01), 1)
        event = {"path": path, "at": at, "ms": took, "user": f"u{random.randrange(300)}"}
        producer.produce("requests", json.dumps(event), path, timestamp=at)
        reading = {"key": f"roof-{i % 5}", "time": at, "value": 20 + i % 7}
        producer.produce("sensors", json.dumps(reading), reading["key"], timestamp=at)
    assert producer.flush(30) == 0
    yield one_broker
    forget_all(AdminClient({"bootstrap.servers": address}))


def forget_all(admin: AdminClient) -> None:
    """Delete groups and topics, and return once the broker lists none."""
    groups = [group.group_id for group in admin.list_consumer_groups().result().valid]
    # What has ended without a word is a member until its session ends.
    for deleted in admin.delete_consumer_groups(groups).values() if groups else ():
        with suppress(KafkaException):
            deleted.result()
    deadline = time.monotonic() + FORGET_S
    while topics := [name for name in admin.list_topics().topics if not name.startswith("__")]:
        assert time.monotonic() < deadline, topics
        for deleted in admin.delete_topics(topics).values():
            with suppress(KafkaException):
                deleted.result()


def reason_not_to_run(command: str) -> str | None:
    return next((why for what, why in NOT_RUN.items() if re.match(what, command)), None)


def is_run(document: Path, command: str) -> bool:
    return named(document) not in ELSEWHERE and reason_not_to_run(command) is None


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if any(commands(d))], ids=named)
def test_commands_do_as_they_are_written(
    document: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Each one ends well, or runs until it is stopped; those not run are at least understood."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    needs_broker = any(
        is_run(document, command) for command in commands(document) if "slidestat" in command
    )
    broker = request.getfixturevalue("broker").bootstrap_servers if needs_broker else "127.0.0.1:1"
    with Reader(tmp_path, broker, PREPARATIONS) as reader:
        reader.write_files(LATENCY)
        reader.write_files(document)
        for command in BEFORE.get(named(document), []):
            reader.follow(command)
        for command in commands(document):
            if command.startswith("make "):
                assert f"\n{command.split()[1]}:" in makefile, command
            elif is_run(document, command):
                reader.follow(command)
            elif command.startswith("slidestat "):
                reader.parse(command)
        if named(document) == "docs/read-the-output.md":
            check_readers(reader, document)


def check_readers(reader: Reader, document: Path) -> None:
    """What Python printed is what SQL finds; the Java example is one that a compiler takes."""
    import duckdb

    counts = "-- duckdb\n"
    (query,) = (block.text for block in blocks(document, "sql") if block.text.startswith(counts))
    file = reader.folder / "statistics.jsonl"
    rows = duckdb.execute(query.replace("statistics.jsonl", str(file))).fetchall()
    newest = {row[0]: row[2:] for row in rows}
    printed = reader.printed["python read_statistics.py"]
    for key, (estimate, lower, upper) in newest.items():
        assert lower <= estimate <= upper
        assert re.search(rf"^{key}: \d+, from \d+ to \d+$", printed, re.MULTILINE), printed
    assert newest.keys() == {"/checkout", "/search", "/home"}
