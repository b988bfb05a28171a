"""Synopses of the parts of a stream, in one state."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from slidestat.declare.statistics import TopItems
from slidestat.declare.statistics.parted import Parted, run_parted
from slidestat.declare.statistics.runner import ItemColumn, Work, figures_of
from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch
from slidestat.synopses.core.parameters import SumParameters
from slidestat.synopses.exponential_histogram.histogram import run_batch
from tests.golden.golden import HOUR, Golden, steps

PARAMETERS = SumParameters(epsilon=0.1, span=HOUR, decimals=2)
STEPS, TIMES = steps(600)
PARTS = 3
NO_QUERIES = np.zeros(0, np.int64)
WINDOWS = np.array([HOUR // 9, HOUR // 3, HOUR])
WEIGHED = TopItems(field="path", weight="bytes", epsilon=0.1, decimals=1).runner(HOUR, ("path",))


def _run(states: Sequence[bytes | None], batch: Batch) -> tuple[list[bytes], Floats]:
    result = run_batch(PARAMETERS, states, batch)
    return result.states, figures_of(result)


def _made(parts: Sequence[int]) -> bytes:
    """The state of events of these parts, in turn."""
    of_events = np.resize(np.array(parts, np.int64), len(STEPS) if parts else 0)
    count = len(of_events)
    events = Parted(np.array([0, count]), TIMES[:count], of_events, STEPS[:count] * 0.25)
    no_starts = np.zeros(2, np.int64)
    states, _ = run_parted(_run, PARTS, [None], events, no_starts, NO_QUERIES, np.array([HOUR]))
    return states[0]


def _facts(data: bytes) -> object:
    """The sum of each part, in three windows: estimate, lower and upper."""
    no_events = Parted(np.zeros(2, np.int64), NO_QUERIES, NO_QUERIES, np.zeros(0))
    asked = np.array([0, 1]), np.array([TIMES[-1] + 1]), WINDOWS
    states, answers = run_parted(_run, PARTS, [data], no_events, *asked)
    assert states == [data]
    return answers.tolist()


def _work(count: int, *asked: Integers) -> Work:
    """Events of some paths, with how many bytes each has."""
    paths = ItemColumn([f"/{i}" for i in range(9)], STEPS[:count].astype(np.int64) % 9)
    numbers, items = {("bytes",): STEPS[:count] ** 3 * 0.3}, {("path",): paths}
    return Work(np.array([0, count]), TIMES[:count], numbers, items, *asked)


def _weighed(count: int) -> bytes:
    return WEIGHED.run([None], _work(count, np.zeros(2, np.int64), NO_QUERIES, WINDOWS)).states[0]


def _listed(data: bytes) -> object:
    """The items of which most bytes came, in three windows: estimate, lower and upper."""
    work = _work(0, np.array([0, 1]), np.array([TIMES[-1] + 1]), WINDOWS)
    answered = WEIGHED.run([data], work)
    assert answered.states == [data]
    return [[list(one) for one in listed] for listed in answered.lists[0]]


GOLDEN = [
    Golden("parted-1/weighed-items", _listed, partial(_weighed, len(STEPS)), version_at=0),
    Golden("parted-1/three-weighed-items", _listed, partial(_weighed, 3), version_at=0),
    Golden("parted-1/three-parts", _facts, partial(_made, [0, 1, 2, 2]), version_at=0),
    Golden("parted-1/one-of-three", _facts, partial(_made, [1]), version_at=0),
]
