"""A declaration with a slip is refused at its first start, or soon, and mended."""

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from slidestat.admin import first_start, state_reset
from slidestat.admin.state_reset import ChangelogWriter, begin_anew
from slidestat.infer import sampling
from slidestat.infer.sampling import sample_ends
from slidestat.kafka.groups import count_workers
from tests.broker.conftest import MakeStage
from tests.broker.forked import ForkedProcess
from tests.broker.workers import Stage, Worker, events, produce, undisturbed, wait_until
from tests.commands import RunCli, run_cli

__all__ = ["run_cli"]

BODY = 'span="10m", every="20s", statistics=(Count(epsilon=0.1), Sum(epsilon=0.1)),\n'
SLIP = BODY + '    key_field="keyy",\n'
COMPUTED = """    computed=("coalesce(id, key, 'none') as who",), key_field="who",\n"""
OTHER = b'{"id": "k1", "time": 1700000000000, "value": 1}'


def with_body(stage: Stage, folder: Path, body: str) -> Stage:
    """The topology of that name over the same source, declared anew."""
    return Stage(stage.bootstrap, folder, stage.name, stage.topology.source, body)


def refused(stage: Stage, *options: str) -> str:
    with stage.worker("a", None, *options) as worker:
        assert worker.await_end() == 2, worker.said()
        said = worker.said()
    assert "Traceback" not in said
    return said[said.index("error: ") :]


def test_a_key_with_a_slip(make_stage: MakeStage, tmp_path: Path, run_cli: RunCli) -> None:
    """`run` and `doctor` name it and what is meant; nothing is written, no topic made. With
    --anyway each record is a letter, and the log says why and how to see them, by a command that
    does so as it is printed. Mended, the same name counts each record once.
    """
    stage = make_stage(body=SLIP)
    produce(stage.bootstrap, stage.topology.source, events(2_000))
    said = refused(stage)
    assert "'keyy' (key_field), and none of the 200 records" in said
    assert "Did you mean key?" in said

    examined = run_cli("doctor", str(stage.file), "--json")
    assert examined.returncode == 1
    found = {it["check"]: it for it in map(json.loads, examined.stdout.splitlines())}
    assert found["source fields"]["verdict"] == "bad"
    assert "Did you mean key?" in found["source fields"]["advice"]
    # None was made before.
    assert "missing" in found["changelog"]["found"]

    with stage.worker("a", None, "--anyway").await_ready() as worker:
        stage.await_settled([worker])
        command = f"slidestat dlq show {stage.file}"
        told = f"dead letters since the start: 2,000 missing-field; `{command}"
        wait_until(lambda: told in worker.said(), "reasons are told", 20)
        printed = worker.said().split(told[: told.index("`")] + "`")[-1].split("`")[0]
        worker.stop()
    shown = run_cli(*printed.split()[1:])
    assert shown.returncode == 0, shown.stderr
    assert "missing-field: keyy is missing" in shown.stdout

    mended = with_body(stage, tmp_path / "mended", BODY)
    with mended.worker("a", stage.data_dir()).await_ready() as worker:
        assert "begins anew, as none of 2,000 records" in worker.said()
        mended.await_settled([worker])
        worker.stop()
    assert mended.counters().counted > 0
    assert mended.counters().dead == 0
    source = mended.read(mended.topology.source)
    assert mended.emissions() == undisturbed(mended.topology, source).emissions
    good = run_cli("doctor", str(mended.file))
    assert "200 records of" in good.stdout
    assert "they have what is declared" in good.stdout


def test_another_declaration_counts_anew_by_a_replay(
    make_stage: MakeStage, tmp_path: Path, run_cli: RunCli
) -> None:
    """Once a record was counted it is another topology, also if no record fits it: a sample refuses
    nothing, and the message names the command after which a worker goes on under the name.
    """
    stage = make_stage(body=BODY, partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(500))
    stage.drain()
    assert "key_field was key, and is keyy" in refused(with_body(stage, tmp_path / "slip", SLIP))
    other = with_body(stage, tmp_path / "other", BODY + '    key_field="kafka:key",\n')
    with other.worker("a", stage.data_dir()) as worker:
        assert worker.await_end() == 2
        assert "run `slidestat replay` with it" in worker.said()
    again = run_cli("replay", str(other.file), "--yes", "--data-dir", str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    with other.worker("a", stage.data_dir()).await_ready() as worker:
        worker.stop()
    assert other.counters().counted > 0


def test_a_topic_with_few_records(make_stage: MakeStage) -> None:
    """None, and nine, are no reason to refuse; ten are."""
    stage = make_stage(body=SLIP, partitions=1)
    source = stage.topology.source
    stage.drain()
    produce(stage.bootstrap, source, events(9))
    stage.drain()
    produce(stage.bootstrap, source, events(1, start=9))
    assert "none of the 10 records" in refused(stage)


def test_a_rare_field_refuses_no_topology_that_has_counted(make_stage: MakeStage) -> None:
    """Its first record with the field is the last one of a sample for long."""
    stage = make_stage(body=BODY + '    where="rare is null or rare > 1",\n', partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(500))
    stage.drain()
    strict = make_stage(
        body=BODY + '    value_field="rare",\n',
        name="u",
        source=stage.topology.source,
    )
    assert "'rare' (sum)" in refused(strict)
    with strict.worker("a", None, "--anyway").await_ready() as worker:
        strict.await_settled([worker])
        worker.stop()
    with strict.worker().await_ready() as worker:
        worker.stop()


def test_the_first_records_are_all_refused(make_stage: MakeStage, tmp_path: Path) -> None:
    """The newest are as declared, and 60,000 before them are not: the worker stops with an example,
    and so does the parent of several. No letter is sent, nothing is committed. Corrected, the same
    name reads all; with --anyway they are set aside.
    """
    stage = make_stage(body=BODY, partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, [(b"k", OTHER)] * 60_000)
    produce(stage.bootstrap, source, events(500))
    said = refused(stage)
    assert "missing-field), such as the one of" in said
    assert f"{source!r}, partition 0, offset 0: missing-field" in said
    assert "start with --anyway" in said
    assert stage.dead_letters() == {0: []}
    assert sum(stage.committed().values()) == 0
    with Worker(
        stage.file, tmp_path / "two", stage.bootstrap, ["--workers", "2"], start=ForkedProcess
    ) as parent:
        assert parent.await_end() == 2
        assert parent.said().count("error: ") == 1
    assert stage.dead_letters() == {0: []}

    mended = with_body(
        stage,
        tmp_path / "mended",
        BODY + COMPUTED,
    )
    with mended.worker("a", stage.data_dir()).await_ready() as worker:
        mended.await_settled([worker])
        worker.stop()
    assert mended.counters().dead == 0


def test_the_first_records_are_refused_with_others_behind_them(make_stage: MakeStage) -> None:
    """All are fetched at once: the worker stops all the same, and writes no letter."""
    stage = make_stage(body=BODY, partitions=1)
    produce(stage.bootstrap, stage.topology.source, [(b"k", OTHER)] * 10_000)
    produce(stage.bootstrap, stage.topology.source, events(500))
    assert "all of the first 10,000 records that were read are refused" in refused(stage)
    assert stage.dead_letters() == {0: []}


def test_no_letter_is_sent_of_any_batch(make_stage: MakeStage) -> None:
    """Also where each is far smaller than what it takes to stop, and partitions take turns."""
    stage = make_stage(body=BODY, partitions=2)
    source = stage.topology.source
    large = OTHER[:-1] + b', "more": "%s"}' % (b"x" * 2_000)
    for partition in range(2):
        produce(stage.bootstrap, source, [(b"k", large)] * 7_000, partition)
    produce(stage.bootstrap, source, events(200), partition=0)
    assert "start with --anyway" in refused(stage)
    assert stage.dead_letters() == {0: [], 1: []}
    assert sum(stage.committed().values()) == 0
    assert not any(stage.checkpoints())


def test_refused_ones_are_set_aside_anyway(make_stage: MakeStage) -> None:
    """With --anyway all go to the letters, and the good ones behind them are counted."""
    stage = make_stage(body=BODY, partitions=1)
    produce(stage.bootstrap, stage.topology.source, [(b"k", OTHER)] * 60_000)
    produce(stage.bootstrap, stage.topology.source, events(500))
    with stage.worker("a", None, "--anyway").await_ready() as worker:
        stage.await_settled([worker])
        worker.stop()
    stage.check()
    assert stage.counters().dead == 60_000


def test_an_open_transaction_holds_up_no_look(
    bootstrap_servers: str, make_topic: Callable[..., str], topic_name: str
) -> None:
    """What it has is not looked at, as no worker reads it; what lies before it is, at once."""
    topic = make_topic("open", 1)
    produce(bootstrap_servers, topic, events(150))
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic_name})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(300):
        producer.produce(topic, OTHER)
    producer.flush()
    started = time.monotonic()
    found = sample_ends(bootstrap_servers, topic, 1, 200)
    assert time.monotonic() - started < 60
    assert len(found) == 150
    assert all(b"key" in (record.value or b"") for record in found)
    producer.abort_transaction()


def test_a_look_finds_events_wherever_they_lie(
    bootstrap_servers: str,
    make_topic: Callable[..., str],
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one of many partitions; between tombstones; between transactions that were broken off.
    Else a name with a slip would be in too few of them to be told.
    """
    monkeypatch.setattr(sampling, "_PATIENCE_S", 30.0)  # However busy the machine is.
    skewed = make_topic("skewed", 40)
    produce(bootstrap_servers, skewed, events(400), partition=33)
    assert len(sample_ends(bootstrap_servers, skewed, 40, 200)) == 200

    fewer = make_topic("fewer", 3)
    for partition, count in enumerate((20, 300, 0)):
        produce(bootstrap_servers, fewer, events(count), partition=partition)
    found = sample_ends(bootstrap_servers, fewer, 3, 200)
    assert Counter(record.partition for record in found) == {0: 20, 1: 180}
    of_other = [record.offset for record in found if record.partition == 1]
    assert of_other == [*range(90), *range(210, 300)]

    deleted = make_topic("deleted", 1)
    for some in ([(b"k", None)] * 1_000, events(150), [(b"k", None)] * 1_000):
        produce(bootstrap_servers, deleted, some)
    found = sample_ends(bootstrap_servers, deleted, 1, 200)
    assert sum(record.value is not None for record in found) == 150

    aborted = make_topic("aborted", 1)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic_name})
    producer.init_transactions()
    for count in (1_000, 150, 1_000):
        producer.begin_transaction()
        for key, value in events(count):
            producer.produce(aborted, value, key)
        producer.flush()
        if count == 150:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    assert len(sample_ends(bootstrap_servers, aborted, 1, 200)) == 150


def refused_before(make_stage: MakeStage, folder: Path) -> Stage:
    """A topology that is mended, of which another declaration has set all aside: 2,000 records in
    two partitions.
    """
    stage = make_stage(body=SLIP, partitions=2)
    produce(stage.bootstrap, stage.topology.source, events(2_000))
    with stage.worker("a", None, "--anyway").await_ready() as worker:
        stage.await_settled([worker])
        worker.stop()
    return with_body(stage, folder / "mended", BODY)


def begins_anew(stage: Stage) -> bool:
    """The look of a process that starts, in this one; whether it is a first start."""
    return first_start.prepare_first_start(stage.bootstrap, stage.topology, None)


def check_counted(stage: Stage, folder: Path) -> None:
    """Assert that all is counted once, by a table that is restored and by the one that is here."""
    produce(stage.bootstrap, stage.topology.source, events(500, start=2_500))
    with stage.worker("b", folder / "restored").await_ready() as worker:
        stage.await_settled([worker])
        worker.stop()
    produce(stage.bootstrap, stage.topology.source, events(500, start=3_000))
    stage.drain()
    source = stage.read(stage.topology.source)
    assert stage.emissions() == undisturbed(stage.topology, source).emissions
    assert stage.counters() == undisturbed(stage.topology, source).counters


def test_one_that_begins_anew_too_late_changes_nothing(
    make_stage: MakeStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker began anew, joined and counted after another had seen that none was there: what the
    other writes then counts for nothing, for the worker that runs and for those that restore.
    """
    mended = refused_before(make_stage, tmp_path)
    workers = []

    def late(*arguments: Any) -> None:
        workers.append(mended.worker().await_ready())
        assert "begins anew, as none of 2,000 records" in workers[0].said()
        mended.await_settled(workers)
        begin_anew(*arguments)

    monkeypatch.setattr(first_start, "begin_anew", late)
    with ExitStack() as ended:
        assert begins_anew(mended)
        worker = ended.enter_context(workers[0])
        late_ones = mended.checkpoints().values()
        assert all(checkpoint.next_offset == 0 for checkpoint in late_ones)
        produce(mended.bootstrap, mended.topology.source, events(500, start=2_000))
        mended.await_settled([worker])
        worker.stop()
    check_counted(mended, tmp_path)


def test_one_that_sees_what_has_changed_looks_again(
    make_stage: MakeStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that came and went before it was asked whether any runs has counted, and is not
    begun anew.
    """
    mended = refused_before(make_stage, tmp_path)

    def count_later(bootstrap: str, group: str) -> int:
        monkeypatch.undo()
        mended.drain()
        return count_workers(bootstrap, group)

    monkeypatch.setattr(first_start, "count_workers", count_later)
    assert not begins_anew(mended)
    assert mended.counters().counted > 0
    check_counted(mended, tmp_path)


def test_a_beginning_that_is_broken_off_is_completed(
    make_stage: MakeStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when one partition of two was begun anew, or between two that do so at once: the next
    start begins both.
    """
    mended = refused_before(make_stage, tmp_path)

    class Killed(ChangelogWriter):
        def send(self, *record: Any) -> None:
            super().send(*record)
            self.flush()
            raise KeyboardInterrupt

    with monkeypatch.context() as seam:
        seam.setattr(state_reset, "ChangelogWriter", Killed)
        with pytest.raises(KeyboardInterrupt):
            begins_anew(mended)
    ends = {p: records[-1].offset for p, records in mended.read(mended.changelog).items()}

    def both(*arguments: Any) -> None:
        monkeypatch.undo()
        assert begins_anew(mended)
        begin_anew(*arguments)

    monkeypatch.setattr(first_start, "begin_anew", both)
    assert begins_anew(mended)
    written = mended.read(mended.changelog)
    assert all(written[partition][-1].offset > end for partition, end in ends.items())
    check_counted(mended, tmp_path)
