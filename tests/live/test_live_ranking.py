"""Rankings of a partition's keys: the figures are those of the keys, in order."""

from math import isnan

from hypothesis import given, settings

from slidestat.declare.statistics import Count, LandmarkCount
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission import FigureTable
from slidestat.engine.partition import PartitionProcessor
from slidestat.live.live_query import LiveQuery
from slidestat.live.live_ranking import KeySlice, LiveRanking, figures_to_rank_by
from slidestat.schemas.query import RankingAnswer
from slidestat.testing.driver import TopologyDriver
from tests.engine.cases import Case, cases, laws
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of
from tests.live.test_live_query import every_key, flush, split


@settings(laws, max_examples=40)
@given(cases(max_size=40))
def test_a_ranking_has_the_figures_of_the_keys(case: Case) -> None:
    """After any records, by any figure, in slices of any size: each key that has the figure and is
    not forgotten has its place, with the figure that a question for the key has.
    """
    names = [*figures_to_rank_by(case.topology)]
    if not names:
        return
    topology, random, store = case.topology, case.random, MemoryStore()
    processor = PartitionProcessor(topology, SOURCE, PARTITION, store)
    for batch in split(case.records, random):
        processor.process(batch_of(batch))
        if random.random() < 0.3:
            flush(processor, store)
    by, smallest = random.choice(names), random.random() < 0.5
    ranked = LiveRanking(topology, by, 100, smallest=smallest)
    view = processor.view()
    keys = every_key(view)
    size = random.choice([1, 3, 1_000])
    parts = [
        ranked.part(KeySlice.of(view, keys[start : start + size]))
        for start in range(0, len(keys), size)
    ]
    found: RankingAnswer = ranked.answer(ranked.joined(parts))

    place = topology.names_over_windows[by][0]
    models = FigureTable(topology, topology.window_lengths).numbered.models()
    model = models[place]
    question = LiveQuery(topology, statistics=[model.statistic])
    expected = []
    for key in keys:
        answer, state = question.answer(view, key), view.state(key)
        if answer is None or state is None or not state.number:
            continue
        end = max(view.watermark, state.watermark) + 1
        if topology.sees_span_alone and state.last_time < end - topology.span_length.length:
            continue
        [figure] = [
            it
            for it in answer.figures
            if (it.statistic, it.window_ms, it.window_events, it.quantile)
            == (model.statistic, model.window_ms, model.window_events, model.quantile)
            and (it.at_least, it.below, it.item) == (model.at_least, model.below, model.item)
        ]
        if figure.estimate is not None and not isnan(figure.estimate):
            expected.append((figure.estimate * (1 if smallest else -1), key, figure))
    expected.sort(key=lambda it: it[:2])
    assert [(it.key, it.figure) for it in found.places] == [it[1:] for it in expected[:100]]
    assert [it.place for it in found.places] == list(range(1, len(found.places) + 1))


def test_one_statistic_of_keys_that_are_kept_for_longer() -> None:
    """A total since the first event keeps a key beyond the span: other figures can be asked for."""
    asked = Topology(
        name="t",
        source="s",
        span="1m",
        every="10s",
        statistics=(Count(), LandmarkCount()),
        forget_after="1h",
    )
    driver = TopologyDriver(asked)
    start = 1_764_072_000_000
    driver.send(*({"key": "k", "time": start + at, "value": 1} for at in range(5)))
    driver.advance_to(start + 120_000)
    driver.send({"key": "other", "time": start + 120_000, "value": 1})
    answer = driver.query("k", statistics=["count"])
    assert [(it.statistic, it.estimate) for it in answer.figures] == [("count", 0)]
    ranking = driver.ranking("count_1m", largest=5)
    assert [(it.key, it.figure.estimate) for it in ranking.places] == [("other", 1), ("k", 0)]
