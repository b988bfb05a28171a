"""With `exactly_once` a reader of committed records sees each one once, whatever was killed."""

import signal
import time

from tests.broker.conftest import MakeStage
from tests.broker.restarts.test_restarts import feed
from tests.broker.workers import (
    DRAIN_S,
    Stage,
    Worker,
)

BODY = (
    'span="10m", every="20s", windows=("1m", "10m"), lateness="5s", exactly_once=True,\n'
    "    statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)),\n"
    '    alerts=(Alert(name="many", when="count >= 100", window="1m"),),\n'
)


def assert_each_once(stage: Stage) -> None:
    """What committed readers see are the emissions, alerts and letters of an undisturbed run."""
    expected = stage.check()
    for topic, of in (
        (stage.topology.output_topic, expected.emissions),
        (stage.topology.alert_topic, expected.alerts),
        (stage.topology.dead_letter_topic, expected.dead_letters),
        (stage.topology.late_topic, expected.late),
    ):
        assert topic is not None
        seen = [(r.key, r.value) for some in stage.read(topic).values() for r in some]
        assert len(seen) == len(of)
        assert dict(seen) == of
    assert expected.emissions
    assert expected.alerts
    assert expected.late


def test_killed_and_frozen_workers_repeat_nothing(make_stage: MakeStage) -> None:
    """Two workers are killed in a backlog, one is frozen for longer than its session and wakes."""
    stage = make_stage(partitions=2, body=BODY)
    feed(stage, 0, 60_000)
    for start in (60_000, 90_000):
        with stage.worker("a").await_ready() as worker:
            before = sum(stage.committed().values())
            stage.await_commit_after(before)
            feed(stage, start, 30_000)
            time.sleep(0.3)
            worker.kill()
    with stage.worker("a").await_ready() as zombie:
        feed(stage, 120_000, 30_000)
        time.sleep(0.5)
        zombie.signal(signal.SIGSTOP)
        with stage.worker("b").await_ready() as owner:
            feed(stage, 150_000, 30_000)
            stage.await_settled([owner], timeout_s=2 * DRAIN_S)
            zombie.signal(signal.SIGCONT)
            feed(stage, 180_000, 30_000)
            stage.await_settled([owner], timeout_s=2 * DRAIN_S)
            owner.stop()
        stage.await_settled([zombie], timeout_s=2 * DRAIN_S)
        zombie.stop()
    assert_each_once(stage)


def test_a_worker_of_several_topologies_stands_by(make_stage: MakeStage, topic_name: str) -> None:
    """Of two workers one is killed in a backlog. What the other has followed of its changelogs, of
    a topology with `exactly_once` and of one without, is as far as both were committed: the one
    repeats nothing, and the other is as it would be alone.
    """
    once = make_stage(name="once", body=f"{BODY}    group={topic_name!r}")
    plain_body = BODY.replace(" exactly_once=True,", f" group={topic_name!r},")
    plain = make_stage(name="plain", source=once.topology.source, body=plain_body)
    declared = [str(once.file), str(plain.file)]

    def worker(name: str) -> Worker:
        return Worker(declared, once.data_dir(name), once.bootstrap)

    feed(once, 0, 10_000)
    with worker("a").await_ready() as one, worker("b").await_ready() as two:
        once.await_settled([one, two])
        feed(once, 10_000, 40_000)
        once.await_commit_after(sum(once.committed().values()))
        two.kill()
        feed(once, 50_000, 10_000)
        once.await_settled([one], 2 * DRAIN_S)
        one.stop()
    assert_each_once(once)
    plain.check()
