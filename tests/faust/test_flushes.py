"""Flushes that take too long: what of them ends, what does not, and what comes after."""

import asyncio

import pytest

from slidestat.faust.flushes import Flushes, FlushGivenUpError, to_its_end

SOON_S = 0.02


async def never() -> None:
    """Waits for a broker that does not answer."""
    await asyncio.Event().wait()


async def at_once() -> str:
    return "flushed"


def test_what_is_quick_enough_is_not_given_up() -> None:
    async def run() -> None:
        flushes = Flushes()
        assert await flushes.run_within(SOON_S, at_once) == "flushed"
        await asyncio.sleep(2 * SOON_S)
        assert await flushes.run(at_once) == "flushed"

    asyncio.run(run())


def test_one_that_is_given_up_takes_the_one_before_it_along() -> None:
    """A rebalance waits for both; the commit that began the first hears of it too, and the next
    one goes on as ever.
    """

    async def run() -> None:
        flushes = Flushes()
        commit = asyncio.ensure_future(flushes.run(never))
        await asyncio.sleep(0)
        with pytest.raises(FlushGivenUpError):
            await flushes.run_within(SOON_S, never)
        with pytest.raises(FlushGivenUpError):
            await commit
        assert await flushes.run(at_once) == "flushed"

    asyncio.run(run())


def test_whoever_is_cancelled_cancels_its_flush_alone() -> None:
    """A worker that stops does not take it for a flush that was given up."""

    async def run() -> None:
        flushes = Flushes()
        commit = asyncio.ensure_future(flushes.run(never))
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        assert await flushes.run(at_once) == "flushed"

    asyncio.run(run())


def test_states_on_their_way_are_waited_for() -> None:
    """Given up, a flush ends once they are written, and begins with no others."""
    written = []

    async def write(state: str) -> None:
        await asyncio.sleep(3 * SOON_S)
        written.append(state)

    async def flush() -> None:
        for state in ("a", "b"):
            await to_its_end(write(state))

    async def run() -> None:
        with pytest.raises(FlushGivenUpError):
            await Flushes().run_within(SOON_S, flush)
        assert written == ["a"]
        await asyncio.sleep(6 * SOON_S)
        assert written == ["a"]

    asyncio.run(run())


def test_an_error_of_a_flush_is_its_own() -> None:
    async def fail() -> None:
        raise OSError("no room")

    async def run() -> None:
        flushes = Flushes()
        with pytest.raises(OSError, match="no room"):
            await flushes.run_within(SOON_S, fail)
        assert await flushes.run(at_once) == "flushed"

    asyncio.run(run())
