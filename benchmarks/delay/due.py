"""When an answer is due, by each system's own rule; how long after that it came, and after its
window's end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from benchmarks.harness.answers import Answers
from benchmarks.harness.systems import OURS
from benchmarks.harness.workload import Workload
from slidestat.synopses.core.arrays import Integers

_SECOND_MS = 1_000
_CLOSING = "tumbling_second"


class Scope(StrEnum):
    """Whose next record closes a window; or an answer is of each record itself."""

    KEY = "key"
    PARTITION = "partition"
    TOPIC = "topic"
    RECORD = "record"


@dataclass(frozen=True)
class Subject:
    """A system as it is measured here: the window that it is given; when an answer is due: by the
    first record of `scope` that is `wait_ms` or more after the window's end; its answers, of which
    those that its `answers` name must be there. Ours has none: `check` looks into them.
    """

    system: str
    window: str
    rule: str
    scope: Scope
    wait_ms: int = 0
    answers: Answers | None = None


def _seconds(wait_ms: int) -> Answers:
    """Answers of tumbling seconds, which must be there so long after their end."""
    return Answers("{group}-answers", "tumbling", wait_ms, length_ms=_SECOND_MS)


SUBJECTS = {
    subject.system: subject
    for subject in (
        Subject(OURS, "", "the partition's next record", Scope.PARTITION),
        Subject(
            "faust_tumbling_table",
            "tumbling",
            "each record: its new count in the changelog",
            Scope.RECORD,
            answers=Answers.of_table("{group}-counts-changelog"),
        ),
        Subject(
            "pathway_tumbling",
            "tumbling",
            "each record: its new count, with the next commit",
            Scope.RECORD,
            answers=Answers.updated("tumbling", lost_when_stopped=True),
        ),
        Subject("quix_tumbling", _CLOSING, "the key's next record", Scope.KEY, answers=_seconds(0)),
        # Kafka Streams looks for closed windows once a second.
        Subject(
            "kafka_streams_tumbling",
            _CLOSING,
            "the partition's next record",
            Scope.PARTITION,
            answers=_seconds(2 * _SECOND_MS),
        ),
        # Watermarks go out five times a second.
        Subject(
            "flink_tumbling", _CLOSING, "the topic's next record", Scope.TOPIC, answers=_seconds(0)
        ),
        Subject(
            "bytewax_tumbling",
            _CLOSING,
            "the clock, a second after the window's end",
            Scope.TOPIC,
            _SECOND_MS,
            _seconds(_SECOND_MS),
        ),
        Subject(
            "spark_tumbling",
            _CLOSING,
            "the topic's next record, a second after the window's end",
            Scope.TOPIC,
            _SECOND_MS,
            _seconds(_SECOND_MS),
        ),
    )
}


class Answer(NamedTuple):
    """A window of a key, when it began and ended, how many were counted, and the broker's stamp."""

    key: int
    start: int
    end: int
    counted: int
    stamp: int


class Latencies(NamedTuple):
    """Milliseconds of each answer: since it was due, and since the end of its window."""

    since_due: Integers
    since_end: Integers


def latencies(
    subject: Subject, workload: Workload, found: Sequence[Answer], since_ms: int
) -> Latencies:
    """Return those of the answers that were due by a record sent at `since_ms` or later.

    Those that no record closed, but a clock after the last one, are left out.
    """
    keys, starts, ends, counts, stamps = np.array(found, np.int64).reshape(-1, 5).T
    due, places = ends + subject.wait_ms, np.ones_like(ends)
    if subject.scope is Scope.RECORD:
        # The n-th record of a window brings the count of n.
        due, places = starts, counts
    # Events with the same remainder are in one scope.
    divisor = {Scope.PARTITION: workload.partitions, Scope.TOPIC: 1}.get(
        subject.scope, workload.key_count
    )
    groups, of_events = keys % divisor, workload.keys % divisor
    causes = np.full(len(found), -1, np.int64)
    for group in np.unique(groups).tolist():
        sent = np.sort(workload.times[of_events == group])
        mine = np.flatnonzero(groups == group)
        at = np.searchsorted(sent, due[mine], "left") + places[mine] - 1
        there = at < len(sent)
        causes[mine[there]] = sent[at[there]]
    is_counted = causes >= since_ms
    return Latencies((stamps - causes)[is_counted], (stamps - ends)[is_counted])
