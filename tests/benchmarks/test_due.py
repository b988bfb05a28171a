"""Latency counts from the record by which an answer was due, by each system's own rule."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.delay.due import SUBJECTS, Answer, Scope, Subject, latencies
from benchmarks.harness.systems import SYSTEMS
from benchmarks.harness.workload import Workload

# Keys 0 and 2 are of partition 0, key 1 of partition 1.
KEYS = np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int64)
TIMES = np.array([100, 200, 300, 1_010, 1_020, 1_030, 2_100, 2_200], np.int64)
EVENTS = Workload(3, 2, KEYS, TIMES, np.full(8, 125, np.int64))
SECOND = Answer(key=2, start=0, end=1_000, counted=1, stamp=3_000)


def of(scope: Scope, found: Sequence[Answer], wait_ms: int = 0, since_ms: int = 0) -> list[int]:
    subject = Subject("any", "", "", scope, wait_ms)
    return latencies(subject, EVENTS, found, since_ms).since_due.tolist()


@pytest.mark.parametrize(
    ("scope", "wait_ms", "cause"),
    [
        (Scope.KEY, 0, 1_030),
        (Scope.PARTITION, 0, 1_010),
        (Scope.TOPIC, 0, 1_010),
        (Scope.TOPIC, 15, 1_020),
        (Scope.TOPIC, 1_000, 2_100),
        (Scope.PARTITION, 10, 1_010),
        (Scope.PARTITION, 11, 1_030),
    ],
)
def test_a_window_is_due_by_the_first_record_after_it(
    scope: Scope, wait_ms: int, cause: int
) -> None:
    """Of the key, the partition or the topic, and no sooner than the wait after the end."""
    assert of(scope, [SECOND], wait_ms) == [3_000 - cause]


def test_an_answer_has_an_age() -> None:
    """It is counted from the end of its window, whatever record it waited for."""
    found = [SECOND, Answer(key=1, start=0, end=1_000, counted=1, stamp=1_500)]
    took = latencies(Subject("any", "", "", Scope.KEY), EVENTS, found, 0)
    assert took.since_end.tolist() == [2_000, 500]
    assert took.since_due.tolist() == [1_970, 480]


def test_an_update_is_due_by_its_own_record() -> None:
    """The count of n is that of the window's n-th record, whatever other windows have."""
    found = [
        Answer(0, 0, 60_000, 1, 150),
        Answer(0, 0, 60_000, 2, 1_015),
        Answer(0, 0, 60_000, 3, 2_140),
        Answer(1, 1_000, 2_000, 1, 1_100),
    ]
    assert of(Scope.RECORD, found) == [50, 5, 40, 80]


def test_what_no_record_closed_has_no_latency() -> None:
    """A window that a clock closed after the last record is left out; so is what came early on."""
    late = Answer(2, 2_000, 3_000, 1, 4_000)
    assert of(Scope.KEY, [late]) == []
    assert of(Scope.KEY, [late, SECOND]) == [1_970]
    assert of(Scope.KEY, [SECOND], since_ms=1_030) == [1_970]
    assert of(Scope.KEY, [SECOND], since_ms=1_031) == []


def test_each_library_has_a_latency() -> None:
    """One system of each library that gives answers is measured, in tumbling windows."""
    libraries = {name.partition("_tumbling")[0] for name in SYSTEMS if "_tumbling" in name}
    measured = {name.partition("_tumbling")[0] for name in SUBJECTS}
    assert libraries <= measured
