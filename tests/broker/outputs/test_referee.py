"""Parties and a referee on a real broker: what happens to a worker shows while it is away only."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from slidestat.declare.referee import Referee
from slidestat.referee.live_referee import RefereeQuery
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.emission import Emission
from slidestat.schemas.query import KeyAnswer
from slidestat.schemas.synopsis import SynopsisKey, decode_key
from slidestat.text import numbers_text
from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_queries import get
from tests.broker.parties import of_parties
from tests.broker.workers import (
    DRAIN_S,
    Records,
    Stage,
    Worker,
    events,
    produce,
    wait_until,
)

BODY = (
    'span="5m", every="20s", windows=("1m", "5m"), lateness="1s", publish="partition", '
    "statistics=(Count(epsilon=0.1), Sum(epsilon=0.1), Mean(), Quantiles(epsilon=0.05), "
    "Distinct(epsilon=0.2, field='key'), Distinct(epsilon=0.2, field='value', by='key'), "
    "TopItems(epsilon=0.1, field='value'))"
)
PATIENCE = "40s"


def feed(stage: Stage, start: int, count: int) -> None:
    produce(stage.bootstrap, stage.topology.source, events(count, start=start, jitter_ms=900))


def printed(*arguments: str) -> str:
    """What `slidestat` prints."""
    return subprocess.run(
        [sys.executable, "-m", "slidestat", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def write_referee(stage: Stage) -> Path:
    file = stage.file.with_name("global.py")
    file.write_text(
        "from slidestat.declare.referee import Referee\n"
        "from slidestat.declare.forms.files import load_topology\n\n"
        f"topology = Referee(of=load_topology({str(stage.file)!r}), patience={PATIENCE!r})\n"
    )
    return file


def answers(records: Records) -> list[Emission]:
    """The emissions of a referee in order, without where they are from."""
    found = [
        msgspec.json.decode(record.value or b"", type=Emission)
        for partition in records.values()
        for record in partition
    ]
    return [msgspec.structs.replace(e, source_offset=0) for e in found]


def undisturbed(referee: Referee, source: Records) -> tuple[list[Emission], RefereeProcessor]:
    """The final answers of a referee whose parties come to each tick at once, and the referee."""
    processor, effects = of_parties(referee, source)
    found = [msgspec.json.decode(value, type=Emission) for _, value, _ in effects.emissions]
    final = [msgspec.structs.replace(e, source_offset=0) for e in found if not e.provisional]
    return final, processor


def asked(worker: Worker, referee: Referee, window: str) -> KeyAnswer:
    """What a worker of the referee answers for the stream of whole partitions."""
    path = f"/topologies/{referee.name}/keys/{referee.of.source}?window={window}"
    status, body = get(worker.url, path)
    assert status == 200, body
    return msgspec.structs.replace(msgspec.convert(body, KeyAnswer), next_offset=0)


def held_by(worker: Worker) -> set[str]:
    """The partitions that a worker was given last."""
    return set(re.findall(r"ready, partitions: ([\d, ]+)\n", worker.said())[-1].split(", "))


@pytest.mark.long
def test_a_killed_worker_is_named_and_then_made_up_for(make_stage: MakeStage) -> None:
    """Three workers hold eight partitions, and one is killed: the referee answers without its
    partitions and names them, since when they are away. When the others have taken them over, the
    final answers, and what was published, are those of an undisturbed run.
    """
    stage = make_stage(partitions=8, body=BODY)
    file = write_referee(stage)
    referee = Referee(of=stage.topology, patience=PATIENCE)
    feed(stage, 0, 12_000)
    with (
        stage.worker("a") as one,
        stage.worker("b") as two,
        stage.worker("c") as three,
        Worker(file, stage.data_dir("referee"), stage.bootstrap) as judge,
    ):
        workers = [one, two, three]
        for worker in (*workers, judge):
            worker.await_ready()

        def shared() -> bool:
            held = [held_by(worker) for worker in workers]
            return set.union(*held) == set("01234567") and sum(map(len, held)) == 8

        wait_until(shared, "the workers share the partitions", DRAIN_S)
        stage.await_settled(workers)
        lost = {f"{stage.topology.source}/{number}" for number in held_by(three)}
        assert len(lost) in (2, 3)
        three.kill()
        for start in range(12_000, 24_000, 2_000):
            # Less at a time than the patience: those that are alive come together.
            feed(stage, start, 2_000)
            time.sleep(1)

        def named() -> bool:
            return any(
                {party.party for party in emission.absent or ()} == lost and emission.provisional
                for emission in answers(stage.read(referee.output_topic))
            )

        wait_until(named, "the referee misses the parties of the killed worker", DRAIN_S)
        stage.await_settled([one, two])
        expected, _ = undisturbed(referee, stage.read(stage.topology.source))

        def complete() -> bool:
            found = [e for e in answers(stage.read(referee.output_topic)) if not e.provisional]
            return len(found) >= len(expected)

        wait_until(complete, "the referee has answered for all", DRAIN_S)
        for worker in (one, two, judge):
            worker.stop()
    final = [e for e in answers(stage.read(referee.output_topic)) if not e.provisional]
    assert final == expected
    assert len(final) >= 10
    assert not any(stage.read(referee.dead_letter_topic).values())
    check_published(stage)


def check_published(stage: Stage) -> None:
    """What was published twice was published with the same bytes."""
    first: dict[tuple[SynopsisKey, int], bytes | None] = {}
    for records in stage.read(stage.topology.synopsis_topic).values():
        for record in records:
            key = decode_key(record.key or b"")
            if isinstance(key, SynopsisKey):
                assert first.setdefault((key, record.timestamp), record.value) == record.value
    assert first


def test_a_killed_referee_goes_on_where_it_was(make_stage: MakeStage) -> None:
    """Killed twice among its answers, once with its folder lost: the final answers are those of an
    undisturbed one, and what came twice is the same to the byte; and so is what it answers over
    HTTP, for a window that it does not emit.
    """
    stage = make_stage(partitions=3, body=BODY.replace(", *EVERY", ""))
    file = write_referee(stage)
    referee = Referee(of=stage.topology, patience=PATIENCE)
    feed(stage, 0, 30_000)
    stage.drain()
    folder = stage.data_dir("referee")
    for life in range(2):
        with Worker(file, folder, stage.bootstrap).await_ready() as judge:
            time.sleep(0.5 * life)
            judge.kill()
        feed(stage, 30_000 + 6_000 * life, 6_000)
        stage.drain()
    shutil.rmtree(folder)
    expected, whole = undisturbed(referee, stage.read(stage.topology.source))
    ends = {emission.window_end_ms for emission in expected}

    def complete() -> bool:
        found = answers(stage.read(referee.output_topic))
        return ends <= {e.window_end_ms for e in found if not e.provisional}

    with Worker(file, folder, stage.bootstrap).await_ready() as judge:
        wait_until(complete, "the referee has answered for all", DRAIN_S)
        right = RefereeQuery(referee, ["130s"]).answer(whole.view(), stage.topology.source)
        live = msgspec.json.decode(msgspec.json.encode(right), type=KeyAnswer)
        assert asked(judge, referee, "130s") == msgspec.structs.replace(live, next_offset=0)
        right = RefereeQuery(referee, ["130s"], where="key=k7").answer(
            whole.view(), stage.topology.source
        )
        live = msgspec.json.decode(msgspec.json.encode(right), type=KeyAnswer)
        assert asked(judge, referee, "130s&where=key=k7") == msgspec.structs.replace(
            live, next_offset=0
        )
        shown = printed(
            *("query", str(file), stage.topology.source),
            *("--url", judge.url, "--window", "130s", "--where", "key=k7"),
        )
        (line,) = shown.splitlines()
        assert "distinct_by_key where key=k7" in line
        figure = live.figures[0]
        assert f" {numbers_text(figure.estimate, figure.lower, figure.upper)[0]} in [" in line
        judge.stop()
    records = stage.read(referee.output_topic)
    values: dict[tuple[bytes | None, bool], bytes | None] = {}
    for record in records[0]:
        provisional = b'"provisional":true' in (record.value or b"")
        assert values.setdefault((record.key, provisional), record.value) == record.value
    final = {e.window_end_ms: e for e in answers(records) if not e.provisional}
    assert final == {e.window_end_ms: e for e in expected}


@pytest.mark.long
def test_the_last_events_of_each_party_whoever_is_killed(make_stage: MakeStage) -> None:
    """A worker and the referee are killed among their answers. The final answers over the last
    events of each party, and one for a length that was not declared, are those of an undisturbed
    run; of three parties with enough events, three times as many are in a window.
    """
    body = (
        'span="200 events", every="20s", windows=("40 events", "200 events"), lateness="1s", '
        'publish="partition", statistics=(Count(), Count(name="k7", where="key = \'k7\'"), Sum(), '
        "Quantiles(), Distinct(epsilon=0.2, field='key'))"
    )
    stage = make_stage(partitions=3, body=body)
    file, folder = write_referee(stage), stage.data_dir("referee")
    referee = Referee(of=stage.topology, patience=PATIENCE)
    feed(stage, 0, 6_000)
    with stage.worker("a").await_ready() as worker:
        with Worker(file, folder, stage.bootstrap).await_ready() as judge:
            wait_until(lambda: any(stage.read(referee.output_topic).values()), "an answer", DRAIN_S)
            judge.kill()
        worker.kill()
    feed(stage, 6_000, 3_000)
    stage.drain()
    expected, whole = undisturbed(referee, stage.read(stage.topology.source))
    for figure, of_each in zip(expected[-1].figures, (40, 200), strict=False):
        assert figure.window_events == of_each
        assert (figure.lower or 0) <= 3 * of_each <= (figure.upper or 0)
    ends = {emission.window_end_ms for emission in expected}

    def complete() -> bool:
        found = answers(stage.read(referee.output_topic))
        return ends <= {e.window_end_ms for e in found if not e.provisional}

    with Worker(file, folder, stage.bootstrap).await_ready() as judge:
        wait_until(complete, "the referee has answered for all", DRAIN_S)
        right = RefereeQuery(referee, ["120 events"]).answer(whole.view(), stage.topology.source)
        live = msgspec.json.decode(msgspec.json.encode(right), type=KeyAnswer)
        asked_of = asked(judge, referee, "120%20events")
        assert asked_of == msgspec.structs.replace(live, next_offset=0)
        judge.stop()
    found = [e for e in answers(stage.read(referee.output_topic)) if not e.provisional]
    assert {e.window_end_ms: e for e in found} == {e.window_end_ms: e for e in expected}
    assert not any(stage.read(referee.dead_letter_topic).values())
    check_published(stage)


def test_partitions_without_events_are_idle_not_absent(make_stage: MakeStage) -> None:
    """All events lie in one of three partitions: once the others have been idle for as long as the
    topology says, the referee answers of all parties up to the newest event, and misses nobody. As
    nothing follows, it then answers that the windows have emptied.
    """
    stage = make_stage(partitions=3, body=BODY.replace("publish=", 'idle="1s", publish='))
    file = write_referee(stage)
    referee = Referee(of=stage.topology, patience=PATIENCE)
    records = [(None, value) for _, value in events(3_000)]
    produce(stage.bootstrap, stage.topology.source, records, 1)
    everyone = [f"{stage.topology.source}/{number}" for number in range(3)]

    def answered() -> bool:
        found = [e for e in answers(stage.read(referee.output_topic)) if e.absent is None]
        assert all(e.provisional for e in found)
        counts = [e.figures[1].estimate or 0 for e in found if e.parties == everyone]
        # The last events lie before a tick that no watermark has passed.
        return bool(counts) and abs(max(counts) - 3_000) <= 0.1 * 3_000 and counts[-1] == 0

    with (
        stage.worker().await_ready() as worker,
        Worker(file, stage.data_dir("referee"), stage.bootstrap).await_ready() as judge,
    ):
        wait_until(answered, "the referee misses nobody", DRAIN_S)
        live = asked(judge, referee, "5m")
        assert (live.parties, live.absent) == (everyone, None)
        for running in (worker, judge):
            running.stop()
    assert not any(stage.read(referee.dead_letter_topic).values())
    counted = printed("dlq", "count", str(file), "--bootstrap", stage.bootstrap)
    assert f"{referee.dead_letter_topic}: 0 open letters" in counted
