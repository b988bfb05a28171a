"""What a worker says, and when it ends, while brokers do not answer it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import faust
import pytest

from slidestat.errors import EndedError, SlidestatError
from slidestat.faust import broker_contact
from slidestat.faust.broker_contact import LOOK_EVERY_S, BrokerContact
from slidestat.faust.delivery import BatchApp
from slidestat.kafka.connection import NotLetInError
from slidestat.log import logging_to_stderr

REFUSED = NotLetInError("The broker at b refuses the user 'a': no.", "Check the password.")
AWAY = SlidestatError("No Kafka broker answers at b.", "Start one.")


class Producer:
    """A producer to which brokers answer, or not."""

    is_answered_now = False
    waits_for = "it has no coordinator"
    waited = 0.0

    def is_answered(self, _topic: str, _timeout_s: float) -> bool:
        return self.is_answered_now

    def waited_s(self) -> float:
        return self.waited


class Looks:
    """Looks at the brokers, one each five seconds of a clock that stands still in between; `anew`
    is what a client made anew comes to, None where it is let in.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.anew: SlidestatError | None = AWAY
        self.producer = Producer()
        self.lost_since: float | None = None
        monkeypatch.setattr(broker_contact.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(broker_contact, "require_broker", self._require)
        producers: Sequence[Any] = [self.producer]
        self._contact = BrokerContact("b", producers, "t", lambda: self.lost_since)

    def _require(self, _bootstrap: str, _timeout_s: float, *, may_tell: bool) -> None:
        assert not may_tell
        if self.anew is not None:
            raise self.anew

    def look(self, seconds: float) -> None:
        async def looks() -> None:
            for _ in range(int(seconds / LOOK_EVERY_S)):
                await self._contact.look([])
                self.now += LOOK_EVERY_S

        with logging_to_stderr():
            asyncio.run(looks())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def test_a_refusal_is_told(looks: Looks, capsys: pytest.CaptureFixture[str]) -> None:
    """Each half minute, with what to do, for as long as it lasts; a broker that is away refuses
    nobody.
    """
    looks.anew = REFUSED
    looks.look(200)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 8
    assert all("refuses the user 'a': no. Check the password." in line for line in lines)
    looks.anew = AWAY
    looks.look(200)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.endswith("goes on where it was once they do") for line in lines)


@pytest.mark.parametrize("is_consumer_alone", [False, True])
def test_a_worker_that_alone_is_not_answered_ends(looks: Looks, is_consumer_alone: bool) -> None:
    """Clients made anew are let in, as with a certificate that was replaced: after two minutes."""
    looks.anew = None
    looks.producer.is_answered_now = is_consumer_alone
    looks.lost_since = looks.now if is_consumer_alone else None
    looks.look(125)
    with pytest.raises(EndedError, match="have not answered this worker for 125 s"):
        looks.look(10)


@pytest.mark.parametrize(
    "between",
    [
        lambda looks: setattr(looks, "anew", AWAY),
        lambda looks: setattr(looks, "anew", REFUSED),
        lambda looks: setattr(looks.producer, "is_answered_now", True),
    ],
)
def test_others_must_be_let_in_all_the_while(
    looks: Looks, between: Callable[[Looks], None]
) -> None:
    """Brokers that come back are found by this worker's own clients soon."""
    for _ in range(4):
        looks.anew, looks.producer.is_answered_now = None, False
        looks.look(120)
        between(looks)
        looks.look(25)


def test_what_a_worker_waits_for_is_told(looks: Looks, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers answer, and do not do what it asked for: each half minute, once it takes long."""
    looks.producer.is_answered_now = True
    looks.producer.waited = 24.0
    looks.look(100)
    assert not capsys.readouterr().err
    looks.producer.waited = 31.0
    looks.look(100)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert all("this worker waits: it has no coordinator, for 31 s now" in line for line in lines)


@pytest.mark.asyncio
async def test_the_brokers_are_looked_at_while_the_first_tables_are_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Timers begin behind that, and it may wait for brokers for ever."""
    looked, is_restored = 0, asyncio.Event()

    async def look() -> None:
        nonlocal looked
        while True:
            looked += 1
            is_restored.set()
            await asyncio.sleep(0)

    async def restored(_app: BatchApp) -> bool:
        await is_restored.wait()
        return False

    monkeypatch.setattr(faust.App, "_wait_for_table_recovery_completed", restored)
    app = BatchApp("of-nobody", broker="kafka://nowhere")
    app.while_restoring = look
    assert not await app._wait_for_table_recovery_completed()
    before = looked
    for _ in range(3):
        await asyncio.sleep(0)
    assert 1 <= looked <= before + 1
