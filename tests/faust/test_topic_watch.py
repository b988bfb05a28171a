"""A worker asks whether its source is still the same once for all that one fetch brought."""

import asyncio
import gc
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from slidestat.declare.topology import Topology
from slidestat.engine.records import NOT_KNOWN
from slidestat.errors import SlidestatError
from slidestat.faust.source import topic_watch
from slidestat.faust.source.topic_watch import TopicWatch
from slidestat.kafka.topic_identity import Asked, TopicIdentity

TOPOLOGY = Topology(name="watched", source="events", span="1h", every="1m")


class Brokers:
    """Brokers that answer when they are told to; their answer is that of the newest question."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Future[Any]] = []
        self.topic_id = "id"
        monkeypatch.setattr(topic_watch, "AdminClient", lambda _config: None)
        monkeypatch.setattr(topic_watch, "asked_for", self.ask)
        monkeypatch.setattr(topic_watch, "told", lambda _asked: self.found([TOPOLOGY.source]))
        monkeypatch.setattr(topic_watch, "identities", lambda _admin, names, _s: self.found(names))

    def found(self, names: list[str]) -> dict[str, TopicIdentity]:
        return {name: TopicIdentity(self.topic_id, 1) for name in names}

    def ask(self, _admin: object, _names: object, _timeout_s: float) -> Asked:
        self.asked.append(Future())
        return {TOPOLOGY.source: self.asked[-1]}


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def test_partitions_of_one_fetch_share_a_question(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fetched after it was asked needs another one, and so does what was not fetched. A
    waiter that is cancelled takes the answer from nobody.
    """
    now = 10.0
    monkeypatch.setattr(topic_watch.time, "monotonic", lambda: now)

    async def run() -> None:
        nonlocal now
        watch = TopicWatch("127.0.0.1:1", [TOPOLOGY], Path())
        first, second = (asyncio.ensure_future(watch.confirm_source(9.0)) for _ in range(2))
        assert len(brokers.asked) == 1
        first.cancel()
        await asyncio.sleep(0)
        assert not second.done()
        brokers.asked[0].set_result(None)
        await second
        await watch.confirm_source(9.5)
        assert len(brokers.asked) == 1
        now = 11.0
        for fetched_at in (10.0, NOT_KNOWN, NOT_KNOWN):
            confirmed = asyncio.ensure_future(cast(Any, watch.confirm_source(fetched_at)))
            brokers.asked[-1].set_result(None)
            await confirmed
        assert len(brokers.asked) == 4

    # The loop's own clock is this one too: nothing in here waits for a time.
    asyncio.run(run())


def test_another_source_is_refused_to_each_partition(brokers: Brokers) -> None:
    """Whoever asks for what was fetched before, at once or later, hears of it."""

    async def run() -> None:
        watch = TopicWatch("127.0.0.1:1", [TOPOLOGY], Path())
        brokers.topic_id = "another"
        waiting = [asyncio.ensure_future(cast(Any, watch.confirm_source(0.0))) for _ in range(2)]
        brokers.asked[0].set_result(None)
        for one in (*waiting, watch.confirm_source(0.0)):
            with pytest.raises(SlidestatError, match="deleted and made anew"):
                await one
        assert len(brokers.asked) == 1

    asyncio.run(run())


def test_who_gave_up_hears_of_no_error(brokers: Brokers) -> None:
    """Nor does the log: it has the error of those who wait, as from Python 3.14 on a shield would
    tell it once more, with a stack trace.
    """

    async def run() -> list[str]:
        told: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: told.append(context["message"]))
        watch = TopicWatch("127.0.0.1:1", [TOPOLOGY], Path())
        brokers.topic_id = "another"
        given_up, waiting = (
            asyncio.ensure_future(cast(Any, watch.confirm_source(0.0))) for _ in range(2)
        )
        await asyncio.sleep(0)
        given_up.cancel()
        brokers.asked[0].set_result(None)
        with pytest.raises(SlidestatError, match="deleted and made anew"):
            await waiting
        del given_up, waiting, watch
        gc.collect()
        return told

    assert asyncio.run(run()) == []
