"""What a broker deletes before it is read stops a worker, or is counted and said."""

import json
import signal

import numpy as np
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from slidestat.doctor.examination import unread_records
from slidestat.doctor.finding import Finding, Verdict
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.kafka.connection import require_broker
from slidestat.schemas.emission import Emission
from tests.broker.away.test_worker_errors import complaint
from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_observed import get
from tests.broker.workers import Stage, Worker, events, produce, wait_until

START = 1_700_000_000_000
SHORT = (
    'span="2m", every="20s", windows=("30s", "2m"), ahead="0s", lateness="1s",\n'
    "    statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)),\n"
)


def delete_before(admin: AdminClient, topic: str, offset: int, partition: int = 0) -> None:
    """As retention does, at once."""
    place = TopicPartition(topic, partition, offset)
    (deleted,) = admin.delete_records([place]).values()
    assert deleted.result().low_watermark == offset


def send(stage: Stage, first: int, last: int) -> None:
    """Events `first` to `last` - 1, their records' timestamps those of the events."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "enable.idempotence": True})
    for i, (key, value) in enumerate(events(last - first, start=first), first):
        while len(producer) > 50_000:
            producer.poll(0.1)
        producer.produce(stage.topology.source, value, key, timestamp=START + 10 * i)
    assert producer.flush(60) == 0


def emitted(stage: Stage) -> list[Emission]:
    return [JsonCodec().decode(value) for value in stage.emissions().values()]


def goes_on(stage: Stage) -> Worker:
    """A worker that may lose records."""
    return stage.worker("a", None, "--allow-loss")


def test_records_deleted_while_the_worker_was_stopped(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """24,000 are gone: the worker says which and stops, nothing is committed or written. With
    --allow-loss they are counted, and each count that does not hold for the whole topic is in an
    emission that says so, neither before nor long after.
    """
    stage = make_stage(partitions=1, body=SHORT)
    source = stage.topology.source
    send(stage, 0, 8_000)
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        worker.stop()
    before = stage.emissions()
    (read_before,) = stage.committed().values()
    send(stage, 8_000, 72_000)
    delete_before(admin, source, 32_000)
    with stage.worker() as worker:
        said = complaint(worker)
    assert f"{read_before:,} to 31,999 of {source!r} partition 0 are gone" in said
    assert "--allow-loss" in said
    assert stage.committed() == {0: read_before}
    assert stage.emissions() == before
    found = examined(stage)
    assert found.verdict is Verdict.BAD
    assert f"{read_before:,} to 31,999 of {source!r} partition 0 are gone" in found.found

    lost = 32_000 - read_before
    with goes_on(stage).await_ready() as worker:
        wait_until(lambda: stage.committed()[0] > 71_000, "all is read", 60)
        status = json.loads(get(f"{worker.url}/topologies/{stage.name}/status"))
        metrics = get(f"{worker.url}/metrics").decode()
        said = worker.said()
        worker.stop()
    assert f"{lost:,} lost" in said
    assert "are gone, and counted as lost" in said
    (partition,) = status["workers"][0]["partitions"]
    assert partition["lost"] == lost
    assert partition["read"] == partition["counted"] + partition["dead"] + partition["late"]
    labels = f'partition="0",topology="{stage.name}"'
    assert f"slidestat_lost_records_total{{{labels}}} {lost}.0" in metrics
    counters = stage.counters()
    assert counters.lost == lost
    assert counters.read == counters.counted == stage.checkpoints()[0].next_offset - lost

    # The gap is at most from the 7,900th to the 32,000th event, of 10 ms each.
    first, until = START + 79_000, START + 320_000
    marked, whole = [], []
    everything = [*events(8_000), *events(64_000, start=8_000)]
    for value in stage.emissions().values():
        emission = JsonCodec().decode(value)
        end = emission.window_end_ms
        if emission.lost is None:
            whole.append(end)
            check_counts(emission, everything)
            continue
        marked.append(end)
        assert emission.lost.records == lost
        assert first - 2_000 <= emission.lost.from_ms <= first + 1_000
        assert emission.lost.until_ms is not None
        # The lateness and the step of the clock, of a second each, lie between.
        assert until <= emission.lost.until_ms <= until + 2_000
        assert emission.lost.from_ms < end <= emission.lost.until_ms + 120_000
    assert min(whole) < first < min(marked) < max(marked) < max(whole)
    assert examined(stage).verdict is Verdict.GOOD
    # It stays with the state: a worker that is started anew neither stops nor counts it twice.
    emissions = stage.emissions()
    with stage.worker().await_ready() as worker:
        worker.stop()
    assert stage.counters().lost == lost
    assert stage.emissions() == emissions


def examined(stage: Stage) -> Finding:
    """What `slidestat doctor` says of the source's records."""
    topology = stage.topology
    (found,) = unread_records(stage.bootstrap, topology, require_broker(stage.bootstrap))
    return found


def check_counts(emission: Emission, everything: list[tuple[bytes, bytes]]) -> None:
    """The counts of an emission hold for all that was sent, what is gone included."""
    times = _times_of(emission.key, everything)
    for figure in emission.figures:
        if figure.statistic == "count":
            assert figure.window_ms is not None
            end = emission.window_end_ms
            exact = np.searchsorted(times, end) - np.searchsorted(times, end - figure.window_ms)
            assert figure.lower is not None
            assert figure.upper is not None
            assert figure.lower <= exact <= figure.upper


_times: dict[str, np.ndarray] = {}


def _times_of(key: str, everything: list[tuple[bytes, bytes]]) -> np.ndarray:
    if key not in _times:
        mine = [START + 10 * i for i, (k, _) in enumerate(everything) if k == key.encode()]
        _times[key] = np.array(mine)
    return _times[key]


def test_records_deleted_under_a_running_worker(make_stage: MakeStage, admin: AdminClient) -> None:
    """A worker that stood still while the broker deleted what came next stops by itself, whether or
    not anything is left to read.
    """
    for rest in (5_000, 0):
        stage = make_stage(partitions=1, name=f"rest-{rest}")
        source = stage.topology.source
        produce(stage.bootstrap, source, events(10_000))
        with stage.worker().await_ready() as worker:
            stage.await_settled([worker])
            worker.signal(signal.SIGSTOP)
            # The first answers the fetch that is under way; it would bring the others as well.
            produce(stage.bootstrap, source, events(1, start=10_000))
            produce(stage.bootstrap, source, events(9_999, start=10_001))
            delete_before(admin, source, 20_000 - rest)
            worker.signal(signal.SIGCONT)
            said = complaint(worker)
        assert f"to {20_000 - rest - 1:,} of {source!r} partition 0 are gone" in said
        assert stage.counters().read < 20_000 - rest


def test_a_loss_behind_which_nothing_comes_is_counted(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """All that was unread is gone, and nothing new comes: it is counted all the same, and windows
    that end later may lack it until a record says how late it can be.
    """
    stage = make_stage(partitions=1, body=SHORT)
    source = stage.topology.source
    send(stage, 0, 5_000)
    with stage.worker().await_ready() as worker:
        wait_until(lambda: stage.committed()[0] > 4_000, "the beginning is read", 30)
        worker.stop()
    send(stage, 5_000, 10_000)
    delete_before(admin, source, 10_000)
    with goes_on(stage).await_ready() as worker:
        wait_until(lambda: stage.counters().lost, "the loss is stored", 30)
        loss = stage.checkpoints()[0].loss
        assert loss is not None
        assert loss.is_open
        worker.kill()
    send(stage, 10_000, 15_000)
    with goes_on(stage).await_ready() as worker:
        wait_until(lambda: stage.committed()[0] > 14_000, "what came is read", 30)
        worker.stop()
    loss = stage.checkpoints()[0].loss
    assert loss is not None
    assert not loss.is_open
    assert loss.records == stage.counters().lost > 5_000
    assert [e for e in emitted(stage) if e.lost and e.lost.until_ms is not None]


def test_a_partition_that_was_never_read_begins_where_it_begins(
    make_stage: MakeStage, admin: AdminClient
) -> None:
    """What was deleted before a topology came is no loss of it."""
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(10_000))
    delete_before(admin, source, 4_000)
    stage.drain()
    assert stage.counters().read == 6_000
    assert stage.counters().lost == 0
    assert not [emission for emission in emitted(stage) if emission.lost]


def test_transaction_marks_are_no_loss(make_stage: MakeStage, admin: AdminClient) -> None:
    """Aborted records and marks leave holes in the offsets; those that were passed over are gone
    later on without harm.
    """
    stage = make_stage(partitions=1)
    source = stage.topology.source
    producer = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": source})
    producer.init_transactions(60)

    def transaction(start: int) -> None:
        producer.begin_transaction()
        for key, value in events(1_000, start=start):
            producer.produce(source, value, key)
        producer.flush(60)
        if start == 2_000:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)

    with stage.worker().await_ready() as worker:
        for start in range(0, 4_000, 1_000):
            transaction(start)
        wait_until(lambda: stage.counters().read == 3_000, "what was committed is read", 30)
        delete_before(admin, source, 4_004)
        transaction(4_000)
        wait_until(lambda: stage.counters().read == 4_000, "what comes is read", 30)
        worker.stop()
    assert stage.counters().lost == 0
