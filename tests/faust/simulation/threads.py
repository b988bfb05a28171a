"""Threads of the processes of a simulation: each runs alone, from one request to the next.

They are real ones, as what blocks in them is no coroutine. While one runs, the loop waits for it;
while it waits for a request, a timer or an event, it is a callback of the loop like any other.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import cast

from tests.faust.simulation.event_loop import SeededLoop, current_process

_LOCAL = threading.local()
_really_sleep = time.sleep


class _EndedError(BaseException):
    """An error that ends a thread where it waits, after its simulation."""


class Thread:
    """A thread, with the methods of threading.Thread."""

    def __init__(self, target: Callable[[], object], **_more: object) -> None:
        self._target = target
        self._loop = cast(SeededLoop, asyncio.get_running_loop())
        self._ended = Event()
        self._may_run, self._waits = threading.Semaphore(0), threading.Semaphore(0)
        self._is_over = False
        # How often it has gone on: of what might wake it up, the first does.
        self.turn = 0
        # Its callbacks cannot run in a context that is entered.
        self._callbacks, self._own = copy_context(), copy_context()
        self._real = threading.Thread(target=self._own.run, args=(self._run,), daemon=True)

    def start(self) -> None:
        self._loop.at_end(self._end)
        self._real.start()
        self.wake(self.turn)

    def join(self, seconds: float | None = None) -> None:
        self._ended.wait(seconds)

    def is_alive(self) -> bool:
        return not self._ended.is_set()

    def wake(self, turn: int, after_s: float = 0.0) -> None:
        """Have it go on after a while, unless it has gone on since that turn."""
        self._loop.call_later(after_s, self._go_on, turn, context=self._callbacks)

    def sleep(self) -> None:
        """Wait until it is woken up. Called by the thread itself."""
        process = current_process()
        if process is not None and process.dies_in:
            process.dies_in -= 1
            process.is_dead = not process.dies_in
        self._waits.release()
        self._may_run.acquire()
        if self._is_over:
            raise _EndedError

    def _go_on(self, turn: int) -> None:
        if turn == self.turn:
            self.turn += 1
            self._may_run.release()
            self._waits.acquire()

    def _run(self) -> None:
        _LOCAL.thread = self
        asyncio._set_running_loop(self._loop)
        try:
            self._may_run.acquire()
            if not self._is_over:
                self._target()
                self._ended.set()
        except _EndedError:
            pass
        except BaseException as error:  # noqa: BLE001 - as in a task of the loop
            self._loop.failures.append(error)
        finally:
            self.turn = -1
            self._waits.release()

    def _end(self) -> None:
        self._is_over = True
        self._may_run.release()
        self._real.join()


def current_thread() -> Thread | None:
    """The simulated thread that runs; None in the loop's own."""
    return getattr(_LOCAL, "thread", None)


def pause(seconds: float) -> None:
    """Let time pass in a thread. One that is of no simulation sleeps, as py4j's does for a test of
    Spark in the same process.
    """
    thread = current_thread()
    if thread is None and asyncio._get_running_loop() is None:
        _really_sleep(seconds)
        return
    assert thread is not None, "this would block the loop"
    thread.wake(thread.turn, seconds)
    thread.sleep()


class Event:
    """An event, with the methods of threading.Event."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[tuple[Thread, int]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for thread, turn in waiting:
            thread.wake(turn)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, seconds: float | None = None) -> bool:
        if not self._is_set:
            thread = current_thread()
            assert thread is not None, "this would block the loop"
            self._waiting.append((thread, thread.turn))
            if seconds is not None:
                thread.wake(thread.turn, seconds)
            thread.sleep()
        return self._is_set
