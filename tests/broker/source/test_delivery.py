"""Batches through Faust: what a fetch brought is what the agent gets, and what is said to be
durable is what is committed.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.broker.conftest import MakeStage
from tests.broker.workers import (
    STOP_S,
    events,
    open_consumer,
    produce,
    wait_until,
)

_PROGRAM = "tests.broker.recorder"

Batches = list[tuple[int, list[int], int]]


class Recorder:
    """A process that notes the batches of a topic."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.bootstrap, self.topic, self._folder = bootstrap, topic, folder
        self.group = f"{topic}-recorder"

    @contextmanager
    def running(self, slow_s: float = 0.0, in_a_row: int = 1) -> Iterator[subprocess.Popen[bytes]]:
        """Within the context the process runs; at its end SIGTERM, and exit code 0."""
        command = [sys.executable, "-m", _PROGRAM, self.bootstrap, self.group, self.topic]
        with (self._folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [*command, str(self._folder), str(slow_s), str(in_a_row)], stdout=said, stderr=said
            )
            try:
                yield process
                process.terminate()
                assert process.wait(STOP_S) == 0
            finally:
                process.kill()
                process.wait()

    def batches(self) -> Batches:
        return [tuple(line) for line in self._lines("batches")]  # type: ignore[misc]

    def fetches(self) -> list[tuple[int, list[int]]]:
        return [tuple(line) for line in self._lines("fetches")]  # type: ignore[misc]

    def pauses(self) -> int:
        return len(self._lines("pauses"))

    def rebalances(self) -> int:
        return len(self._lines("rebalances"))

    def hold_commits(self, *, are_held: bool) -> None:
        if are_held:
            (self._folder / "hold").touch()
        else:
            (self._folder / "hold").unlink()

    def offsets(self, partition: int) -> list[int]:
        """Offsets of a partition in the order of their arrival."""
        return [offset for p, offsets, _ in self.batches() if p == partition for offset in offsets]

    def say_durable(self, offsets: dict[int, int]) -> None:
        new = self._folder / "durable.new"
        new.write_text(json.dumps(offsets))
        new.replace(self._folder / "durable.json")

    def committed(self) -> list[int]:
        """The group's offsets, -1001 where there is none."""
        with open_consumer(self.bootstrap, self.group) as consumer:
            partitions = consumer.list_topics(self.topic, timeout=10).topics[self.topic].partitions
            wanted = [TopicPartition(self.topic, partition) for partition in sorted(partitions)]
            return [tp.offset for tp in consumer.committed(wanted, timeout=10)]

    def _lines(self, name: str) -> list[list[int]]:
        file = self._folder / name
        # The last line may be half written.
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def record(
    bootstrap_servers: str, make_topic: Callable[..., str], tmp_path: Path
) -> Callable[..., Recorder]:
    """`record(partitions, config={})`: a recorder of a new topic."""

    def make(partitions: int, config: dict[str, str] | None = None) -> Recorder:
        return Recorder(bootstrap_servers, make_topic("recorded", partitions, config), tmp_path)

    return make


def test_a_fetch_of_a_partition_is_one_batch(record: Callable[..., Recorder]) -> None:
    """The agent's batches are the fetches, record for record; each partition's offsets come in
    order, without one missing or twice.
    """
    run = record(3)
    produce(run.bootstrap, run.topic, events(30_000))
    with run.running():
        wait_until(
            lambda: sum(len(offsets) for _, offsets, _ in run.batches()) >= 30_000, "all", 60
        )
    fetches = run.fetches()
    batches = run.batches()
    for partition in range(3):
        of_partition = [offsets for p, offsets, _ in batches if p == partition]
        assert of_partition == [offsets for p, offsets in fetches if p == partition]
        offsets = run.offsets(partition)
        assert offsets == list(range(len(offsets)))
        # A batch is worth its name.
        assert max(map(len, of_partition)) > 1_000


def test_what_is_durable_is_committed_and_nothing_else(record: Callable[..., Recorder]) -> None:
    """Nothing is committed before something is said to be durable; then exactly that, in the
    middle of a batch too; a restart begins there, and commits go on.
    """
    run = record(2)
    for partition in (0, 1):
        produce(run.bootstrap, run.topic, events(1_000), partition)
    with run.running():
        wait_until(lambda: len(run.offsets(0)) == len(run.offsets(1)) == 1_000, "all", 60)
        assert run.committed() == [-1001, -1001]
        run.say_durable({0: 417})
        wait_until(lambda: run.committed() == [417, -1001], "the first commit", 20)
        run.say_durable({0: 418, 1: 1_000})
        wait_until(lambda: run.committed() == [418, 1_000], "the second commit", 20)

    produce(run.bootstrap, run.topic, events(1_000), 1)
    with run.running():
        wait_until(lambda: len(run.offsets(1)) == 2_000, "the rest", 60)
        wait_until(lambda: len(run.offsets(0)) == 1_582, "what was not durable", 60)
        assert run.offsets(0)[1_000:] == list(range(418, 1_000))
        assert run.offsets(1) == list(range(2_000))
        run.say_durable({0: 1_000, 1: 1_999})
        wait_until(lambda: run.committed() == [1_000, 1_999], "a commit after the restart", 20)
        # What is said again, or less than before, is not committed again.
        run.say_durable({0: 500, 1: 2_000})
        wait_until(lambda: run.committed()[1] == 2_000, "a last commit", 20)
    assert run.committed() == [1_000, 2_000]


def test_a_slow_agent_bounds_what_is_in_memory(record: Callable[..., Recorder]) -> None:
    """Behind an agent that takes 0.2 s a batch never more than the buffer's 4 batches wait, and
    only a few fetches are made in advance.
    """
    run = record(2)
    produce(run.bootstrap, run.topic, events(100_000))
    with run.running(slow_s=0.2):
        wait_until(lambda: len(run.batches()) >= 12, "batches", 60)
        # Batches first: a fetch between the two readings counts against the claim.
        given = len(run.batches())
        assert len(run.fetches()) - given <= 4 + 2 + 2
    assert max(waiting for _, _, waiting in run.batches()) <= 4
    assert len(run.fetches()) >= 12


def test_catching_up_is_without_a_pause(record: Callable[..., Recorder]) -> None:
    """Where all partitions wait for the agent, they are fetched from as soon as it has taken what
    waits: Faust would sleep for a second.
    """
    run = record(2)
    produce(run.bootstrap, run.topic, events(60_000))
    with run.running(slow_s=0.2, in_a_row=3):
        wait_until(lambda: run.batches(), "a first batch", 60)
        before = run.pauses()
        wait_until(lambda: sum(len(batch[1]) for batch in run.batches()) == 60_000, "all", 60)
        assert run.pauses() == before


def test_a_rebalance_does_not_keep_a_worker_from_leaving(
    record: Callable[..., Recorder], tmp_path: Path
) -> None:
    """Where the group is rebalanced before a worker that stops has committed for the last time, it
    commits first, then ends: Faust would close its connections, and try that commit for ever.
    """
    run = record(2)
    (tmp_path / "other").mkdir()
    other = Recorder(run.bootstrap, run.topic, tmp_path / "other")
    for partition in (0, 1):
        produce(run.bootstrap, run.topic, events(1_000), partition)
    with run.running() as process:
        wait_until(lambda: len(run.offsets(0)) == len(run.offsets(1)) == 1_000, "all", 60)
        run.hold_commits(are_held=True)
        run.say_durable({0: 417, 1: 1_000})
        process.terminate()
        before = run.rebalances()
        with other.running():
            wait_until(lambda: run.rebalances() > before, "the second worker joins", 60)
            run.hold_commits(are_held=False)
            assert process.wait(STOP_S) == 0
            wait_until(lambda: len(other.offsets(0)) == 583, "what was not durable", 60)
    assert run.committed() == [417, 1_000]
    assert other.offsets(0) == list(range(417, 1_000))
    assert other.offsets(1) == []


def test_a_worker_takes_no_more_at_once_than_it_says(make_stage: MakeStage, tmp_path: Path) -> None:
    """Of what the broker sends a worker takes at most 50,000 records as one batch, though a single
    batch of a producer has more, packed into less than a MiB; and 4 MiB of what is not packed,
    though a partition has 30 MB waiting.
    """
    stage = make_stage(partitions=2, config={"max.message.bytes": str(8 * 2**20)})
    many, large = 120_000, 30_000
    source = stage.topology.source
    in_one = {"batch.size": 8 * 2**20, "batch.num.messages": many, "linger.ms": 2_000}
    packed: dict[str, str | int] = {"compression.type": "zstd", **in_one}
    produce(stage.bootstrap, source, events(many), 0, **packed)
    others = [value.replace(b'"key":"k', b'"key":"l') for _, value in events(large)]
    padded = [(None, value[:-1] + b',"pad":"%s"}' % (b"x" * 1_000)) for value in others]
    produce(stage.bootstrap, source, padded, 1)
    notes = tmp_path / "notes"
    arguments = ("run", str(stage.file), "--data-dir", str(stage.data_dir()))
    with (tmp_path / "said").open("wb") as said:
        worker = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.broker.noted_worker", str(notes), *arguments),
                *("--bootstrap", stage.bootstrap),
            ],
            stdout=said,
            stderr=said,
        )
        try:
            wait_until(lambda: stage.committed() == {0: many, 1: large}, "all", 200)
            worker.terminate()
            assert worker.wait(STOP_S) == 0
        finally:
            worker.kill()
            worker.wait()
    batches = [json.loads(line) for line in notes.read_text().splitlines()]
    assert max(count for count, _ in batches) == 50_000
    assert 2 * 2**20 < max(size for count, size in batches if size / count > 1_000) <= 4 * 2**20


def test_holes_of_transactions_are_read_through(make_stage: MakeStage) -> None:
    """A topic written by transactions has a marker after each: offsets with holes. All records
    are counted, over a restart too, and the last one is committed; what a producer took back is
    not counted.
    """
    stage = make_stage(partitions=2)
    source = stage.topology.source
    producer = Producer(
        {"bootstrap.servers": stage.bootstrap, "transactional.id": source, "log_level": 0}
    )
    producer.init_transactions(60)
    for start in range(0, 4_000, 400):
        producer.begin_transaction()
        for key, value in events(400, start=start):
            producer.produce(source, value, key)
        producer.commit_transaction(60)
        producer.begin_transaction()
        for key, value in events(10, start=start):
            producer.produce(source, value, key)
        producer.flush(60)
        producer.abort_transaction(60)
        if start == 2_000:
            stage.drain()
    stage.drain()
    assert stage.check().counters.counted == 4_000
    ends = {p: records[-1].offset for p, records in stage.read(source).items()}
    assert any(end > len(stage.read(source)[p]) for p, end in ends.items())


def test_transactions_are_read_as_they_come(make_stage: MakeStage) -> None:
    """A worker that has read up to a marker, or a transaction taken back, goes on behind it."""
    stage = make_stage(partitions=1)
    source = stage.topology.source
    producer = Producer(
        {"bootstrap.servers": stage.bootstrap, "transactional.id": source, "log_level": 0}
    )
    producer.init_transactions(60)
    with stage.worker().await_ready() as worker:
        for start in range(0, 500, 100):
            producer.begin_transaction()
            for key, value in events(10, start=start):
                producer.produce(source, value, key)
            producer.flush(60)
            if start == 200:
                producer.abort_transaction(60)
                continue
            producer.commit_transaction(60)
            end = start // 100 * 11 + 10
            wait_until(lambda end=end: stage.committed() == {0: end}, f"commit of {end}", 30)
        worker.stop()
    assert stage.check().counters.counted == 40


def test_holes_of_compaction_are_read_through(make_stage: MakeStage) -> None:
    """A topic that was compacted has holes, at its beginning too: what is left is counted."""
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": str(2**20),
        "max.compaction.lag.ms": "100",
        "min.compaction.lag.ms": "0",
        "segment.ms": "100",
        "file.delete.delay.ms": "0",
    }
    stage = make_stage(partitions=1, config=config)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(3_000, keys=500))

    def compacted() -> bool:
        # A record that rolls the segment, and is itself not one to compact away.
        roll = events(1, start=3_000)[0][1]
        produce(stage.bootstrap, source, [(b"roll", roll)])
        return stage.read(source)[0][0].offset > 0

    wait_until(compacted, "the broker has compacted", 60)
    # A worker refuses a source that goes on losing events.
    keep = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, source, incremental_configs=[keep])
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
    stage.drain()
    produce(stage.bootstrap, source, events(3_000, start=3_001, keys=500))
    stage.drain()
    records = stage.read(source)[0]
    assert stage.counters().read >= len(records)
    assert stage.committed() == {0: records[-1].offset + 1}


def test_changelog_records_are_applied_one_by_one(make_stage: MakeStage) -> None:
    """Changelogs are not coalesced: a worker that restores from one goes on with the state of
    every key, though a fetch brings many of them.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    first = events(20_000, keys=3_000)
    produce(stage.bootstrap, source, first)
    stage.drain("a")
    states = {b"k" + key for key, _ in first}
    assert {record.key for record in stage.read(stage.changelog)[0]} == states | {b"f", b"p"}
    produce(stage.bootstrap, source, events(20_000, start=20_000, keys=3_000))
    stage.drain("b")
    stage.check()
