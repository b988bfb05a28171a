"""Event time on a real broker: silent keys, idle partitions, clocks ahead, shared workers."""

import msgspec

from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason
from slidestat.schemas.emission import Emission
from tests.broker.conftest import MakeStage
from tests.broker.workers import Stage, Worker, events, produce, undisturbed, wait_until

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000

_decode = msgspec.json.Decoder(Emission).decode


def event(key: str, time: int) -> tuple[bytes, bytes]:
    """An event's Kafka key and JSON."""
    return key.encode(), b'{"key":"%b","time":%d,"value":1}' % (key.encode(), time)


def emissions_of(stage: Stage) -> list[Emission]:
    """All records of the output topic."""
    partitions = stage.read(stage.topology.output_topic).values()
    return [_decode(record.value or b"") for records in partitions for record in records]


def test_silent_keys_leave_the_changelog(make_stage: MakeStage) -> None:
    """A thousand keys with one event each, then an hour of another key: each has a last emission
    that says that its windows are empty, and its state is deleted, also for whoever recovers.
    """
    stage = make_stage(partitions=1)
    keys = [f"k{i}" for i in range(1_000)]
    produce(stage.bootstrap, stage.topology.source, [event(key, START_MS) for key in keys])
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        for i in range(3):
            later = [event("busy", START_MS + HOUR_MS + i * 60_000)] * 9
            produce(stage.bootstrap, stage.topology.source, later)
            stage.await_settled([worker])

        def kept() -> set[bytes]:
            newest = {r.key: r.value for r in stage.read(stage.changelog)[0]}
            return {key or b"" for key, value in newest.items() if value is not None}

        # A deletion is written once a restart would not come upon the key's events again.
        wait_until(lambda: kept() == {b"f", b"p", b"kbusy"}, "the keys are deleted", 30)
        worker.stop()
    last = {e.key: e for e in emissions_of(stage)}
    for key in keys:
        assert [f.estimate for f in last[key].figures] == [0.0] * 4
    # A worker with an empty folder recovers from the changelog, and makes no more of it.
    produce(stage.bootstrap, stage.topology.source, [event("k7", START_MS + 3 * HOUR_MS)])
    stage.drain("b")
    stage.check()


def test_an_idle_partition_emits_provisionally(make_stage: MakeStage) -> None:
    """Of events of a minute ago the watermark has passed no tick; after two idle seconds their
    figures are there, and are replaced when it passes.
    """
    stage = make_stage(
        partitions=1,
        body='span="10m", every="20s", idle="2s", statistics=(Count(epsilon=0.1),)',
    )
    produce(stage.bootstrap, stage.topology.source, [event("a", START_MS)] * 3)
    with stage.worker().await_ready() as worker:
        wait_until(lambda: emissions_of(stage), "a provisional emission", 60)
        # Those behind it are of windows that have emptied since.
        first, *emptied = emissions_of(stage)
        assert first.provisional
        assert all(one.provisional for one in emptied)
        assert (first.key, first.figures[0].estimate) == ("a", 3)
        produce(stage.bootstrap, stage.topology.source, [event("a", START_MS + 1)])
        produce(stage.bootstrap, stage.topology.source, [event("b", START_MS + 60_000)] * 5)

        def final() -> list[Emission]:
            return [e for e in emissions_of(stage) if not e.provisional and e.key == "a"]

        wait_until(final, "the emission that replaces it", 30)
        worker.stop()
    assert (final()[0].window_end_ms, final()[0].figures[0].estimate) == (first.window_end_ms, 4)


def test_a_restarted_worker_looks_ahead_without_new_events(make_stage: MakeStage) -> None:
    """An idle partition's figures are owed whoever holds it: also by a worker to which it has
    brought nothing at all.
    """
    stage = make_stage(
        partitions=1,
        body='span="10m", every="20s", idle="15s", statistics=(Count(epsilon=0.1),)',
    )
    produce(stage.bootstrap, stage.topology.source, [event("a", START_MS)] * 3)
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        worker.stop()
    assert emissions_of(stage) == []
    with stage.worker().await_ready() as worker:
        wait_until(lambda: emissions_of(stage), "a provisional emission", 60)
        worker.stop()
    first, *emptied = emissions_of(stage)
    assert first.provisional
    assert all(one.provisional for one in emptied)
    assert (first.key, first.figures[0].estimate) == ("a", 3)


def test_a_clock_that_is_ahead_does_not_move_the_watermark(make_stage: MakeStage) -> None:
    """Its event is a dead letter that says so; what comes after it is counted."""
    stage = make_stage(partitions=1)
    ahead = [event("a", START_MS), event("a", 4_000_000_000_000), event("a", START_MS + 1)]
    produce(stage.bootstrap, stage.topology.source, ahead)
    stage.drain()
    assert stage.counters().counted == 2
    (letter,) = stage.dead_letters()[0]
    headers = DeadLetterHeaders.decode(letter.headers.items())
    assert (headers.reason, headers.offset) == (Reason.FROM_THE_FUTURE, 1)
    assert "ms after the record's own timestamp" in headers.detail


def test_topologies_of_a_group_share_a_worker(make_stage: MakeStage, topic_name: str) -> None:
    """Two of one source: each writes what it would write alone, over a restart too; what is
    committed is what both have settled.
    """
    body = f'span="10m", every="20s", statistics=(Count(epsilon=0.1),), group="{topic_name}"'
    one = make_stage(name="one", body=f'{body}, lateness="30s"')
    other = make_stage(name="other", source=one.topology.source, body=body)
    for start in (0, 3_000):
        produce(one.bootstrap, one.topology.source, events(3_000, start=start, late_share=0.01))
        # The one with a lateness waits for the watermark, so it is the one that is behind.
        goal = undisturbed(one.topology, one.read(one.topology.source)).next_offsets
        declared = [str(one.file), str(other.file)]
        with Worker(declared, one.data_dir("shared"), one.bootstrap).await_ready() as worker:
            wait_until(lambda goal=goal: one.committed() == goal, "both are settled", 60)
            worker.stop()
    one.check()
    other.check()


def test_topologies_of_two_groups_do_not_share_a_worker(make_stage: MakeStage) -> None:
    """The error names both, and what to do."""
    one = make_stage(name="one")
    other = make_stage(name="other", source=one.topology.source)
    with Worker([str(one.file), str(other.file)], one.data_dir(), one.bootstrap) as worker:
        assert worker.await_end() == 2
        assert "differ in their group" in worker.said()
        assert "a worker each" in worker.said()


def test_a_topology_that_was_left_out_or_is_new_misses_nothing(
    make_stage: MakeStage, topic_name: str
) -> None:
    """One runs alone for a while, then with one that was left out and one that never ran: what is
    committed is ahead of both, and all records reach them.
    """
    body = f'span="10m", every="20s", statistics=(Count(epsilon=0.1),), group="{topic_name}"'
    one = make_stage(name="one", body=body)
    source = one.topology.source
    stages = [one, *(make_stage(name=name, source=source, body=body) for name in ("two", "three"))]
    for start, together in ((0, 2), (2_000, 1), (4_000, 3)):
        produce(one.bootstrap, source, events(2_000, start=start))
        goal = undisturbed(one.topology, one.read(source)).next_offsets
        declared = [str(stage.file) for stage in stages[:together]]
        with Worker(declared, one.data_dir("shared"), one.bootstrap).await_ready() as worker:
            newest = stages[together - 1]

            def settled(stage: Stage = newest, goal: dict[int, int] = goal) -> bool:
                return {p: c.next_offset for p, c in stage.checkpoints().items()} == goal

            wait_until(settled, "all is read", 60)
            worker.stop()
    for stage in stages:
        stage.check()
