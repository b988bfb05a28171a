"""Real workers on a real broker: start and stop them, feed them, and read what they wrote."""

import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Protocol, Self

import numpy as np
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from slidestat.declare.forms.files import load_topology
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Checkpoint, Counters, decode_checkpoint
from slidestat.engine.effects import Effects
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.engine.keys.stored_keys import NoStates
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.kafka.partitioner import expected_places
from slidestat.schemas.dead_letter import dead_letter_key
from tests.broker.forked import ForkedProcess
from tests.faust.simulation.brokers import Written
from tests.faust.simulation.trace import Event, Trace

# The first worker on a machine compiles its kernels before it joins the group.
START_S = 180.0
DRAIN_S = 60.0
STOP_S = 30.0
CHECKPOINT_INTERVAL = "3s"
# Of a worker, in the message of a test that waited for it in vain: characters.
LAST_WORDS = 4_000

Records = dict[int, list["Record"]]
# By partition and key: the time of its newest event, how many it took in, its synopses' bytes.
Tables = dict[int, dict[str, tuple[int, int, tuple[bytes, ...]]]]


class Record(NamedTuple):
    """A record as a plain consumer sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: dict[str, bytes]


def wait_until(condition: Callable[[], object], what: str, timeout_s: float) -> None:
    """Return once `condition()` is true; AssertionError, naming `what`, if it takes too long."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.05)


class Process(Protocol):
    """A process of `slidestat ARGUMENTS...`, with the methods of subprocess.Popen."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout_s: float, /) -> int: ...
    def send_signal(self, number: signal.Signals, /) -> None: ...


StartProcess = Callable[[Sequence[str], IO[bytes]], Process]


class Worker:
    """A worker process of a topology's file or flags; ended, by SIGKILL if need be, when its
    context is left. Not all of its states are durable after each flush, but all are soon.
    """

    def __init__(
        self,
        topology: Path | Sequence[str],
        data_dir: Path,
        bootstrap: str,
        options: Sequence[str] = (),
        checkpoint_interval: str = CHECKPOINT_INTERVAL,
        start: StartProcess = ForkedProcess,
    ) -> None:
        declared = [str(topology)] if isinstance(topology, Path) else topology
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        self.data_dir = data_dir
        self._said = data_dir.parent / f"{data_dir.name}.stderr"
        with self._said.open("ab") as said:
            self._said_before = said.tell()
            self._process = start(
                [
                    *("run", *declared),
                    *("--data-dir", str(data_dir)),
                    *("--bootstrap", bootstrap),
                    *("--checkpoint-interval", checkpoint_interval),
                    *options,
                ],
                said,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def said(self) -> str:
        """What this process wrote to its terminal."""
        with self._said.open("rb") as said:
            said.seek(self._said_before)
            return said.read().decode()

    @property
    def url(self) -> str:
        """Where it answers questions."""
        found = re.search(r"answers at (http://[^\s\"]+)", self.said())
        assert found, self.said()
        return found[1]

    def is_running(self) -> bool:
        return self._process.poll() is None

    def require_running(self) -> None:
        """AssertionError, with its exit code and all that it said, if it has ended."""
        assert self.is_running(), f"it ended with {self._process.returncode}:\n{self.said()}"

    def await_ready(self) -> Self:
        """Return once it holds its partitions."""

        def ready() -> bool:
            self.require_running()
            return "ready, partitions" in self.said()

        wait_until(ready, "the worker is ready", START_S)
        return self

    def await_end(self, timeout_s: float = START_S) -> int:
        """Its exit code, once it has ended by itself."""
        return self._process.wait(timeout_s)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """SIGTERM; AssertionError, with its exit code and all that it said, unless it ends well."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout_s)
        assert code == 0, f"it ended with {code}:\n{self.said()}"

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self.is_running():
            self.kill()


class Stage:
    """One topology, its topics on a broker, and the folders of its workers."""

    def __init__(self, bootstrap: str, folder: Path, name: str, source: str, body: str) -> None:
        self.bootstrap = bootstrap
        self._folder = folder
        self.name = name
        self.file = write_topology(folder, name, source, body)
        self.topology: Topology = load_topology(str(self.file))
        self.group = self.topology.application_id
        self.changelog = self.topology.changelog_topic

    def data_dir(self, worker: str = "a") -> Path:
        return self._folder / self.name / worker

    def worker(
        self,
        name: str = "a",
        data_dir: Path | None = None,
        *options: str,
        start: StartProcess = ForkedProcess,
    ) -> Worker:
        """A worker just started; one of the same name goes on in the same folder."""
        folder = data_dir or self.data_dir(name)
        return Worker(self.file, folder, self.bootstrap, options, start=start)

    def drain(self, name: str = "a") -> Worker:
        """Run a worker until all that can be is committed, then stop it; the worker, ended."""
        with self.worker(name).await_ready() as worker:
            self.await_settled([worker])
            worker.stop()
        return worker

    def committed(self) -> dict[int, int]:
        """The group's offsets; partitions without one count from 0."""
        with open_consumer(self.bootstrap, self.group) as consumer:
            partitions = _partitions(consumer, self.topology.events_topic)
            try:
                found = consumer.committed(partitions, timeout=10)
            except KafkaException:  # a broker that has just started coordinates nothing yet
                return {}
            return {tp.partition: max(tp.offset, 0) for tp in found}

    def read(self, topic: str) -> Records:
        return read_topic(self.bootstrap, topic)

    def emissions(self) -> dict[bytes, bytes]:
        """Output records by key; AssertionError where two of one key differ."""
        return distinct(self.read(self.topology.output_topic))

    def dead_letters(self) -> Records:
        return self.read(self.topology.dead_letter_topic)

    def late(self) -> Records:
        return self.read(self.topology.late_topic)

    def checkpoints(self) -> dict[int, Checkpoint]:
        """The newest checkpoint of each partition, as the changelog has it."""
        return {
            partition: decode_checkpoint(newest[b"p"], self.topology.state_meaning)
            for partition, records in self.read(self.changelog).items()
            if b"p" in (newest := {record.key: record.value for record in records})
        }

    def tables(self) -> Tables:
        """What a worker without a folder restores from the changelog."""
        tables: Tables = {}
        for partition, records in self.read(self.changelog).items():
            newest = {record.key: record.value for record in records}
            tables[partition] = table(
                self.topology,
                {
                    key[1:].decode(): value
                    for key, value in newest.items()
                    if key is not None and key[:1] == b"k" and value is not None
                },
            )
        return tables

    def counters(self) -> Counters:
        """Records read and what became of them, over all partitions."""
        return sum((c.counters for c in self.checkpoints().values()), Counters())

    def await_settled(self, workers: Sequence[Worker] = (), timeout_s: float = DRAIN_S) -> None:
        """Return once as much is committed as an undisturbed worker would commit: everything but
        what waits for the watermark. AssertionError, with what is committed and the last words of
        the workers, if it takes too long.
        """
        goal = undisturbed(self.topology, self.read(self.topology.events_topic)).next_offsets

        def settled() -> bool:
            for worker in workers:
                worker.require_running()
            return self.committed() == goal

        try:
            wait_until(settled, f"{self.group} has committed {goal}", timeout_s)
        except AssertionError as error:
            error.add_note(f"committed: {self.committed()}")
            for said in self._folder.glob(f"{self.name}/*.stderr"):
                error.add_note(f"{said.stem}: ... {said.read_text()[-LAST_WORDS:]}")
            raise

    def await_commit_after(self, records: int) -> None:
        """Return once more than so many records are committed, over all partitions."""
        wait_until(lambda: sum(self.committed().values()) > records, "a commit", DRAIN_S)

    def check(self, source: Records | None = None) -> "Expected":
        """Assert that emissions, letters and counters are those of an undisturbed worker."""
        expected = undisturbed(self.topology, source or self.read(self.topology.events_topic))
        assert self.counters() == expected.counters
        assert self.emissions() == expected.emissions
        assert distinct(self.dead_letters()) == expected.dead_letters
        assert distinct(self.late()) == expected.late
        return expected

    def check_traces(self) -> None:
        """Assert that what workers have written of each partition are steps of the protocol's
        model. Topics have no order between them, so emissions are only there or not.
        """
        source = self.read(self.topology.events_topic)
        emitted = {
            record.key: Written(record.offset, record.key, record.value, 0, (), None)
            for records in self.read(self.topology.output_topic).values()
            for record in records
        }
        others = distinct(self.dead_letters()) | distinct(self.late())
        for partition, records in self.read(self.changelog).items():
            own = source[partition]

            def due(
                at: int, partition: int = partition, own: list[Record] = own
            ) -> Iterable[bytes]:
                before = {partition: [one for one in own if one.offset < at]}
                return undisturbed(self.topology, before).emissions

            changelog = [
                Written(one.offset, one.key, one.value, 0, [*one.headers.items()], None, moment=1)
                for one in records
            ]
            events = [
                Event.of(one.offset, one.value or b"")
                for one in own
                if dead_letter_key(self.topology.events_topic, partition, one.offset) not in others
            ]
            span_ms = self.topology.span_length.length
            assert Trace(changelog, events, due, emitted, span_ms).check()


class Expected(NamedTuple):
    """The results of a whole topic: records by key, and what became of its records."""

    emissions: dict[bytes, bytes]
    dead_letters: dict[bytes | None, bytes | None]
    late: dict[bytes | None, bytes | None]
    counters: Counters
    next_offsets: dict[int, int]
    tables: "Tables"
    alerts: dict[bytes, bytes]


def undisturbed(topology: Topology, source: Records) -> Expected:
    """Each partition in one batch through one processor, without Kafka, Faust or a table.

    Records that still wait for the watermark are in no counter, as in a worker's checkpoints.
    """
    effects = Effects()
    counters = Counters()
    next_offsets = dict.fromkeys(source, 0)
    tables: Tables = {partition: {} for partition in source}
    places = expected_places(topology.expected, len(source))
    for partition, records in source.items():
        if not records:
            continue
        processor = PartitionProcessor(
            topology, topology.events_topic, partition, NoStates(), expected=places
        )
        some = processor.process(as_batch(topology.events_topic, partition, records))
        effects.emissions = [*effects.emissions, *some.emissions]
        effects.alerts += some.alerts
        effects.dead_letters += [
            letter._replace(detail=str(partition)) for letter in some.dead_letters
        ]
        effects.late += [letter._replace(detail=str(partition)) for letter in some.late]
        snapshot = processor.snapshot()
        assert snapshot is not None
        tables[partition] = table(topology, snapshot.states)
        next_offsets[partition] = processor.checkpoint.next_offset
        counters += processor.checkpoint.counters

    def by_key(letters: Iterable) -> dict:
        return {
            dead_letter_key(topology.events_topic, int(letter.detail), letter.offset): letter.value
            for letter in letters
        }

    return Expected(
        {key: value for key, value, _ in effects.emissions},
        by_key(effects.dead_letters),
        by_key(effects.late),
        counters,
        next_offsets,
        tables,
        {key: value for key, value, _ in effects.alerts},
    )


def table(
    topology: Topology, states: Mapping[str, bytes | None]
) -> dict[str, tuple[int, int, tuple[bytes, ...]]]:
    """What the states of a partition say that no batch boundary may show in: without those of keys
    that have left the span, which may be deleted at any time.
    """
    decoded = {key: decode_key_state(state) for key, state in states.items() if state is not None}
    newest = max((state.last_time for state in decoded.values()), default=0)
    return {
        key: (state.last_time, state.number, state.synopses)
        for key, state in decoded.items()
        if state.last_time > newest - topology.span_length.length
    }


def as_batch(topic: str, partition: int, records: Sequence[Record]) -> RecordBatch:
    return RecordBatch(
        topic,
        partition,
        np.array([record.offset for record in records], np.int64),
        [record.key for record in records],
        [record.value for record in records],
        [record.timestamp for record in records],
        0,
    )


def write_topology(folder: Path, name: str, source: str, body: str) -> Path:
    """A topology file; `body` holds the arguments after name and source."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(
        '"""A topology of a test."""\n\n'
        "from slidestat.declare.alerts import Alert\n"
        "from slidestat.declare.rankings import Ranking\n"
        "from slidestat.declare.statistics import Count, Distinct, Mean, Quantiles, Sum, TopItems\n"
        "from slidestat.declare.topology import Topology\n\n"
        f"topology = Topology(name={name!r}, source={source!r}, {body})\n"
    )
    return file


def events(
    count: int, *, start: int = 0, keys: int = 40, late_share: float = 0.0, jitter_ms: int = 0
) -> list[tuple[bytes, bytes]]:
    """`count` events from the `start`-th on, the same ones each time: (key, JSON) of Kafka records.

    10 ms lie between two events; a share of them is a minute older.
    """
    rng = np.random.default_rng((7, start))
    who = rng.integers(0, keys, count)
    times = 1_700_000_000_000 + 10 * np.arange(start, start + count)
    times -= rng.integers(0, jitter_ms + 1, count)
    times -= 60_000 * (rng.random(count) < late_share)
    values = rng.integers(0, 100_000, count)
    return [
        (b"k%d" % k, b'{"key":"k%d","time":%d,"value":%d.%03d}' % (k, t, v // 1000, v % 1000))
        for k, t, v in zip(who.tolist(), times.tolist(), values.tolist(), strict=True)
    ]


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    partition: int = -1,
    headers: list[tuple[str, bytes]] | None = None,
    **settings: str | int | bool,
) -> None:
    """Send records, all with the same headers, and wait for their acknowledgement; AssertionError
    if one is refused.
    """
    refused: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
            "message.max.bytes": 8 * 2**20,
            **settings,
        }
    )
    for key, value in records:
        producer.produce(topic, value, key, partition, headers=headers, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert not refused


def read_topic(bootstrap: str, topic: str) -> Records:
    """All records of a topic by partition, up to its end now."""
    with open_consumer(bootstrap, "none") as consumer:
        partitions = _partitions(consumer, topic)
        found: Records = {tp.partition: [] for tp in partitions}
        unread = set(found)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in found])
        deadline = time.monotonic() + 30
        while unread:
            assert time.monotonic() < deadline, f"cannot read {topic} to its end"
            for message in consumer.consume(20_000, 0.05):
                deadline = time.monotonic() + 30
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unread.discard(message.partition())
                    continue
                found[message.partition()].append(
                    Record(
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.timestamp()[1],
                        dict(message.headers() or []),
                    )
                )
    return found


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    with open_consumer(bootstrap, "none") as consumer:
        return {
            tp.partition: consumer.get_watermark_offsets(tp, timeout=10)[1]
            for tp in _partitions(consumer, topic)
        }


def set_offsets(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """What an administrator does with a group whose workers are down."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition(topic, p, offset) for p, offset in offsets.items()]
    request = ConsumerGroupTopicPartitions(group, wanted)
    admin.alter_consumer_group_offsets([request])[group].result(30)


def distinct(records: Records) -> dict[bytes, bytes]:
    """Values by key; AssertionError where two records of one key differ."""
    found: dict[bytes, bytes] = {}
    for partition in records.values():
        for record in partition:
            assert record.key is not None
            assert found.setdefault(record.key, record.value) == record.value  # type: ignore[arg-type]
    return found


@contextmanager
def open_consumer(bootstrap: str, group: str) -> Iterator[Consumer]:
    """A consumer that joins no group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    found = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    return [TopicPartition(topic, partition) for partition in sorted(found)]
