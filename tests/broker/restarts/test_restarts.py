"""Nothing that happens to a group's workers shows in what they wrote."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event

from tests.broker.conftest import MakeStage
from tests.broker.workers import Stage, events, produce, set_offsets

# With a lateness events wait in memory, and reading begins again before what was processed.
WITH_LATENESS = (
    'span="10m", every="20s", windows=("1m", "10m"), lateness="5s", '
    "statistics=(Count(epsilon=0.1), Sum(epsilon=0.1))"
)
WITHOUT_LATENESS = WITH_LATENESS.replace('lateness="5s", ', "")


def feed(stage: Stage, start: int, count: int) -> None:
    produce(
        stage.bootstrap,
        stage.topology.source,
        events(count, start=start, late_share=0.001, jitter_ms=400),
    )


def test_runs_one_after_the_other_equal_one_run(make_stage: MakeStage) -> None:
    """A worker that goes on in its folder, a worker in an empty folder (state from the changelog)
    and one killed midway write what a single worker would, and commits go on after each start.
    """
    stage = make_stage(partitions=3, body=WITH_LATENESS)
    feed(stage, 0, 20_000)
    with stage.worker() as worker:
        stage.await_settled([worker])
        worker.stop()
    first = stage.committed()
    stage.check()

    feed(stage, 20_000, 20_000)
    with stage.worker() as worker:
        stage.await_settled([worker])
        worker.kill()
    second = stage.committed()
    assert all(second[p] > first[p] for p in first)
    stage.check()

    shutil.rmtree(stage.data_dir())
    feed(stage, 40_000, 20_000)
    with stage.worker() as worker:
        stage.await_settled([worker])
        worker.stop()
    third = stage.committed()
    assert all(third[p] > second[p] for p in first)
    expected = stage.check()
    assert expected.late
    assert len(expected.emissions) > 1_000


def test_a_worker_killed_in_a_backlog_repeats_and_loses_nothing(make_stage: MakeStage) -> None:
    """SIGKILL while it reads, twice, once with the folder lost as well."""
    stages = [
        make_stage(partitions=2, name="eager", body=WITHOUT_LATENESS),
        make_stage(partitions=2, name="lateness", body=WITH_LATENESS),
    ]
    for stage in stages:
        feed(stage, 0, 100_000)
    for attempt in range(2):
        before = [sum(stage.committed().values()) for stage in stages]
        with ExitStack() as workers:
            # Two groups at once, to wait only once until the broker misses the killed ones.
            for stage in stages:
                workers.enter_context(stage.worker())
            for stage, offsets in zip(stages, before, strict=True):
                stage.await_commit_after(offsets)
        for stage in stages:
            if attempt == 1:
                shutil.rmtree(stage.data_dir())
            feed(stage, 100_000 + 30_000 * attempt, 30_000)
    for stage in stages:
        stage.drain()
        stage.check()


def test_one_hot_key_loses_no_event_to_a_kill(make_stage: MakeStage) -> None:
    """All events of one key, whose state is written at every flush: killed in the middle, with its
    folder and without, the counts go on from where they were. (faust-streaming/faust 333)
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(200_000, keys=1))
    for keep_folder in (True, False):
        before = sum(stage.committed().values())
        with stage.worker() as worker:
            stage.await_commit_after(before)
            worker.kill()
        if not keep_folder:
            shutil.rmtree(stage.data_dir())
        produce(
            stage.bootstrap,
            stage.topology.source,
            events(50_000, start=250_000 - 50_000 * keep_folder, keys=1),
        )
    stage.drain()
    assert stage.check().counters.counted == 300_000


def test_workers_that_join_and_leave_share_the_work_exactly(make_stage: MakeStage) -> None:
    """A second worker joins in a backlog and is stopped, a third joins and is killed; then the
    counters add up, and the emissions are those of a single worker, byte for byte.
    """
    stages = [
        make_stage(partitions=4, name="eager", body=WITHOUT_LATENESS),
        make_stage(partitions=4, name="lateness", body=WITH_LATENESS),
    ]
    for stage in stages:
        feed(stage, 0, 100_000)
    with ExitStack() as workers:
        first = [workers.enter_context(stage.worker("a")) for stage in stages]
        second = [workers.enter_context(stage.worker("b")) for stage in stages]
        for stage, worker in zip(stages, second, strict=True):
            worker.await_ready()
            feed(stage, 100_000, 40_000)
            stage.await_commit_after(0)
            worker.stop()

        third = [workers.enter_context(stage.worker("c")) for stage in stages]
        for stage, worker in zip(stages, third, strict=True):
            worker.await_ready()
            feed(stage, 140_000, 40_000)
            worker.kill()

        for stage, worker in zip(stages, first, strict=True):
            stage.await_settled([worker])
            worker.stop()
    for stage in stages:
        stage.check()


def test_workers_that_start_together_read_from_the_first_record(make_stage: MakeStage) -> None:
    """The group's first rebalances fall into its first fetches, before anything is committed: what
    they interrupt is read again, each partition from its beginning.
    """
    stage = make_stage(partitions=4, body=WITH_LATENESS)
    feed(stage, 0, 60_000)
    with stage.worker("a") as first, stage.worker("b") as second:
        stage.await_settled([first, second])
        for worker in (first, second):
            worker.stop()
    stage.check()


def test_workers_that_come_and_go_in_a_stream_lose_nothing(make_stage: MakeStage) -> None:
    """While events keep coming, a second worker joins and leaves, over and over: no batch that a
    rebalance overtakes is lost.
    """
    stage = make_stage(partitions=3, body=WITH_LATENESS)
    fed = 0
    stop = Event()

    def keep_feeding() -> None:
        nonlocal fed
        while not stop.wait(0.2):
            feed(stage, fed, 15_000)
            fed += 15_000

    with stage.worker("a").await_ready() as first, ThreadPoolExecutor(1) as feeder:
        feeding = feeder.submit(keep_feeding)
        try:
            for _ in range(3):
                with stage.worker("b").await_ready() as second:
                    second.stop()
        finally:
            stop.set()
        feeding.result()
        stage.await_settled([first])
        first.stop()
    stage.check()


def test_offsets_set_back_count_nothing_twice(make_stage: MakeStage) -> None:
    """With the group's offsets set to 0, a worker passes over what its state has, writes nothing
    again, and commits the end.
    """
    stage = make_stage(partitions=2)
    feed(stage, 0, 20_000)
    stage.drain()
    written = stage.read(stage.topology.output_topic)
    set_offsets(stage.bootstrap, stage.group, stage.topology.source, {0: 0, 1: 0})
    stage.drain()
    assert stage.read(stage.topology.output_topic) == written
    stage.check()

    set_offsets(stage.bootstrap, stage.group, stage.topology.source, {0: 0, 1: 0})
    feed(stage, 20_000, 20_000)
    stage.drain()
    stage.check()


def test_offsets_set_forward_lose_nothing(make_stage: MakeStage) -> None:
    """With the group's offsets set forward, a worker goes on from where its state ends: a commit
    that is ahead of a state looks the same when a topology was left out for a while.
    """
    stage = make_stage(partitions=1)
    feed(stage, 0, 10_000)
    stage.drain()
    feed(stage, 10_000, 10_000)
    set_offsets(stage.bootstrap, stage.group, stage.topology.source, {0: 15_000})
    feed(stage, 20_000, 10_000)
    stage.drain()
    stage.check()


def test_topologies_over_one_topic_do_not_disturb_each_other(make_stage: MakeStage) -> None:
    """Two topologies, each with its worker, at once: each has its own offsets and results."""
    one = make_stage(partitions=2, name="one")
    two = make_stage(body=WITH_LATENESS, name="two", source=one.topology.source)
    feed(one, 0, 30_000)
    with one.worker() as first, two.worker() as second:
        one.await_settled([first])
        first.stop()
        feed(one, 30_000, 5_000)
        two.await_settled([second])
        second.stop()
    two.check()
    assert one.counters().read == 30_000


def test_sigterm_ends_a_busy_worker_with_its_work_committed(make_stage: MakeStage) -> None:
    """In a backlog SIGTERM ends a worker within 10 s with exit code 0, and the offsets committed
    are those that its state has reached.
    """
    stage = make_stage(partitions=2)
    feed(stage, 0, 200_000)
    with stage.worker() as worker:
        stage.await_commit_after(0)
        worker.stop(10)
    reached = {p: checkpoint.next_offset for p, checkpoint in stage.checkpoints().items()}
    assert {p: offset for p, offset in stage.committed().items() if offset} == reached
    stage.drain()
    stage.check()
