"""The thread that fetches, where the real broker would have to be away for minutes."""

import asyncio
from typing import cast

from slidestat.faust.delivery import BatchApp, BatchConsumer


class _Waiting:
    """An aiokafka consumer one of whose fetches waits to be tried again when it is stopped."""

    stopped = False

    async def stop(self) -> None:
        self.stopped = True
        fetch = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        fetch.cancel()
        await fetch  # as aiokafka's fetcher does


def test_a_fetch_that_waits_for_a_broker_holds_up_no_end() -> None:
    """The cancellation that aiokafka lets out does not end the thread before it has said that it
    is done.
    """

    async def end() -> _Waiting:
        app = BatchApp("ends", broker="kafka://127.0.0.1:1", store="memory://")
        thread = cast(BatchConsumer, app.consumer)._thread
        thread._consumer = waiting = _Waiting()
        try:
            await thread.on_thread_stop()
        finally:
            thread.thread_loop.close()
        return waiting

    assert asyncio.run(end()).stopped
