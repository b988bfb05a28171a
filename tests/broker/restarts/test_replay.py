"""`slidestat replay`: history once more, in place or beside the live group."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
from confluent_kafka import Producer

from slidestat.admin.state_reset import ChangelogWriter
from slidestat.engine.checkpoints.checkpoint import (
    BEING_RESET,
    CHECKPOINT_KEY,
    Checkpoint,
    encode_checkpoint,
)
from slidestat.schemas.emission import Emission, emission_key
from tests.broker.conftest import MakeStage
from tests.broker.workers import Stage, distinct, events, produce
from tests.engine.checks import check_figures
from tests.engine.model import Model, Record as Event

LATENESS = (
    'span="10m", every="20s", windows=("1m", "10m"), lateness="5s",\n'
    "    statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)),\n"
)


def replay(stage: Stage, *arguments: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            *(sys.executable, "-m", "slidestat", "replay", str(stage.file)),
            *("--data-dir", str(stage.data_dir()), "--bootstrap", stage.bootstrap),
            *arguments,
        ],
        input=answer,
        capture_output=True,
        text=True,
        timeout=180,
        env=os.environ | {"COLUMNS": "300", "PYTHONPATH": str(Path(__file__).parents[3] / "app")},
        check=False,
    )


def ended_well(stage: Stage, *arguments: str) -> str:
    run = replay(stage, "--yes", *arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_same_bytes_again(make_stage: MakeStage) -> None:
    """Replayed twice in place, and once beside, the output is that of the first run to the byte;
    letters and counters too; and the live group goes on from there.
    """
    stage = make_stage(body=LATENESS)
    bad = [(b"k1", b"not JSON"), (b"k2", b'{"key":"k2"}')]
    produce(stage.bootstrap, stage.topology.source, events(4_000, late_share=0.01, jitter_ms=9_000))
    produce(stage.bootstrap, stage.topology.source, bad)
    stage.drain()
    first = stage.check()

    for _ in range(2):
        told = ended_well(stage)
        assert "are forgotten; the replay begins" in told
        stage.check()
        assert stage.emissions() == first.emissions

    told = ended_well(stage, "--into", f"{stage.name}-again", "--data-dir", f"{stage.data_dir()}-2")
    again = f"{stage.name}-again"
    assert distinct(stage.read(f"{again}-statistics")) == first.emissions
    assert distinct(stage.read(f"{again}-dead-letters")) == first.dead_letters
    assert distinct(stage.read(f"{again}-late")) == first.late

    produce(stage.bootstrap, stage.topology.source, events(2_000, start=4_000))
    stage.drain()
    stage.check()


def test_nothing_is_reset_where_no_worker_can_start(make_stage: MakeStage) -> None:
    """A folder of another cluster would end the replay behind the reset: the group goes on."""
    stage = make_stage(body=LATENESS)
    produce(stage.bootstrap, stage.topology.source, events(1_000))
    stage.drain()
    other = Path(f"{stage.data_dir()}-other")
    other.mkdir()
    label = {"application_id": stage.topology.application_id, "cluster_id": "another"}
    (other / "slidestat.json").write_bytes(msgspec.json.encode(label))

    run = replay(stage, "--yes", "--data-dir", str(other))
    assert run.returncode == 2
    assert "another Kafka cluster" in run.stderr
    assert "forgotten" not in run.stdout

    produce(stage.bootstrap, stage.topology.source, events(1_000, start=1_000))
    stage.drain()
    stage.check()


def test_up_to_an_offset(make_stage: MakeStage) -> None:
    """With --to a replay ends there, also at a transaction's mark, and the group goes on."""
    stage = make_stage(body=LATENESS)
    produce(stage.bootstrap, stage.topology.source, events(3_000))
    producer = Producer(
        {"bootstrap.servers": stage.bootstrap, "transactional.id": stage.name, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for key, value in events(500, start=3_000):
        producer.produce(stage.topology.source, value, key)
    producer.commit_transaction(30)
    ended_well(stage, "--to", "1000")
    assert max(stage.committed().values()) <= 1_000
    ended_well(stage)
    stage.check()
    produce(stage.bootstrap, stage.topology.source, events(500, start=3_500))
    stage.drain()
    stage.check()


def test_from_a_time(make_stage: MakeStage) -> None:
    """From a time on, each window has the events of the whole: its bounds hold, and what was
    written of earlier windows is left alone.
    """
    stage = make_stage(body=LATENESS)
    source = stage.topology.source
    sent = events(6_000, late_share=0.01, jitter_ms=9_000)
    produce_with_event_time(stage, sent)
    produce_with_event_time(stage, events(150_000, start=6_000, keys=3)[::50])
    stage.drain()
    before = stage.emissions()
    middle = 1_700_000_000_000 + 1_200_000
    ended_well(stage, "--from", "2023-11-14T22:33:20Z")
    replayed: dict[bytes, bytes] = {}
    for records in stage.read(stage.topology.output_topic).values():
        for record in records:
            assert record.key is not None
            assert record.value is not None
            replayed[record.key] = record.value
    assert replayed.keys() == before.keys()
    expected = {
        emission_key(stage.name, e.key, e.tick): e.values
        for records in stage.read(source).values()
        for e in Model(
            stage.topology, [Event(r.offset, r.key, r.value, r.timestamp) for r in records]
        ).emissions
    }
    assert replayed.keys() == expected.keys()
    for key, value in replayed.items():
        emission = msgspec.json.decode(value, type=Emission)
        if emission.window_end_ms <= middle:
            assert value == before[key]
        check_figures(stage.topology, emission.figures, expected[key])


def test_what_is_refused(make_stage: MakeStage) -> None:
    """A running group, a place that is none, a name that is taken, and a user who says no: each is
    told, and nothing is changed.
    """
    stage = make_stage()
    produce(stage.bootstrap, stage.topology.source, events(1_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        refused = replay(stage, "--yes")
        assert refused.returncode == 2
        assert "has 1 running worker." in refused.stderr
        worker.stop()
    checkpoints = stage.checkpoints()
    for arguments, told in [
        (("--from", "yesterday"), "--from is 'yesterday'"),
        (("--to", "-1"), "--to is '-1'"),
        (("--into", stage.name), "which is what the topology writes"),
        ((), "Nothing was done"),
    ]:
        refused = replay(stage, *arguments)
        assert refused.returncode == 2, refused.stdout
        assert told in refused.stderr
        assert "Traceback" not in refused.stderr
    tried = replay(stage, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "reads       up to 1,000 records" in tried.stdout
    assert stage.checkpoints() == checkpoints
    stage.check()


def test_windows_of_events_need_the_whole(make_stage: MakeStage) -> None:
    """What depends on all that came before is replayed from the earliest record alone."""
    stage = make_stage(body='span="100 events", every="20s", statistics=(Count(),),\n')
    refused = replay(stage, "--yes", "--from", "100")
    assert refused.returncode == 2
    assert "Replay it from earliest" in refused.stderr


def test_a_reset_that_was_broken_off(make_stage: MakeStage) -> None:
    """A worker does not start on a state that is partly reset; the next replay corrects it."""
    stage = make_stage()
    produce(stage.bootstrap, stage.topology.source, events(1_000))
    stage.drain()
    sender = ChangelogWriter(stage.bootstrap, stage.changelog)
    for partition in range(2):
        sender.send(partition, CHECKPOINT_KEY, encode_checkpoint(Checkpoint(0), BEING_RESET))
    sender.flush()
    produce(stage.bootstrap, stage.topology.source, events(100, start=1_000))
    with stage.worker() as worker:
        assert worker.await_end() == 2
    assert "only partly reset" in worker.said()
    ended_well(stage)
    stage.check()


def produce_with_event_time(stage: Stage, sent: list[tuple[bytes, bytes]]) -> None:
    """As producers do that stamp a record with its event's time."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "log_level": 0})
    for key, value in sent:
        time = msgspec.json.decode(value)["time"]
        producer.produce(stage.topology.source, value, key, timestamp=time)
    assert producer.flush(30) == 0
