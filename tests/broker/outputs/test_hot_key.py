"""A key that is too hot for one worker, on a real broker: spread, published, and answered whole."""

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.produce.produce import produce_file
from slidestat.schemas.emission import Emission
from tests.broker.conftest import MakeStage
from tests.broker.outputs.test_observed import get as metrics, totals
from tests.broker.outputs.test_referee import PATIENCE, answers, held_by, write_referee
from tests.broker.workers import DRAIN_S, Records, Stage, Worker, undisturbed, wait_until
from tests.engine.checks import check_figures
from tests.engine.model import Event, inside, read

HOT = "hot"
EVENTS = 30_000
STATISTICS = (
    "statistics=(Count(epsilon=0.1), Sum(epsilon=0.1), Mean(), Quantiles(epsilon=0.05), "
    "Distinct(epsilon=0.2, field='value'), TopItems(epsilon=0.1, field='value'))"
)
BODY = f'span="3m", every="20s", windows=("1m", "3m"), lateness="1s", publish=["hot"], {STATISTICS}'


def write_events(file: Path) -> Path:
    """Seven of ten events are of one key; 10 ms lie between two, none is late."""
    chance = np.random.default_rng(11)
    keys = np.where(chance.random(EVENTS) < 0.7, -1, chance.integers(0, 12, EVENTS))
    times = 1_700_000_000_000 + 10 * np.arange(EVENTS) - chance.integers(0, 900, EVENTS)
    values = chance.geometric(0.2, EVENTS)
    with file.open("w") as lines:
        for key, at, value in zip(keys.tolist(), times.tolist(), values.tolist(), strict=True):
            event = {"key": HOT if key < 0 else f"k{key}", "time": at, "value": value / 8}
            lines.write(json.dumps(event) + "\n")
    return file


def by_partition(topology: Topology, source: Records) -> list[list[Event]]:
    """The events of each partition."""
    return [
        [event for record in records if (event := read(record.value, topology)) is not None]
        for records in source.values()
    ]


def due(topology: Topology, source: Records) -> tuple[list[int], list[Event]]:
    """The ticks after events of the hot key that all partitions have passed; and those events."""
    parties = by_partition(topology, source)
    settled = min(max(event.time for event in party) for party in parties) - topology.lateness_ms
    whole = sorted(
        (event for event in chain(*parties) if event.key == HOT), key=lambda event: event.time
    )
    every = topology.every_ms
    ticks = {(event.time // every + 1) * every for event in whole}
    return sorted(tick for tick in ticks if tick <= settled), whole


def check_answers(referee: Referee, final: list[Emission], source: Records) -> None:
    """One final answer at each tick that is due, over all events of the hot key."""
    topology = referee.of
    ticks, whole = due(topology, source)
    assert [(emission.window_end_ms, emission.key) for emission in final] == [
        (tick, HOT) for tick in ticks
    ]
    everyone = [f"{topology.source}/{number}" for number in range(4)]
    for emission in final:
        assert (emission.parties, emission.absent) == (everyone, None)
        values = {
            n: [event.value for event in inside(topology, whole, n, emission.window_end_ms)]
            for n in topology.window_lengths
        }
        check_figures(referee.answering, emission.figures, values)


def check_others(stage: Stage, source: Records) -> None:
    """What the workers emit is what they would if nothing were published, but for the hot key."""
    ordinary = undisturbed(replace(stage.topology, publish=()), source).emissions
    others = {key: value for key, value in ordinary.items() if json.loads(value)["key"] != HOT}
    assert 0 < len(others) < len(ordinary)
    assert stage.emissions() == others


def test_a_key_of_more_events_than_a_worker_takes(make_stage: MakeStage, tmp_path: Path) -> None:
    """Its events lie in all four partitions, of which two workers hold two each, and no worker
    emits it: the referee does, at each tick, with figures of all its events within their bounds.
    The other keys are emitted by the workers, to the byte as if the key were not there. What the
    workers published is what their metrics tell.
    """
    stage = make_stage(partitions=4, body=BODY)
    source = stage.topology.source
    referee = Referee(of=stage.topology, patience=PATIENCE)
    with (
        stage.worker("a") as one,
        stage.worker("b") as two,
        Worker(write_referee(stage), stage.data_dir("referee"), stage.bootstrap) as judge,
    ):
        for worker in (one, two, judge):
            worker.await_ready()
        wait_until(
            lambda: (
                sorted(held_by(one) | held_by(two)) == list("0123")
                and len(held_by(one)) == len(held_by(two)) == 2
            ),
            "the workers share the partitions",
            DRAIN_S,
        )
        report = produce_file(
            write_events(tmp_path / "events.jsonl"), stage.bootstrap, source, spread=[HOT]
        )
        assert (report.sent, report.failed) == (EVENTS, 0)
        stage.await_settled([one, two])
        sent = stage.read(source)
        places = [sum(event.key == HOT for event in p) for p in by_partition(stage.topology, sent)]
        assert max(places) - min(places) <= 1

        ticks, _ = due(stage.topology, sent)
        assert len(ticks) >= 10

        def final() -> list[Emission]:
            return [e for e in answers(stage.read(referee.output_topic)) if not e.provisional]

        wait_until(lambda: len(final()) >= len(ticks), "the referee has answered for all", DRAIN_S)
        told = [totals(metrics(f"{worker.url}/metrics").decode()) for worker in (one, two)]
        for worker in (one, two, judge):
            worker.stop()
    stage.check()
    check_others(stage, sent)
    check_answers(referee, final(), sent)
    assert not any(stage.read(referee.dead_letter_topic).values())
    published = list(chain(*stage.read(stage.topology.synopsis_topic).values()))
    size = sum(len(record.key or b"") + len(record.value or b"") for record in published)
    assert sum(found["slidestat_synopsis_records_total"] for found in told) == len(published)
    assert sum(found["slidestat_synopsis_bytes_total"] for found in told) == size
