"""What a worker writes to a changelog that another has taken over does no harm.

A worker frozen at the right moment does so; here its records, which are those that it wrote before,
are written once more in its stead.
"""

import shutil

from confluent_kafka import Producer

from slidestat.engine.checkpoints.checkpoint import CHECKPOINT_KEY
from slidestat.faust.fencing import epoch_header, epoch_of
from tests.broker.conftest import MakeStage
from tests.broker.restarts.test_restarts import WITH_LATENESS, feed
from tests.broker.workers import Records, Stage, events, produce, wait_until


def write_again(stage: Stage, records: Records, epoch: int | None = None) -> None:
    """Put changelog records behind all others, under their own epoch if no other is given."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "log_level": 0})
    for partition, some in records.items():
        for record in some:
            headers = epoch_header(epoch) if epoch else list(record.headers.items())
            producer.produce(stage.changelog, record.value, record.key, partition, headers=headers)
    assert producer.flush(30) == 0


def newest_epochs(stage: Stage) -> dict[int, set[int]]:
    """Of the records that a compacting broker would keep, by partition."""
    return {
        partition: {
            epoch_of(list(record.headers.items()))
            for record in {record.key: record for record in records}.values()
        }
        for partition, records in stage.read(stage.changelog).items()
    }


def test_a_sleepers_states_are_not_restored(make_stage: MakeStage) -> None:
    """States of a worker that has lost its partitions, written behind those of the worker that took
    them over: one that restores its tables from the changelog counts everything once. (With the
    checkpoint, which is written last, it would at least know how old they are.)
    """
    stage = make_stage(partitions=2, body=WITH_LATENESS)
    feed(stage, 0, 20_000)
    stage.drain("zombie")
    asleep = stage.read(stage.changelog)
    feed(stage, 20_000, 20_000)
    stage.drain("owner")
    write_again(
        stage, {p: [r for r in some if r.key != CHECKPOINT_KEY] for p, some in asleep.items()}
    )
    feed(stage, 40_000, 5_000)
    stage.drain("third")
    stage.check()
    stage.check_traces()


def test_an_owner_writes_again_what_a_sleeper_wrote_over(make_stage: MakeStage) -> None:
    """The owner finds a zombie's records among its own at its next flush, and writes its states
    behind them: compaction keeps the owner's, and its own folder knows nothing of it.
    """
    stage = make_stage(partitions=2, body=WITH_LATENESS)
    feed(stage, 0, 20_000)
    stage.drain("zombie")
    asleep = stage.read(stage.changelog)
    with stage.worker("owner").await_ready() as owner:
        feed(stage, 20_000, 20_000)
        stage.await_settled([owner])
        write_again(stage, asleep)
        # Most of the keys that the zombie wrote have no events of their own any more.
        produce(stage.bootstrap, stage.topology.source, events(5_000, start=40_000, keys=6))
        stage.await_settled([owner])
        owner.stop()
    assert all(len(epochs) == 1 for epochs in newest_epochs(stage).values())
    expected = stage.check()
    assert stage.tables() == expected.tables
    shutil.rmtree(stage.data_dir("owner"))
    feed(stage, 45_000, 5_000)
    stage.drain("owner")
    stage.check()


def test_a_sleeper_writes_no_table(make_stage: MakeStage) -> None:
    """A worker that finds a newer owner's records among its own commits nothing more; where no
    rebalance follows, for the other is in no group with it, it ends and says so.
    """
    stage = make_stage(partitions=2, body=WITH_LATENESS)
    feed(stage, 0, 20_000)
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        committed = stage.committed()
        newest = stage.read(stage.changelog)
        write_again(stage, {p: some[-1:] for p, some in newest.items()}, epoch=1_000_000)
        feed(stage, 20_000, 20_000)
        wait_until(lambda: not worker.is_running(), "the worker has ended", 120)
        assert worker.await_end() == 2
        assert "Another worker writes to this worker's changelog" in worker.said()
        assert stage.committed() == committed
