"""Questions to the live state of a referee: any window over all parties, without a trace."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Quantiles
from slidestat.errors import SlidestatError
from slidestat.referee.live_referee import RefereeQuery
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.schemas.emission import Emission
from slidestat.schemas.query import KeyAnswer
from slidestat.testing.records import MemoryStore
from tests.engine.cases import laws, topology
from tests.engine.checks import check_figures, sent
from tests.engine.memory import SOURCE, batch_of, rows_of
from tests.engine.model import Record
from tests.engine.stages import Stage, clock, of_parties, publish, stages, streams_of
from tests.engine.streams import START_MS, encode

laws = settings(laws, max_examples=24)


def processor_of(stage: Stage, store: MemoryStore | None = None) -> RefereeProcessor:
    return RefereeProcessor(stage.referee, stage.referee.source, 3, store or MemoryStore())


def before(stage: Stage, count: int) -> RefereeProcessor:
    """A referee that has read the first `count` of the records."""
    processor = processor_of(stage)
    if count:
        processor.process(batch_of(stage.published[:count]))
    return processor


def windows_of(stage: Stage, *lengths: int) -> list[str]:
    """Some lengths that the referee can be asked for: in ms, or in events up to the span."""
    span = stage.referee.of.span_length
    if span.of_events:
        return sorted({f"{n % span.length + 1} events" for n in lengths})
    return [f"{n}ms" for n in lengths]


@laws
@given(stages(), st.floats(0, 1), st.lists(st.integers(1, 1_000), min_size=1, max_size=3))
def test_an_answer_is_that_of_the_parties_named(
    stage: Stage, share: float, lengths: list[int]
) -> None:
    """At any moment, of every statistic over any windows: the exact figure over the events of all
    parties that are named lies within the bounds, the estimate within the promise.
    """
    view = before(stage, round(share * len(stage.published))).view()
    windows = windows_of(stage, *lengths)
    question = RefereeQuery(stage.referee, windows)
    asked = Referee(of=stage.referee.of, patience="1s", windows=windows).answering
    for key in view.keys("", "", 100):
        answer = sent(question.answer(view, key))
        assert answer.window_end_ms == view.watermark
        values = of_parties(asked, stage, key, answer.parties or (), answer.window_end_ms)
        check_figures(asked, answer.figures, values)


@laws
@given(stages())
def test_an_answer_is_the_emission_of_its_tick(stage: Stage) -> None:
    """Whenever the tick that is answered for has just been emitted: same end, figures and parties;
    over those windows that are emitted.
    """
    processor, question = processor_of(stage), RefereeQuery(stage.referee)
    for record in stage.published:
        emitted = [
            msgspec.json.decode(value, type=Emission)
            for _, value, _ in processor.process(batch_of([record])).emissions
        ]
        view = processor.view()
        for emission in emitted:
            if emission.window_end_ms != view.watermark or not view.has(emission.key):
                continue  # Its last one: the span has left it.
            answer = question.answer(view, emission.key)
            answer = msgspec.json.decode(msgspec.json.encode(answer), type=KeyAnswer)
            assert answer.figures == emission.figures
            assert (answer.parties, answer.absent) == (emission.parties, emission.absent)


@laws
@given(stages())
def test_a_stream_is_there_while_its_span_has_something(stage: Stage) -> None:
    """From the first tick after its events that is answered for, until the span has left all that
    the parties have told of it; and the keys are those, in order, page by page.
    """
    processor = before(stage, len(stage.published))
    view, declared = processor.view(), stage.referee.of
    expected = set()
    for model in stage.models:
        for key, events in streams_of(declared, model).items():
            ticks = {(e.time // declared.every_ms + 1) * declared.every_ms for e in events}
            told = {tick for tick in ticks if tick <= min(view.watermark, clock(declared, model))}
            span = declared.span_length
            if told and (span.of_events or max(told) + span.length > view.watermark):
                expected.add(key)
    keys = list(view.keys("", "", 100))
    assert keys == sorted(expected)
    assert view.keys_held == len(keys)
    for place, key in enumerate(keys):
        assert list(view.keys(key, "", 1)) == [key]
        assert list(view.keys("", key, 100)) == keys[place + 1 :]
    assert RefereeQuery(stage.referee).answer(view, "nobody") is None


@laws
@given(stages(), st.integers(0, 2**32))
def test_a_question_leaves_no_trace(stage: Stage, seed: int) -> None:
    """Asked after each batch or never: the same emissions and the same bytes to store. Read again
    from the store, it answers the same.
    """
    random, question = Random(seed), RefereeQuery(stage.referee, windows_of(stage, 77))
    asked, left = processor_of(stage), processor_of(stage)
    start = 0
    while start < len(stage.published):
        end = start + random.randint(1, 40)
        batch = batch_of(stage.published[start:end])
        assert asked.process(batch).emissions == left.process(batch).emissions
        for key in asked.view().keys("", "", 100):
            question.answer(asked.view(), key)
        start = end
    snapshot = asked.snapshot()
    assert snapshot == left.snapshot()
    if snapshot is None:
        return
    again = processor_of(stage, MemoryStore(rows_of(snapshot))).view()
    view = asked.view()
    assert again.watermark == view.watermark
    for key in [*view.keys("", "", 100), "nobody"]:
        answers = (question.answer(again, key), question.answer(view, key))
        assert len(set(map(msgspec.json.encode, answers))) == 1


def test_nothing_is_answered_before_the_first_tick() -> None:
    """While a party may still come within the patience, there is nothing to ask for."""
    declared = topology(publish="partition", statistics=(Count(),))
    rows = [Record(i, None, encode("k", START_MS + t, 1), START_MS) for i, t in enumerate((0, 250))]
    referee = Referee(of=declared, patience="1h")
    published = enumerate(publish(declared, 0, 2, rows))
    processor = RefereeProcessor(referee, referee.source, 0, MemoryStore())
    processor.process(batch_of([Record(i, r.key, r.value, r.timestamp) for i, r in published]))
    view = processor.view()
    assert view.watermark < START_MS
    assert list(view.keys("", "", 10)) == []
    assert RefereeQuery(referee).answer(view, SOURCE) is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((["2h"], [], []), "window is '2h'"),
        ((["5 events"], [], []), "window is '5 events'"),
        (([], ["cuont"], []), "statistic is 'cuont'"),
        (([], ["count"], [0.5]), "quantile is given"),
        (([], [], [1.5]), "quantile"),
    ],
)
def test_what_is_not_kept_is_refused(
    asked: tuple[list[str], list[str], list[float]], said: str
) -> None:
    """As of a topology, naming the parameter."""
    declared = topology(publish="partition", statistics=(Count(), Quantiles(epsilon=0.1)))
    with pytest.raises(SlidestatError, match=said):
        RefereeQuery(Referee(of=declared, patience="1s"), *asked)
