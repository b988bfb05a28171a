"""Questions beside the work: how much of its time they get, and what becomes of too many."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from slidestat.engine.partition import PartitionProcessor
from slidestat.live.live_query import LiveQuery
from slidestat.live.looks import SAVED_S, SHARE, Looks
from slidestat.web.errors import HttpError
from slidestat.web.turns import Turns
from tests.engine.cases import EVERY_STATISTIC, topology
from tests.engine.memory import MemoryStore, batch_of
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, Held, get, one_event_each, serving

KEY = "/topologies/orders/keys/a"

pytestmark = pytest.mark.asyncio


@contextmanager
def work() -> Iterator[asyncio.AbstractEventLoop]:
    """The loop of the work, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def test_looks_take_a_share_of_the_time_of_the_work() -> None:
    """However many are asked for at once: a quarter is theirs, and what they had saved."""
    took = 0.0

    def look() -> threading.Thread:
        nonlocal took
        began = time.perf_counter()
        while time.perf_counter() - began < 0.002:
            pass
        took += time.perf_counter() - began
        return threading.current_thread()

    with work() as loop:
        looks = Looks()
        looks.open(loop)
        began = time.perf_counter()
        seen = await asyncio.gather(*(looks.take(look) for _ in range(200)))
        elapsed = time.perf_counter() - began
    assert set(seen) != {threading.current_thread()}
    # What the last ones take is theirs before it is saved.
    assert took <= SAVED_S + SHARE * elapsed + 0.01


async def test_an_error_of_a_look_is_the_askers() -> None:
    """It is raised where it was asked for; looks go on."""

    def error() -> None:
        raise KeyError("gone")

    with work() as loop:
        looks = Looks()
        looks.open(loop)
        with pytest.raises(KeyError, match="gone"):
            await looks.take(error)
        given_up = asyncio.create_task(looks.take(lambda: 1))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await looks.take(lambda: 2) == 2


async def test_who_waits_too_long_for_a_turn_is_sent_away() -> None:
    """With 429 and when to come again; whoever is served is not disturbed."""
    turns = Turns(2, 0.05)
    async with turns.one(), turns.one():
        with pytest.raises(HttpError) as refused:
            async with turns.one():
                pass
    assert refused.value.status == 429
    assert refused.value.headers["Retry-After"] == "1"
    async with turns.one():
        pass


async def test_too_many_questions_are_refused_and_others_answered() -> None:
    """Of 100 at once, each of which costs the work 10 ms, some are answered and some refused, also
    of a key that another worker has; that it runs is told in any case, and so is how.
    """
    async with serving({0: ["a"]}, {1: ["b"]}) as [one, other]:
        for worker in (one, other):
            views = worker.live.views

            def slow(views: object = views) -> object:
                time.sleep(0.01)
                return views()  # type: ignore[operator]

            worker.live.views = slow  # type: ignore[assignment, method-assign]
        for key in ("a", "b"):
            asked = [get(one.url, f"/topologies/orders/keys/{key}") for _ in range(100)]
            asked += [get(one.url, "/healthz"), get(one.url, "/topologies/orders/status")]
            *answers, health, status = await asyncio.gather(*asked)
            assert (health.status, status.status) == (200, 200)
            assert {answer.status for answer in answers} == {200, 429}
            refused = next(answer for answer in answers if answer.status == 429)
            assert refused.headers["Retry-After"] == "1"
            assert set(refused.json) == {"error", "advice"}
        assert (await get(one.url, KEY)).status == 200


async def test_a_key_looked_at_is_answered_for_as_it_was() -> None:
    """Whatever comes after the look: the answer is that of then, and of that key alone."""
    held = Held(TOPOLOGY, [0])
    records = one_event_each(["a", "b"] * 20)
    held.take(0, records[:20])
    question = LiveQuery(TOPOLOGY, ["1h"])
    alone = held.processors[0].view().alone("a")
    assert alone is not None
    before = question.answer(held.processors[0].view(), "a")
    held.take(0, records[20:])
    held.flush()
    assert question.answer(alone, "a") == before
    assert question.answer(held.processors[0].view(), "a") != before
    assert question.answer(alone, "b") is None
    assert held.processors[0].view().alone("c") is None


async def test_answers_in_a_thread_are_those_of_the_work_itself() -> None:
    """While the work goes on with every statistic, another thread answers what was looked at: to
    the last bit as it is answered afterwards, and the work comes out as without questions.
    """
    law = topology(statistics=EVERY_STATISTIC, lateness="30ms")
    sent = [Record(i, None, encode(f"k{i % 5}", START_MS + 3 * i, i % 97), 0) for i in range(2_000)]
    asked, unasked = (PartitionProcessor(law, "events", 0, MemoryStore()) for _ in range(2))
    question = LiveQuery(law, ["77ms", "1s"])
    answers = []
    with ThreadPoolExecutor(2) as threads:
        for i in range(0, len(sent), 50):
            asked.process(batch_of(sent[i : i + 50]))
            unasked.process(batch_of(sent[i : i + 50]))
            for key in ("k0", "k3"):
                view = asked.view().alone(key)
                if view is not None:
                    answers.append((view, key, threads.submit(question.answer, view, key)))
        found = [answer.result(60) for _, _, answer in answers]
    assert len(found) > 50
    assert found == [question.answer(view, key) for view, key, _ in answers]
    assert asked.snapshot() == unasked.snapshot()
