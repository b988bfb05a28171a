"""Flushes, one at a time, that can be given up: a rebalance does not wait for long for outputs that
slow brokers have not acknowledged, or for records that are being processed.

One that is given up has written no states: all is as after a crash before it, and is read again.
Outputs that are acknowledged only later have the same keys and bytes as those that repeat them. But
states that are on their way are waited for: another worker is about to restore from the changelog,
and must find them there or never.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class FlushGivenUpError(Exception):
    """An error of a flush that took too long."""


class Flushes:
    """A queue that runs one flush after another."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._under_way: asyncio.Task[Any] | None = None
        self._are_given_up = False

    async def run(self, flush: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Flush, after the one that is under way; raises FlushGivenUpError if it is given up."""
        async with self._one:
            if self._are_given_up:
                raise FlushGivenUpError
            task: asyncio.Task[_T] = asyncio.ensure_future(flush())
            self._under_way = task
            try:
                return await task
            except asyncio.CancelledError:
                if self._are_given_up:
                    raise FlushGivenUpError from None
                raise
            finally:
                self._under_way = None

    async def run_within(self, seconds: float, flush: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run a flush as `run` does; after so many seconds give up, also on one before it."""
        timer = asyncio.get_running_loop().call_later(seconds, self._give_up)
        try:
            return await self.run(flush)
        finally:
            timer.cancel()
            self._are_given_up = False

    def _give_up(self) -> None:
        self._are_given_up = True
        if self._under_way is not None:
            self._under_way.cancel()


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work that continues, and is waited for, also if this is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
