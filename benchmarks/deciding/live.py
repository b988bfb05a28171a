"""The question that decides, while events come as they happen: latency, restarts, another window.

A system reads an hour of history first. Then events come at a pace, and it is timed from a tick to
its answers; it is stopped half a second before a tick and started again, and killed so; at last it
is asked for a window that nobody declared. Event time runs with the clock from then on.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.deciding.judged_requests import (
    EVERY_MS,
    WINDOW_MS,
    Errors,
    Reader,
    errors_of,
    worst_of,
)
from benchmarks.deciding.requests import ExactRequests, Requests
from benchmarks.harness.measure import SubjectProcess, cpu_seconds
from benchmarks.harness.progress import Progress
from benchmarks.harness.workload import send
from slidestat.errors import SlidestatError
from slidestat.kafka.settings import client_config
from slidestat.synopses.core.arrays import Integers

# Nobody declared it; it is one of whole tiles.
OTHER_MS = 17 * 60_000
# More seconds than all of it takes.
LONGEST_S = 600
_ASKED = 100
_BEFORE_TICK_MS = 500
_RESTART_S = 100.0
_SETTLE_S = 3.0
_PATIENCE_S = 180.0
_POLL_S = 0.02


class OtherWindow(NamedTuple):
    """A window that nobody declared: seconds and CPU seconds of a question about one key, medians
    of those asked; or, where the system had to be deployed for it, of the answers of all keys.
    """

    seconds: float
    cpu_seconds: float
    errors: Errors
    is_deployed: bool


class Lived(NamedTuple):
    """What a system did: milliseconds from a tick to each of its answers; how many seconds after
    their tick the latest right answers came while it was stopped and started again, and killed and
    started again; and the other window. None is what did not come.
    """

    latencies_ms: Integers
    stopped_s: float | None
    killed_s: float | None
    other: OtherWindow | None


class Restart(NamedTuple):
    """When a process was ended, by the clock, and the next tick; the first tick after the next one
    was started, and the CPU seconds that this had taken once there were answers of that tick.
    """

    at_s: float
    tick: int
    last_tick: int
    cpu_seconds: float


class Live:
    """A system on a topic of requests of its own, of which the first `history` are history.

    `start` starts it, for a window of so many milliseconds, and `question` is what it is asked for
    such a window: of a key, up to an end. One without a question is started for it.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: tuple[str, str],
        requests: Requests,
        history: int,
        reader: Reader,
        start: Callable[[Path, int], SubjectProcess],
        question: Callable[[str, int], str] | None,
        folder: Path,
    ) -> None:
        self._bootstrap, (self._topic, self._output) = bootstrap, topics
        self._requests, self._history, self._reader = requests, history, reader
        self._run, self._question, self._folder = start, question, folder
        self._runs = 0

    def run(self, seconds: int, most_s: float) -> Lived:
        """Measure latency for so many seconds, and the rest; history takes `most_s` at the most.

        Raises SlidestatError if the system fails or is too slow, or if answers before the first
        stop are missing or wrong.
        """
        send(self._requests.part(0, self._history), self._bootstrap, self._topic)
        progress = Progress.create(self._folder / "progress")
        process = self._start(WINDOW_MS)
        try:
            process.wait_for(progress.read, 1, _PATIENCE_S)
            done = process.wait_for(progress.read, self._history, _PATIENCE_S, most_s)
            if done < self._history:
                raise SlidestatError(
                    f"It took {done:,} of {self._history:,} events of history in its time.",
                    "Give it more: --minutes.",
                )
            time.sleep(_SETTLE_S)
            live = self._requests.part(self._history, len(self._requests))
            with (
                closing(_Watch(self._bootstrap, self._output, self._reader)) as watch,
                closing(_Sender(self._bootstrap, self._topic, live)) as sender,
            ):
                first = sender.wait_for_tick()
                sender.wait_for_tick(first + 1000 * seconds)
                restarts = []
                for number in (signal.SIGTERM, signal.SIGKILL):
                    process, restart = self._restart(process, watch, sender, number, WINDOW_MS)
                    restarts.append(restart)
                    time.sleep(_SETTLE_S)
                if self._question is None:
                    process, deployed = self._restart(
                        process, watch, sender, signal.SIGTERM, OTHER_MS
                    )
                    time.sleep(_SETTLE_S)
                sender.close()
                exact = ExactRequests(self._requests.part(0, self._history + sender.sent))
                time.sleep(_SETTLE_S)
                other = self._question and self._ask(self._question, process, watch, exact)
        finally:
            process.__exit__()
        ticks = Ticks(exact, self._reader, watch.records)
        took_ms: list[int] = []
        for tick in range(first + EVERY_MS, restarts[0].tick, EVERY_MS):
            right = ticks.right(tick, WINDOW_MS)
            if right is None:
                raise SlidestatError(
                    f"Answers of the tick {tick} are missing or wrong.", "Report it."
                )
            took_ms += [stamp_ms - tick - sender.ahead_ms for stamp_ms in right[0]]
        if self._question is None:
            for tick in range(deployed.tick, deployed.last_tick + 1, EVERY_MS):
                if (right := ticks.right(tick, OTHER_MS)) is not None:
                    took_s = max(right[0]) / 1000 - deployed.at_s
                    other = OtherWindow(took_s, deployed.cpu_seconds, right[1], is_deployed=True)
                    break
        stopped_s, killed_s = (latest(ticks, each, sender.ahead_ms) for each in restarts)
        return Lived(np.array(took_ms), stopped_s, killed_s, other)

    def _start(self, window_ms: int) -> SubjectProcess:
        self._runs += 1
        return self._run(self._log(), window_ms)

    def _log(self) -> Path:
        return self._folder / f"log-{self._runs}"

    def _restart(
        self,
        process: SubjectProcess,
        watch: "_Watch",
        sender: "_Sender",
        number: int,
        window_ms: int,
    ) -> tuple[SubjectProcess, Restart]:
        """End a process shortly before a tick, start it again, and wait for answers of its own."""
        tick = sender.next_tick()
        sender.wait_until(tick - _BEFORE_TICK_MS)
        at_s = time.time()
        if number == signal.SIGKILL:
            os.kill(process.pid, number)
        # Stopped and waited for: one process at a time may use a folder.
        process.__exit__()
        again = self._start(window_ms)
        # The process before may have had the time to answer for its last tick.
        last = sender.next_tick()
        partitions = self._requests.partitions
        again.wait_for(lambda: watch.newest(partitions), last, 2 * _RESTART_S, _RESTART_S)
        return again, Restart(at_s, tick, last, cpu_seconds(again.pid))

    def _ask(
        self,
        question: Callable[[str, int], str],
        process: SubjectProcess,
        watch: "_Watch",
        exact: ExactRequests,
    ) -> OtherWindow:
        """Ask for the other window of some keys of the newest tick, one after the other."""
        end = watch.newest(self._requests.partitions)
        keys = sorted({record.key for record in watch.records if record.end == end})
        places = np.linspace(0, len(keys) - 1, min(_ASKED, len(keys))).astype(np.int64)
        url = self._log().read_text().partition("answers at ")[2].split()[0]
        took, bodies = [], []
        before_s = cpu_seconds(process.pid)
        for place in places.tolist():
            path = question(self._requests.key_text(keys[place]), end)
            start = time.perf_counter()
            bodies.append((keys[place], _answer_of(f"{url}{path}")))
            took.append(time.perf_counter() - start)
        cpu_s = (cpu_seconds(process.pid) - before_s) / len(bodies)
        found = []
        for key, body in bodies:
            answer = self._reader.answer(body)
            found.append(errors_of(exact, key, answer.end - OTHER_MS, answer))
        return OtherWindow(float(np.median(took)), cpu_s, worst_of(found), is_deployed=False)


def latest(ticks: "Ticks", restart: Restart, ahead_ms: int) -> float | None:
    """Return how many seconds after their tick the latest answers came; a tick without right
    ones waits for the next that has them.
    """
    late_s, waiting = 0.0, None
    for tick in range(restart.tick, restart.last_tick + 1, EVERY_MS):
        waiting = waiting or tick
        if (right := ticks.right(tick, WINDOW_MS)) is not None:
            late_s = max(late_s, (max(right[0]) - waiting - ahead_ms) / 1000)
            waiting = None
    return late_s if waiting is None else None


def _answer_of(url: str) -> bytes:
    """Return the answer to a question; one that is refused for want of time is asked again."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urlopen(url, timeout=_PATIENCE_S) as answer:  # noqa: S310 - our own process
                return bytes(answer.read())
        except HTTPError as error:
            if error.code != HTTPStatus.TOO_MANY_REQUESTS or time.monotonic() > until:
                raise
        time.sleep(_POLL_S)


class Record(NamedTuple):
    """What was written of a key, for which tick, and the broker's stamp on it in milliseconds."""

    key: int
    value: bytes
    end: int
    stamp_ms: int


class Ticks:
    """Answers, tick by tick, beside the requests."""

    def __init__(self, exact: ExactRequests, reader: Reader, records: list[Record]) -> None:
        self._exact, self._reader = exact, reader
        self._records: dict[int, list[Record]] = {}
        for record in records:
            self._records.setdefault(record.end, []).append(record)
        self._due: dict[int, set[int]] = {}
        for key, end in exact.due(EVERY_MS).tolist():
            self._due.setdefault(end, set()).add(key)

    def right(self, tick: int, window_ms: int) -> tuple[list[int], Errors] | None:
        """Return when each answer of a tick came first, in milliseconds, and their worst errors;
        None if one is missing or wrong.
        """
        stamps_ms: dict[int, int] = {}
        found: dict[int, Errors] = {}
        for record in self._records.get(tick, ()):
            if record.key in stamps_ms:
                continue
            answer = self._reader.answer(record.value)
            errors = errors_of(self._exact, record.key, tick - window_ms, answer)
            events = len(self._exact.rows(record.key, tick - window_ms, tick))
            if errors.is_right(events):
                stamps_ms[record.key], found[record.key] = record.stamp_ms, errors
        if not stamps_ms or not self._due.get(tick, set()) <= set(stamps_ms):
            return None
        return list(stamps_ms.values()), worst_of(list(found.values()))


class _Watch(threading.Thread):
    """Reads a topic from now on."""

    def __init__(self, bootstrap: str, topic: str, reader: Reader) -> None:
        super().__init__(daemon=True)
        self.records: list[Record] = []
        self._newest: dict[int | None, int] = {}
        self._reader = reader
        self._is_ended = threading.Event()
        self._consumer = Consumer({**client_config(bootstrap), "group.id": f"{topic}-watch"})
        found = self._consumer.list_topics(topic, timeout=_PATIENCE_S).topics[topic].partitions
        ends = [
            self._consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=_PATIENCE_S)[1]
            for n in found
        ]
        self._consumer.assign(
            [TopicPartition(topic, n, end) for n, end in zip(found, ends, strict=True)]
        )
        self.start()

    def run(self) -> None:
        while not self._is_ended.is_set():
            for message in self._consumer.consume(1_000, 0.05):
                if message.error() is not None or message.value() is None:
                    continue
                key, value = message.key() or b"", message.value() or b""
                number, end = self._reader.place(key, value)
                self.records.append(Record(number, value, end, message.timestamp()[1]))
                of = message.partition()
                self._newest[of] = max(self._newest.get(of, 0), end)

    def newest(self, partitions: int) -> int:
        """Return the newest tick that all partitions have answers of; 0 without one."""
        return min(self._newest.get(number, 0) for number in range(partitions))

    def close(self) -> None:
        self._is_ended.set()
        self.join()
        self._consumer.close()


class _Sender(threading.Thread):
    """Sends requests as their times pass, on a clock that begins with the first of them."""

    def __init__(self, bootstrap: str, topic: str, requests: Requests) -> None:
        super().__init__(daemon=True)
        self._topic, self._requests = topic, requests
        self._producer = Producer({**client_config(bootstrap), "linger.ms": 1})
        self._is_ended = threading.Event()
        self.sent = 0
        self.ahead_ms = int(time.time() * 1000) - int(requests.times[0])
        self.start()

    def run(self) -> None:
        for key, value, time_ms, partition in self._requests.records():
            while (wait_s := (time_ms + self.ahead_ms) / 1000 - time.time()) > 0:
                self._producer.poll(0)
                if self._is_ended.wait(min(wait_s, 0.1)):
                    return
            self._producer.produce(self._topic, value, key, partition, timestamp=time_ms)
            self.sent += 1

    def next_tick(self) -> int:
        """Return the next tick, in event time, that is not just about to come."""
        now_ms = int(time.time() * 1000) - self.ahead_ms + 2 * _BEFORE_TICK_MS
        return (now_ms // EVERY_MS + 1) * EVERY_MS

    def wait_until(self, time_ms: int) -> None:
        """Wait until it is so late in event time; raises SlidestatError if requests ran out."""
        time.sleep(max(0.0, (time_ms + self.ahead_ms) / 1000 - time.time()))
        if not self.is_alive():
            raise SlidestatError("There are no more events to send.", "Report it.")

    def wait_for_tick(self, after_ms: int = 0) -> int:
        """Wait for the next tick, or the first one after a time; return it."""
        tick = max(self.next_tick(), (after_ms // EVERY_MS + 1) * EVERY_MS)
        self.wait_until(tick)
        return tick

    def close(self) -> None:
        self._is_ended.set()
        self.join()
        if self._producer.flush(_PATIENCE_S):
            raise SlidestatError("The broker did not take all events.", "Look at its log.")
