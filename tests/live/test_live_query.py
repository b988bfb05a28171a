"""Questions to a partition: right at any moment, for any window, and without a trace."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.declare.statistics import Count, Quantiles
from slidestat.declare.topology import Topology
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.view import PartitionView
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery, stored_view
from slidestat.schemas.alert import AlertChange
from slidestat.schemas.query import KeyAnswer
from tests.engine.cases import EVERY_STATISTIC, TOPOLOGIES, Case, cases, laws, topology
from tests.engine.checks import check_figure, check_figures, emissions_of, sent
from tests.engine.exact import exact
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    SmallMemoryProcessor,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import (
    Model,
    Record,
    inside,
    is_forgotten,
    of_all,
    since_forgotten,
)
from tests.engine.streams import START_MS, confirmed, encode

ALERTING = sorted(name for name, topology in TOPOLOGIES.items() if topology.alerts)


def split(records: Sequence[Record], random: Random) -> list[Sequence[Record]]:
    """The records in batches."""
    batches = []
    while records:
        size = random.choice([1, 3, 40])
        batches.append(records[:size])
        records = records[size:]
    return batches


def every_key(view: PartitionView) -> list[str]:
    return list(view.keys("", "", 10**6))


def flush(processor: PartitionProcessor, store: MemoryStore) -> None:
    """Make durable what the processor has."""
    snapshot = processor.snapshot()
    if snapshot is not None:
        store.write(rows_of(snapshot))
        processor.written()


def any_windows(topology: Topology, random: Random) -> tuple[str, ...]:
    """Some lengths up to the span."""
    span = topology.span_length
    unit = " events" if span.of_events else "ms"
    return tuple(f"{random.randint(1, span.length)}{unit}" for _ in range(3))


@laws
@given(cases(max_size=40), st.sampled_from([PartitionProcessor, SmallMemoryProcessor]))
def test_an_answer_is_right_at_any_moment_for_any_window(
    case: Case, kind: type[PartitionProcessor]
) -> None:
    """After any record, over windows that nobody declared: the exact figures of all on-time events
    up to the watermark lie within the bounds, the estimates within the promise.
    """
    random, store = case.random, MemoryStore()
    processor = kind(case.topology, SOURCE, PARTITION, store)
    read = 0
    for batch in split(case.records, random):
        processor.process(batch_of(batch))
        read += len(batch)
        if random.random() < 0.3:
            flush(processor, store)
    asked = replace(
        case.topology, windows=any_windows(case.topology, random), alerts=(), derived=()
    )
    question = LiveQuery(case.topology, asked.windows)
    of_key = Model(case.topology, case.records).of_key()
    for key in every_key(processor.view()):
        absorbed = [event for event in of_key[key] if event.time <= processor.watermark]
        found = question.answer(processor.view(), key)
        if is_forgotten(asked, absorbed, processor.watermark):
            assert found is None
            continue
        answer = sent(found)
        assert answer.window_end_ms == processor.watermark + 1
        absorbed = list(since_forgotten(asked, absorbed))
        end = answer.window_end_ms
        values = {
            n: [event.value for event in inside(asked, absorbed, n, end)]
            for n in asked.window_lengths
        }
        values |= of_all(asked, absorbed, end)
        check_figures(asked, [it for it in answer.figures if not it.derived], values)


@settings(laws, max_examples=40)
@given(cases(max_size=30), st.sampled_from(["0s", "30ms"]), st.booleans())
def test_an_answer_is_the_emission_at_the_same_point(
    case: Case, lateness: str, of_events: bool
) -> None:
    """Where the windows of an answer end at a tick, its figures are those of the emission that the
    key has there, to the last bit.
    """
    statistics = tuple(s for s in EVERY_STATISTIC if not (of_events and s.needs_time))
    law = topology(
        every="1ms",
        lateness=lateness,
        statistics=statistics,
        **({"span": "40 events", "windows": ("7 events",)} if of_events else {}),
    )
    processor = PartitionProcessor(law, SOURCE, PARTITION, MemoryStore())
    question = LiveQuery(law)
    answers: dict[tuple[str, int], KeyAnswer] = {}
    compared = 0
    # It passes all ticks that were asked about.
    last = confirmed(case.records[-1].offset + 1, START_MS + 10_000_000)
    for batch in [*([record] for record in case.records), last]:
        effects = processor.process(batch_of(batch))
        for emission in emissions_of(outputs_of(effects)):
            answer = answers.get((emission.key, emission.window_end_ms))
            if answer is not None:
                compared += 1
                assert msgspec.json.encode(answer.figures) == msgspec.json.encode(emission.figures)
        for key in [] if batch is last else every_key(processor.view()):
            found = question.answer(processor.view(), key)
            assert found is not None
            answers[key, found.window_end_ms] = found
    # Without a lateness, the key of the newest event is emitted at the very next tick.
    assert compared or not answers or lateness != "0s"


@settings(laws, max_examples=60)
@given(cases(max_size=40))
def test_a_question_leaves_no_trace(case: Case) -> None:
    """With questions of all keys after each batch, and without: the same outputs, the same states,
    the same checkpoints.
    """
    batches = split(case.records, case.random)
    ends = []
    for is_asked in (False, True):
        store = MemoryStore()
        processor = SmallMemoryProcessor(case.topology, SOURCE, PARTITION, store)
        outputs = []
        for i, batch in enumerate(batches):
            outputs += outputs_of(processor.process(batch_of(batch)))
            if is_asked:
                question = LiveQuery(case.topology)
                for key in [*every_key(processor.view()), "nobody"]:
                    question.answer(processor.view(), key)
            if i % 3 == 0:
                flush(processor, store)
        flush(processor, store)
        ends.append((outputs, list(store.scan()), store.checkpoint()))
    assert ends[0] == ends[1]


@laws
@given(cases(max_size=40), st.sampled_from(["", "a", "k", "k1", "к", "\0", "zz"]))
def test_pages_hold_each_key_once_in_order(case: Case, prefix: str) -> None:
    """Whatever is in memory, in a flush under way or stored, and whatever the size of a page: all
    keys with a state that begin with the prefix, in order, each once.
    """
    random, store = case.random, MemoryStore()
    processor = SmallMemoryProcessor(case.topology, SOURCE, PARTITION, store)
    is_writing = False
    for batch in split(case.records, random):
        processor.process(batch_of(batch))
        if not is_writing and random.random() < 0.5:
            flush(processor, store)
        elif not is_writing and random.random() < 0.2:
            is_writing = processor.snapshot() is not None
    view = processor.view()
    everyone = [key for key, _ in sorted(Model(case.topology, case.records).of_key().items())]
    wanted = [key for key in everyone if key.startswith(prefix) and view.has(key)]
    limit = random.choice([1, 2, 5])
    found: list[str] = []
    while page := list(view.keys(prefix, found[-1] if found else "", limit)):
        assert len(page) <= limit
        found += page
    assert found == wanted


@settings(laws, max_examples=40)
@given(
    cases(max_size=60, topologies=ALERTING),
    st.sampled_from([PartitionProcessor, SmallMemoryProcessor]),
)
def test_a_key_has_the_alerts_that_were_told(case: Case, kind: type[PartitionProcessor]) -> None:
    """At any moment those that fire are those whose last change says so, as surely and since then;
    and each of those that are pending has told nothing since.
    """
    random, store = case.random, MemoryStore()
    processor = kind(case.topology, SOURCE, PARTITION, store)
    firing: dict[tuple[str, str], tuple[str, int]] = {}
    question = LiveQuery(case.topology)
    for batch in split(case.records, random):
        for record in processor.process(batch_of(batch)).alerts:
            change = msgspec.json.decode(record.value, type=AlertChange)
            if change.state == "firing":
                firing[change.key, change.alert] = change.certainty, change.window_end_ms
            else:
                del firing[change.key, change.alert]
        told: dict[tuple[str, str], tuple[str, int]] = {}
        for key in every_key(processor.view()):
            answer = question.answer(processor.view(), key)
            for it in (answer and answer.alerts) or []:
                if it.state == "firing":
                    told[key, it.alert] = it.certainty, it.since_ms
                else:
                    assert (key, it.alert) not in firing
        assert told == firing
        if random.random() < 0.3:
            flush(processor, store)


def test_a_partition_that_is_only_stored_answers_the_same() -> None:
    """A worker that has just started, and whose partition brings nothing, gives the answer of the
    one before; also where a crash left states ahead of the checkpoint.
    """
    for name in ("every statistic, late", "last events, late"):
        law = TOPOLOGIES[name]
        store = MemoryStore()
        processor = PartitionProcessor(law, SOURCE, PARTITION, store)
        question = LiveQuery(law)
        body = [encode("ab"[i % 2], START_MS + 20 * i, i) for i in range(60)]
        records = [Record(i, None, value, 0) for i, value in enumerate(body)]
        processor.process(batch_of(records[:40]))
        flush(processor, store)
        before = sent(question.answer(processor.view(), "a"))
        stored = sent(question.answer(stored_view(law, PARTITION, store), "a"))
        # What waits in the buffer is read again after a restart.
        next_offset = store.newest_checkpoint(law).next_offset
        assert stored == msgspec.structs.replace(before, next_offset=next_offset)
        processor.process(batch_of(records[40:]))
        snapshot = processor.snapshot()
        assert snapshot is not None
        store.write(list(snapshot.states.items()))
        ahead = sent(question.answer(processor.view(), "a"))
        crashed = sent(question.answer(stored_view(law, PARTITION, store), "a"))
        assert crashed.figures == ahead.figures
        assert crashed.window_end_ms == ahead.window_end_ms


def test_a_store_of_another_topology_is_refused() -> None:
    """A changed topology does not read the states of the one before."""
    law = TOPOLOGIES["no lateness"]
    store = MemoryStore()
    processor = PartitionProcessor(law, SOURCE, PARTITION, store)
    processor.process(batch_of([Record(0, None, encode("a", START_MS, 1), 0)]))
    flush(processor, store)
    with pytest.raises(SlidestatError, match="another topology"):
        stored_view(topology(span="2s"), PARTITION, store)


def test_other_quantiles_than_the_declared_ones() -> None:
    """Any quantiles can be asked for; they are within the error that the declared ones have."""
    law = topology(statistics=(Count(), Quantiles(epsilon=0.05, quantiles=(0.5,))))
    processor = PartitionProcessor(law, SOURCE, PARTITION, MemoryStore())
    values = [(i * 7919) % 1_000 for i in range(1_000)]
    processor.process(
        batch_of([Record(i, None, encode("a", START_MS, v), 0) for i, v in enumerate(values)])
    )
    quantiles = [0, 0.001, 0.25, 0.9, 0.999, 1]
    answer = LiveQuery(law, ["1s"], ["quantile"], quantiles).answer(processor.view(), "a")
    assert answer is not None
    assert [figure.quantile for figure in answer.figures] == quantiles
    asked = Quantiles(epsilon=0.05, quantiles=quantiles)
    window = list(map(Fraction, values))
    for right, figure in zip(exact(asked, window, 1), answer.figures, strict=True):
        check_figure(asked, figure, right, window)


def test_ranks_of_values_hold_over_windows_of_time_and_of_events() -> None:
    """Of values of both signs, under two errors."""
    events = [(START_MS + i, (i * 7919) % 1_000 - 300) for i in range(1_000)]
    statistics = (Count(), Quantiles(), Quantiles(epsilon=0.5, name="rough"))
    for span, windows in (("1s", ["10ms", "1s"]), ("1000 events", ["10 events", "1000 events"])):
        law = topology(statistics=statistics, span=span, windows=windows)
        processor = PartitionProcessor(law, SOURCE, PARTITION, MemoryStore())
        records = [Record(i, None, encode("a", *event), 0) for i, event in enumerate(events)]
        processor.process(batch_of(records))
        question = LiveQuery(law, windows, ranks=[-150, 0, 0.1, 250.0])
        answer = question.answer(processor.view(), "a")
        assert answer is not None
        assert answer.figures == []
        assert [rank.statistic for rank in answer.ranks or ()] == ["quantile"] * 8 + ["rough"] * 8
        for rank in answer.ranks or ():
            length = rank.window_ms or rank.window_events or 0
            values = [value for _, value in events[-length:]]
            up_to = sum(value <= rank.value for value in values)
            sides = ((rank.at_most, up_to), (rank.more_than, length - up_to))
            shares = ((rank.share_at_most, up_to), (rank.share_more_than, length - up_to))
            for bounds, right in (*sides, *((share, n / length) for share, n in shares)):
                assert bounds.lower is not None
                assert bounds.upper is not None
                assert bounds.lower <= right <= bounds.upper


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"windows": ["2s"]}, "window is '2s', longer than the '1s'"),
        ({"windows": ["0s"]}, "window is 0"),
        ({"windows": ["soon"]}, "window is 'soon', which is no window"),
        ({"windows": ["5 events"]}, "window is '5 events', but what is kept is the last '1s'"),
        ({"statistics": ["coun"]}, "statistic is 'coun'.*Did you mean 'count'"),
        ({"statistics": ["p95"]}, "statistic is 'p95'.*Ask for the quantile 0.95. It has"),
        ({"statistics": [""]}, "statistic is ''"),
        ({"quantiles": [1.5]}, "quantiles are 1.5"),
        ({"quantiles": [float("nan")]}, "quantiles are"),
        ({"quantiles": [0.5], "statistics": ["count"]}, "no statistic that is asked for"),
        ({"ranks": [float("inf")]}, "rank is inf, which is no finite number"),
        ({"ranks": [10**400]}, "rank is 1000"),
        ({"ranks": ["5"]}, "rank is '5', which is no finite number"),
        ({"ranks": [1], "quantiles": [0.5]}, "quantile and rank are given together"),
        ({"ranks": [1], "statistics": ["rank_quantile"]}, "cannot be asked for ranks"),
        # A text would be asked for letter by letter.
        ({"items": "ab"}, "items is 'ab', which is not a list"),
        ({"statistics": "count"}, "statistics is 'count', which is not a list"),
        ({"windows": None}, "windows is None, which is not a list"),
        ({"quantiles": 0.5}, "quantiles is 0.5, which is not a list"),
        ({"ranks": 5}, "ranks is 5, which is not a list"),
        ({"items": [404]}, "item is 404, which is no text"),
        ({"where": 5}, "where is 5"),
    ],
)
def test_what_cannot_be_asked_is_refused(question: dict[str, Any], says: str) -> None:
    """The error names the parameter, and says what would be right."""
    with pytest.raises(SlidestatError, match=says):
        LiveQuery(TOPOLOGIES["every statistic"], **question)
