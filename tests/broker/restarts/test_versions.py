"""Two versions of a topology side by side, and the swap of the one for the other."""

from pathlib import Path

from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_queries import get
from tests.broker.workers import (
    DRAIN_S,
    Stage,
    Worker,
    distinct,
    events,
    produce,
    undisturbed,
    wait_until,
)

OLD = (
    'span="10m", every="20s", windows=("1m", "10m"), lateness="5s",\n'
    "    statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)),\n"
)
NEW = (
    'span="5m", every="20s", windows=("1m", "5m"), lateness="2s",\n'
    "    statistics=(Count(epsilon=0.05), Sum(epsilon=0.1)),\n"
)


def watermarks(worker: Worker, stage: Stage) -> dict[int, int]:
    """How far the partitions have come, as the worker's status tells."""
    status, body = get(worker.url, f"/topologies/{stage.name}/status")
    assert status == 200, body
    (told,) = body["workers"]
    return {p["partition"]: p["watermark_ms"] or 0 for p in told["partitions"]}


def newest(stage: Stage, topic: str) -> dict[bytes | None, bytes | None]:
    """What compaction leaves of a topic, or an upsert."""
    records = [record for partition in stage.read(topic).values() for record in partition]
    return {record.key: record.value for record in records}


def test_a_new_version_takes_the_old_ones_place(make_stage: MakeStage, tmp_path: Path) -> None:
    """Another span, lateness and error run beside the old ones, from the earliest record on, and
    the old ones do not notice. Then the new version is stopped, the old one when its watermarks
    have passed the other's windows, and the new one goes on without `output`: from its own state,
    each event counted once; and where the old one wrote there is one series of emissions, the old
    one's up to where the new one stopped, then the new one's, without a gap.
    """
    old = make_stage(body=OLD)
    own = f'    group="{old.name}-2",\n'
    beside = f'    output="{old.name}-2",\n'
    source = old.topology.source
    new = Stage(old.bootstrap, tmp_path / "new", old.name, source, NEW + own + beside)
    fed = 0

    def feed(count: int) -> None:
        nonlocal fed
        some = events(count, start=fed, jitter_ms=900)
        some[count // 2] = (b"k0", b"no event")
        produce(old.bootstrap, source, some)
        fed += count

    feed(20_000)
    with old.worker() as first, new.worker() as second:
        first.await_ready()
        second.await_ready()
        feed(10_300)
        old.await_settled([first])
        new.await_settled([second])
        old.check()
        apart = new.check()
        second.stop()
        written = new.read(f"{old.name}-2-statistics")
        ends = {p: max(record.timestamp for record in records) for p, records in written.items()}
        # With its longer lateness the old version is behind the new one, where both have read all.
        assert all(watermarks(first, old)[p] < end for p, end in ends.items())
        feed(3_000)
        wait_until(
            lambda: all(watermarks(first, old)[p] >= end for p, end in ends.items()),
            "the old version has passed the new one",
            DRAIN_S,
        )
        old.await_settled([first])
        first.stop()
    before = old.check()

    feed(10_000)
    new = Stage(old.bootstrap, tmp_path / "new", old.name, source, NEW + own)
    new.drain()
    expected = undisturbed(new.topology, new.read(source))
    assert new.tables() == expected.tables
    assert new.counters() == expected.counters
    assert expected.counters.dead == 4
    assert distinct(new.read(f"{old.name}-2-statistics")) == apart.emissions
    # Those after the last tick of the new one's first life are its own.
    assert newest(new, f"{old.name}-statistics") == {
        key: before.emissions[key] if key in apart.emissions else value
        for key, value in expected.emissions.items()
    }
    assert distinct(new.dead_letters()) == expected.dead_letters
    assert expected.emissions.keys() > before.emissions.keys() > apart.emissions.keys()


def test_two_groups_that_start_together(make_stage: MakeStage, tmp_path: Path) -> None:
    """Neither finds the other before it has written; then the one whose name comes later gives way,
    and says why. What they both wrote is the same.
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(2_000))
    body = stage.file.read_text("utf-8")
    file = tmp_path / "later.py"
    file.write_text(body.replace("span=", f'group="z{stage.name}", span=', 1), "utf-8")
    with (
        stage.worker("a") as first,
        Worker(file, tmp_path / "later", stage.bootstrap) as later,
    ):
        first.await_ready()
        assert later.await_end() == 2, later.said()
        assert f"'{stage.topology.group_name}' computes a topology" in later.said()
        stage.await_settled([first])
        first.stop()
    stage.check()
