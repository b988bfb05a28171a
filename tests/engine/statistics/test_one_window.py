"""Rank quantiles of one window of as many events as ever: when they are, and a way over."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from slidestat.declare.statistics import Count, Maximum, Quantiles, RankQuantiles
from slidestat.declare.topology import Topology
from slidestat.engine.checkpoints.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from slidestat.engine.partition import PartitionProcessor
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from tests.engine.cases import topology
from tests.engine.checks import check_figures, emissions_of, sent
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, outputs_of, rows_of
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode

RANKS = RankQuantiles(epsilon=0.2, quantiles=(0, 0.3, 0.5, 1))
ONE = topology(span="700 events", windows=(), every="50ms", statistics=(RANKS, Maximum()))
TWO = replace(ONE, windows=("700 events", "90 events"))


def _records(values: Sequence[float], first: int = 0) -> list[Record]:
    return [
        Record(first + i, b"k", encode("k", START_MS + first + i, value), START_MS + first + i)
        for i, value in enumerate(values)
    ]


def _through(law: Topology, store: MemoryStore, records: list[Record]) -> PartitionProcessor:
    processor = PartitionProcessor(law, SOURCE, PARTITION, store)
    for start in range(0, len(records), 333):
        effects = processor.process(batch_of(records[start : start + 333]))
        emissions = emissions_of(outputs_of(effects))
        for emission in emissions:
            end = emission.window_end_ms - START_MS
            values = [Fraction(repr(value)) for value in EXACT[max(0, end - 700) : end]]
            check_figures(law, emission.figures, {700: values, 90: values[-90:]})
    snapshot = processor.snapshot()
    assert snapshot is not None
    store.write(rows_of(snapshot))
    processor.written()
    return processor


VALUES = np.random.default_rng(1).normal(0, 1, 3_000).round(3)
EXACT = VALUES.tolist()


@pytest.mark.parametrize(
    "law",
    [
        TWO,
        replace(ONE, windows=("90 events",)),
        replace(ONE, span="1m"),
        replace(ONE, statistics=(RANKS, Count())),
        replace(ONE, statistics=(RANKS, Maximum(field="other"))),
        replace(ONE, statistics=(replace(RANKS, name="some", where="value > 0"),)),
    ],
    ids=["two", "shorter", "time", "an event without", "another field", "chosen"],
)
def test_what_is_asked_for_more_is_kept_for_windows_of_any_length(law: Topology) -> None:
    """A window with now more of the statistic's events and now less is one of these, too."""
    assert "one window" not in law.state_meaning
    assert law.promise_of(law.statistics[0], 90) == law.statistics[0].promise(700)


def test_one_window_is_kept_in_less_and_said_to_be() -> None:
    """Its states have a meaning of their own; shorter windows have as many events of error."""
    assert ONE.state_meaning["one window"] == "quantiles, epsilon 0.2, of value"
    assert replace(ONE, statistics=(RANKS, Quantiles())).state_meaning["one window"]
    share = RANKS.promise(700).share_error
    assert ONE.promise_of(RANKS, 700).share_error == share
    assert ONE.promise_of(RANKS, 350).share_error == 2 * share
    assert ONE.promise_of(RANKS, 7).share_error == 1


def test_bounds_hold_in_emissions_and_in_answers_over_any_window() -> None:
    """While the window fills and after; also of windows that nobody declared."""
    processor = _through(ONE, MemoryStore(), _records(VALUES.tolist()))
    seen = EXACT[: processor.watermark + 1 - START_MS]
    for windows in (("700 events",), ("350 events", "13 events"), ("1 events",)):
        question = LiveQuery(ONE, windows, ["rank_quantile"])
        answer = sent(question.answer(processor.view(), "k"))
        lengths = [int(window.split()[0]) for window in windows]
        asked = replace(ONE, windows=windows, statistics=(RANKS,))
        exact = {n: [Fraction(repr(value)) for value in seen[-n:]] for n in lengths}
        check_figures(asked, answer.figures, exact)
        assert {figure.share_error for figure in answer.figures} == {
            ONE.promise_of(RANKS, n).share_error for n in lengths
        }


def test_states_of_any_window_go_on_as_those_of_one() -> None:
    """With the bytes that the events would have given a topology of one window from the start."""
    records = _records(VALUES.tolist())
    before, always = MemoryStore(), MemoryStore()
    _through(TWO, before, records[:1_500])
    kept = next(iter(before.synopses(TWO).values()))[1]
    _through(ONE, before, records[1_500:])
    _through(ONE, always, records)
    assert before.synopses(ONE) == always.synopses(ONE)
    assert len(next(iter(always.synopses(ONE).values()))[1][0]) < len(kept[0])


def test_states_of_one_window_are_refused_where_more_is_asked() -> None:
    """With how to go on: they do not have what another window needs."""
    stored = encode_checkpoint(Checkpoint(7), ONE.state_label)
    assert decode_checkpoint(stored, ONE.state_meaning) == Checkpoint(7)
    assert decode_checkpoint(encode_checkpoint(Checkpoint(7), TWO.state_label), ONE.state_meaning)
    for law in (TWO, replace(ONE, windows=("90 events",))):
        with pytest.raises(SlidestatError, match="for one window") as refused:
            decode_checkpoint(stored, law.state_meaning)
        assert "new name" in refused.value.advice
