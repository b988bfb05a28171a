"""Reads of the states for other threads, run between two steps of the work.

The thread of the work, which alone changes states, reads from them all that a question needs; the
rest is computed elsewhere. Looks get a share of that thread's time, however many are asked for: the
work has the rest. Time that they have not used for a while, they may use at once.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Seen = TypeVar("Seen")

SHARE = 0.25
SAVED_S = 0.1
# Looks stop after this time, so that work goes on; a single look may take longer.
_AT_A_TIME_S = 0.004


class Looks:
    """A queue of reads of the states, run on the loop of the work one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[_Look] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_due = False
        # Seconds of looks that may be taken, as of a time of the loop.
        self._saved_s = SAVED_S
        self._saved_at = 0.0

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to look, from this event loop."""
        self._loop = loop

    async def take(self, read: Callable[[], Seen]) -> Seen:
        """Return what `read` returns on the loop of the work, or raise what it raises there. It
        must not wait, and what it returns must stay as it is.
        """
        if self._loop is None:
            raise RuntimeError("the work has not begun")
        asker = asyncio.get_running_loop()
        answer: asyncio.Future[Seen] = asker.create_future()
        self._waiting.append(_Look(read, asker, answer))
        self._loop.call_soon_threadsafe(self._rouse, self._loop)
        return await answer

    def _rouse(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            loop.call_at(self._saved_at + max(0.0, -self._saved_s / SHARE), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_due = False
        began = time.perf_counter()
        took = 0.0
        while self._waiting and took < _AT_A_TIME_S:
            self._waiting.popleft().run()
            took = time.perf_counter() - began
        now = loop.time()
        earned_s = (now - self._saved_at) * SHARE
        self._saved_s = min(SAVED_S, self._saved_s + earned_s) - took
        self._saved_at = now
        self._rouse(loop)


class _Look(NamedTuple):
    """A read that was asked for, and the future that gets its result."""

    read: Callable[[], Any]
    asker: asyncio.AbstractEventLoop
    answer: "asyncio.Future[Any]"

    def run(self) -> None:
        if self.answer.cancelled():
            return
        try:
            seen = self.read()
        except Exception as error:  # noqa: BLE001  the asker's to judge
            self._settle(self.answer.set_exception, error)
        else:
            self._settle(self.answer.set_result, seen)

    def _settle(self, settle: Callable[[Any], None], what: object) -> None:
        def unless_gone() -> None:
            if not self.answer.done():
                settle(what)

        if not self.asker.is_closed():
            self.asker.call_soon_threadsafe(unless_gone)
