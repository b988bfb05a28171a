"""How many are served at once, and how long others wait for their turn before they are refused.

A refusal is delayed: a client that asks again at once, in spite of `Retry-After`, must not cost
more by refusals than by answers.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slidestat.web.errors import too_many

_REFUSAL_S = 0.5


class Turns:
    """A limit of requests at once; a request that has waited for `wait_s` is refused with 429."""

    def __init__(self, at_once: int, wait_s: float) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._wait_s = wait_s

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it; raises HttpError where none comes in time."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            await asyncio.sleep(_REFUSAL_S)
            raise too_many() from None
        try:
            yield
        finally:
            self._free.release()
