"""Declared rankings of real workers, one of them killed, and of their referee."""

import msgspec

from slidestat.declare.referee import Referee
from slidestat.schemas.ranking import Ranking, decode_ranking
from tests.broker.conftest import MakeStage
from tests.broker.parties import of_parties
from tests.broker.workers import (
    DRAIN_S,
    Records,
    Worker,
    events,
    produce,
    wait_until,
)

BODY = (
    'span="1m", every="10s", windows=("20s",), lateness="1s", statistics=(Count(epsilon=0.2),), '
    'rankings=(Ranking(name="busiest", by="count_20s", largest=5, having="count_20s > 1"),)'
)


def undisturbed(referee: Referee, source: Records) -> dict[int, Ranking]:
    """The final rankings, by tick, of parties that come to each tick at once."""
    _, effects = of_parties(referee, source)
    found = [decode_ranking(value) for _, value, _ in effects.emissions]
    return {it.window_end_ms: it for it in map(unplaced, found) if not it.provisional}


def unplaced(ranking: Ranking) -> Ranking:
    """Return a ranking without the offset of the clock with which it was due."""
    return msgspec.structs.replace(ranking, source_offset=0)


def test_rankings_of_two_workers_one_of_them_killed(make_stage: MakeStage) -> None:
    """Each record that is final is that of an undisturbed run, and none is missing."""
    stage = make_stage(partitions=2, body=BODY)
    file = stage.file.with_name("ranked.toml")
    file.write_text(f'of = "{stage.file.name}"\npatience = "30s"\n')
    referee = Referee(of=stage.topology, patience="30s")
    produce(stage.bootstrap, stage.topology.source, events(4_000))
    with (
        stage.worker("a") as one,
        stage.worker("b") as two,
        Worker(file, stage.data_dir("referee"), stage.bootstrap) as judge,
    ):
        for worker in (one, two, judge):
            worker.await_ready()
        stage.await_commit_after(0)
        one.kill()
        produce(stage.bootstrap, stage.topology.source, events(4_000, start=4_000))
        stage.await_settled([two])
        expected = undisturbed(referee, stage.read(stage.topology.source))
        assert len(expected) > 5
        assert sum(len(it.places) for it in expected.values()) > 10

        def final() -> dict[int, Ranking]:
            found: dict[int, Ranking] = {}
            for records in stage.read(referee.output_topic).values():
                for record in records:
                    ranking = unplaced(decode_ranking(record.value or b""))
                    if not ranking.provisional:
                        same = found.setdefault(ranking.window_end_ms, ranking)
                        assert same == ranking
            return found

        wait_until(lambda: final().keys() == expected.keys(), "all rankings", DRAIN_S)
        assert final() == expected
        two.stop()
        judge.stop()
