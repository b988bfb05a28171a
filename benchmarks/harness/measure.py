"""One subject, run and timed from outside: the same ruler for all.

The clock starts when a subject has taken up its first events, so joining a group, making tables and
loading code are nobody's cost. For the bare loop and for plain Faust it stops when the last event
has gone through the loop, whether their changelog and offsets are written by then or not. For ours
it stops when the offsets of all events are committed, which is after their statistics and states
are acknowledged: the stricter of the two.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benchmarks import REPOSITORY
from benchmarks.harness.progress import Progress
from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config

_LOOK_S = 0.02
_WEIGH_S = 0.2
_START_S = 180.0
_STALLED_S = 120.0
_STOP_S = 60.0
_LOG_END = 2000
COORDINATOR_MOVES = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


@dataclass(frozen=True)
class Measurement:
    """What a subject did between the two looks at the clock; CPU seconds are its processes', and
    the broker's where the broker is ours. `load` is the machine's before it; `peak_rss` the most
    memory that its processes were seen with, in bytes.
    """

    events: int
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float | None
    load: float
    peak_rss: int

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds

    @property
    def events_per_cpu_s(self) -> float:
        return self.events / self.cpu_seconds


class SubjectProcess:
    """A subject in a process of its own; leaving the context ends it, by its id."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=REPOSITORY,
            )
        self.pid = self._process.pid
        self.load = os.getloadavg()[0]
        self.peak_rss = 0

    def __enter__(self) -> "SubjectProcess":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_for(
        self, look: Callable[[], int], wanted: int, patience_s: float, most_s: float = inf
    ) -> int:
        """Return what `look` shows once it is `wanted` or more, or after `most_s`.

        Raises SlidestatError, with the end of the subject's log, if the subject ends before, or
        shows nothing new for `patience_s`.
        """
        last = -1
        moved = weighed = started = time.monotonic()
        while (shown := look()) < wanted and time.monotonic() - started < most_s:
            if self._process.poll() is not None:
                raise self._error(f"ended with status {self._process.returncode}")
            if shown != last:
                last, moved = shown, time.monotonic()
            elif time.monotonic() - moved > patience_s:
                raise self._error(f"made no progress for {patience_s:.0f} s")
            if (now := time.monotonic()) - weighed > _WEIGH_S:
                with suppress(psutil.NoSuchProcess):
                    self.peak_rss = max(self.peak_rss, self.rss())
                weighed = now
            time.sleep(_LOOK_S)
        return shown

    def rss(self) -> int:
        """The resident memory of its processes, in bytes."""
        return sum(int(process.memory_info().rss) for process in _family(self.pid))

    def _error(self, what: str) -> SlidestatError:
        text = self._log.read_text(errors="replace")[-_LOG_END:].strip()
        return SlidestatError(f"The subject {what}.", f"Its output ends:\n{text}")


def memory_verdict(peaks: Mapping[str, int], limit: int) -> int:
    """Say whether peaks of resident memory, by what was done then, are within a limit, all in
    bytes; the exit code: 0, or 2 if one is above.
    """
    above = {what: peak for what, peak in peaks.items() if peak > limit}
    for what, peak in above.items():
        print(f"TOO MUCH MEMORY: {what}: {peak / 2**20:,.0f} MiB of {limit / 2**20:,.0f}")
    if not above:
        print(f"memory within {limit / 2**20:,.0f} MiB")
    return 2 if above else 0


def time_loop(
    subject: SubjectProcess,
    read: Callable[[], int],
    warm_up: int,
    until: int,
    broker: int | None,
    most_s: float = inf,
) -> Measurement:
    """Time a loop from the moment `warm_up` events have gone through it to that of `until`, as
    `read` counts them, or for `most_s` seconds.

    Raises SlidestatError if it takes all of them at once.
    """
    before = subject.wait_for(read, warm_up, _START_S)
    if before >= until:
        raise SlidestatError("It takes all events at once.", "Give it more: --events.")
    start = _Look(subject, broker)
    after = subject.wait_for(read, until, _STALLED_S, most_s)
    return start.until(_Look(subject, broker), after - before)


def time_commits(
    subject: SubjectProcess,
    progress: Progress,
    group: "GroupOffsets",
    events: int,
    broker: int | None,
    before: int = 0,
) -> Measurement:
    """Time all `events` of the topic that follow the `before` ones that were committed already,
    from the first batch taken up to the last commit.

    Raises SlidestatError if more is taken up, or committed, than there is.
    """
    subject.wait_for(progress.read, 1, _START_S)
    start = _Look(subject, broker)
    committed = subject.wait_for(group.committed, before + events, _STALLED_S) - before
    measurement = start.until(_Look(subject, broker), events)
    if not committed == progress.read() == events:
        raise SlidestatError(
            f"Of {events} events {progress.read()} were taken up and {committed} committed.",
            "Report it: records were lost or read twice.",
        )
    return measurement


class GroupOffsets:
    """The committed offsets of a consumer group on a topic, seen without joining it."""

    def __init__(self, bootstrap: str, topic: str, group: str, partitions: int) -> None:
        self._partitions = [TopicPartition(topic, p) for p in range(partitions)]
        self._consumer = Consumer({**client_config(bootstrap), "group.id": group})
        self._seen = 0

    def committed(self) -> int:
        """Their sum over the partitions: events done, for a topic without holes.

        It is the sum seen last while the group's coordinator is being found.
        """
        try:
            found = self._consumer.committed(self._partitions, timeout=30)
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_MOVES:
                raise
        else:
            self._seen = sum(max(0, partition.offset) for partition in found)
        return self._seen

    def close(self) -> None:
        self._consumer.close()


class _Look:
    """The clocks at one moment."""

    def __init__(self, subject: SubjectProcess, broker: int | None) -> None:
        self._time = time.monotonic()
        self._cpu = cpu_seconds(subject.pid)
        self._subject = subject
        self._broker_cpu = None if broker is None else cpu_seconds(broker)

    def until(self, later: "_Look", events: int) -> Measurement:
        broker = None
        if self._broker_cpu is not None and later._broker_cpu is not None:
            broker = later._broker_cpu - self._broker_cpu
        return Measurement(
            events,
            later._time - self._time,
            later._cpu - self._cpu,
            broker,
            self._subject.load,
            self._subject.peak_rss,
        )


def cpu_seconds(pid: int) -> float:
    """What a process and those that it started have used."""
    return sum(process.cpu_times().user + process.cpu_times().system for process in _family(pid))


def _family(pid: int) -> list[psutil.Process]:
    """A process and what it started: Spark's work is done by a JVM beside its Python."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
