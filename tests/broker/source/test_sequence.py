"""One numbered stream, split over partitions of a real broker: windows of its last n events."""

import json
import time
from pathlib import Path

import msgspec

from slidestat.declare.referee import Referee
from slidestat.kafka.read.topic_reader import EmissionReader
from slidestat.schemas.sequence import SequenceEmission, SequenceKeyAnswer
from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_queries import get
from tests.broker.workers import DRAIN_S, Stage, Worker, produce, wait_until

BODY = (
    'time_field="number", time_format="sequence", span="2000 events", every="100 events", '
    'windows=("150 events", "2000 events"), publish="partition", statistics=(Count(epsilon=0.1),)'
)
COUNT = 6_000
PARTITIONS = 3


def write_referee(stage: Stage) -> Path:
    file = stage.file.with_name("global.py")
    file.write_text(
        "from slidestat.declare.referee import Referee\n"
        "from slidestat.declare.forms.files import load_topology\n\n"
        f"topology = Referee(of=load_topology({str(stage.file)!r}), "
        'patience="1000000 events", correctable="1000000 events")\n'
    )
    return file


def test_the_last_n_of_a_stream_over_partitions(make_stage: MakeStage) -> None:
    """Each partition has some of the numbers, one most of them: the referee's final answers are of
    the last n of the whole, and so is what it answers over HTTP. Emissions carry the time of
    writing as their Kafka timestamp: by a number, retention would delete them.
    """
    stage = make_stage(partitions=PARTITIONS, body=BODY)
    file = write_referee(stage)
    referee = Referee(of=stage.topology, patience="1000000 events", correctable="1000000 events")
    began_ms = int(time.time() * 1000)
    for partition in range(PARTITIONS):
        # Of each ten numbers one has eight, the others one.
        mine = [n for n in range(COUNT) if max(0, n % 10 - 7) == partition]
        records = [(None, json.dumps({"key": "k", "number": n, "value": 1}).encode()) for n in mine]
        produce(stage.bootstrap, stage.topology.source, records, partition)
    with (
        stage.worker().await_ready() as worker,
        Worker(file, stage.data_dir("referee"), stage.bootstrap).await_ready() as judge,
    ):

        def complete() -> bool:
            return len(stage.read(referee.output_topic)[0]) >= COUNT // 100 - 1

        wait_until(complete, "the referee has answered for all ticks", DRAIN_S)
        path = f"/topologies/{referee.name}/keys/{stage.topology.source}?window=777%20events"
        status, body = get(judge.url, path)
        assert status == 200, body
        answer = msgspec.convert(body, SequenceKeyAnswer)
        for running, topology in ((worker, stage.topology), (judge, referee)):
            _, told = get(running.url, f"/topologies/{topology.name}/status")
            held = [p for of in told["workers"] for p in of["partitions"]]
            assert {p["watermark_ms"] for p in held} == {None}
            assert max(p["watermark_seq"] for p in held) >= COUNT - 100
        for running in (worker, judge):
            running.stop()
        assert "newest event 5,999" in worker.said()
    records = stage.read(referee.output_topic)[0]
    found = [msgspec.json.decode(record.value or b"", type=SequenceEmission) for record in records]
    assert [e.window_end_ms for e in found] == list(range(100, COUNT, 100))
    for emission in found:
        assert not emission.provisional
        for figure in emission.figures:
            assert figure.window_events in (150, 2_000)
            exact = min(figure.window_events, emission.window_end_ms)
            assert figure.lower <= exact <= figure.upper
    assert answer.window_end_ms == COUNT - 100
    (figure,) = answer.figures
    assert figure.lower <= 777 <= figure.upper
    assert all(record.timestamp >= began_ms for record in records)
    # As an older version wrote its answers, of windows that have come again since.
    older = [
        (record.key or b"", (record.value or b"").replace(b'_seq":', b'_ms":'))
        for record in records[-3:]
    ]
    produce(stage.bootstrap, referee.output_topic, older, 0)
    reader = EmissionReader(
        stage.bootstrap, referee.output_topic, {0}, once=True, from_beginning=True
    )
    both = [record.emission for batch in reader.batches() for record in batch]
    assert not reader.skipped
    assert [e.window_end_ms for e in both] == [
        *range(100, COUNT, 100),
        *[e.window_end_ms for e in found[-3:]],
    ]
    assert len({record.key for record in records} | {key for key, _ in older}) == len(found)
