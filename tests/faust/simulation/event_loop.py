"""An event loop whose order, clock and threads follow from a seed.

Callbacks that are ready run in an order of chance, time passes only when nothing is ready, and what
would run in a thread runs as one step of the loop, some time later. Each process of the simulated
machine is a `Process`: killed, none of its callbacks runs any more; frozen, they run later.
"""

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

_LONGEST_THREAD_S = 0.05
_Made = TypeVar("_Made")


class StuckError(Exception):
    """An error of a simulation in which nothing will ever happen again."""


class Process:
    """A process: all that runs in it is known by its context."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        # It ends at the so-manieth time from now that a thread of it waits; 0 for never.
        self.dies_in = 0

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine in this process."""
        return asyncio.get_running_loop().create_task(work, context=self._context())

    def call(self, make: Callable[[], _Made]) -> _Made:
        """Call a function in this process."""
        return self._context().run(make)

    def _context(self) -> Context:
        context = copy_context()
        context.run(_PROCESS.set, self)
        return context


def current_process() -> Process | None:
    """The process that runs; None outside of them."""
    return _PROCESS.get()


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class SeededLoop(asyncio.BaseEventLoop):
    """An event loop without sockets and threads, and with a clock of its own."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.steps = 0
        self.failures: list[BaseException] = []
        self._random = random
        self._now = 1_000.0
        self._frozen: list[asyncio.Handle] = []
        # Those of processes that are dead, too: nothing of them may run, not even at their ends.
        self._tasks: list[asyncio.Task[Any]] = []
        self._ends: list[Callable[[], None]] = []
        self.set_task_factory(self._task)
        self.set_exception_handler(self._failed)

    def time(self) -> float:
        return self._now

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, call: Callable[..., Any], *arguments: object
    ) -> "asyncio.Future[Any]":
        """Call a function in one step, after a while; its caller may have been cancelled then."""
        future = self.create_future()

        def run() -> None:
            try:
                result, error = call(*arguments), None
            except Exception as raised:  # noqa: BLE001 - it is the caller's
                result, error = None, raised
            if not future.done():
                future.set_result(result) if error is None else future.set_exception(error)

        self.call_later(self._random.random() ** 3 * _LONGEST_THREAD_S, run)
        return future

    def thaw(self, process: Process) -> None:
        """Have a frozen process go on, with all that came due meanwhile."""
        process.is_frozen = False
        self._ready.extend(self._frozen)
        self._frozen.clear()

    def at_end(self, end: Callable[[], None]) -> None:
        """Call a function when the simulation ends."""
        self._ends.append(end)

    def end(self) -> None:
        """End all tasks and threads that have not ended, where they are."""
        for end in self._ends:
            end()
        self._ends.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                # Some wait for more at their ends, which never comes.
                with suppress(BaseException):
                    task.get_coro().close()  # type: ignore[union-attr]
        self._tasks.clear()
        self._ready.clear()
        self._scheduled.clear()

    def __del__(self) -> None:
        """Nothing is to be closed."""

    def _run_once(self) -> None:
        self.steps += 1
        timers: list[asyncio.TimerHandle] = self._scheduled
        if not self._ready:
            while timers and timers[0].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise StuckError
            self._now = max(self._now, timers[0].when())
        while timers and timers[0].when() <= self._now:
            self._ready.append(heapq.heappop(timers))
        ready, self._ready = list(self._ready), deque()
        self._random.shuffle(ready)
        for handle in ready:
            if not handle.cancelled() and self._may_run(handle):
                handle._run()

    def _may_run(self, handle: asyncio.Handle) -> bool:
        process = handle._context.get(_PROCESS)  # type: ignore[attr-defined]
        if process is None or not (process.is_dead or process.is_frozen):
            return True
        if not process.is_dead:
            self._frozen.append(handle)
        return False

    def _task(self, loop: Any, work: Any, context: Any = None) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        self._tasks.append(task)
        if len(self._tasks) > 1_000:
            self._tasks = [one for one in self._tasks if not one.done()]
        return task

    def _failed(self, _loop: object, context: dict[str, Any]) -> None:
        self.failures.append(context.get("exception") or RuntimeError(context["message"]))

    def _process_events(self, _events: object) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There are no other threads."""


@contextmanager
def seeded_loop(random: Random) -> Iterator[SeededLoop]:
    """Give such a loop, whose time all code takes for that of the machine."""
    loop = SeededLoop(random)
    clocks = time.monotonic, time.time, time.thread_time
    time.monotonic = time.thread_time = loop.time
    time.time = lambda: 1_700_000_000 + loop.time()
    try:
        yield loop
    finally:
        time.monotonic, time.time, time.thread_time = clocks
        loop.end()
