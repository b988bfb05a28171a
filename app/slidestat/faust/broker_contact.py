"""Whether the brokers answer, asked time and again: the clients wait for them in silence.

A worker waits for as long as it takes: what it has taken in is in memory, its outputs are queued,
and nothing is written or committed that they would have to come before.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from aiokafka.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError
from confluent_kafka import KafkaException

from slidestat.errors import EndedError, SlidestatError
from slidestat.kafka.connection import NotLetInError, require_broker
from slidestat.kafka.producer import BulkProducer
from slidestat.kafka.retries import broker_pauses
from slidestat.log import log_event
from slidestat.pauses import Reminder

Told = TypeVar("Told")

LOOK_EVERY_S = 5.0
_PATIENCE_S = 3.0
# Records may be on their way for this long before that is logged.
_LONG_S = 25.0
# After this many tries in a row, with that time between, other clients are let in before the worker
# ends: its own may take a minute and a half to find brokers that have other addresses now.
_OTHERS_LET_IN = 6


def went_away_at_start() -> SlidestatError:
    """Return the error of a worker whose brokers stopped before it joined its group."""
    return SlidestatError(
        "The Kafka broker went away while the worker was starting.",
        "Start the worker again when the broker is back: nothing is lost.",
    )


def refused(error: KafkaError | KafkaException) -> SlidestatError:
    """Return the error of a worker that ended with an error of one of its clients for Kafka."""
    # aiokafka raises some answers of brokers as a KafkaError that holds their name as text.
    if "authorizationfailed" in repr(error).replace("_", "").lower():
        where = ""
        if isinstance(error, TopicAuthorizationFailedError) and error.args:  # One topic, or more.
            topics = [error.args[0]] if isinstance(error.args[0], str) else sorted(error.args[0])
            where = f" with {', '.join(map(repr, topics))}"
        return SlidestatError(
            f"The brokers do not let this worker do what it needs to{where}: {error!r}.",
            "Grant it to its user (`slidestat doctor` finds what is lacking), and start it again:"
            " nothing is lost, it reads on from the last commit.",
        )
    return EndedError(
        f"The worker's client for Kafka has failed: {error!r}.",
        "Start the worker again: nothing is lost, it reads on from the last commit.",
    )


def _left_out(silent_s: int) -> EndedError:
    """Return the error of a worker that brokers do not answer, where they answer others."""
    return EndedError(
        f"The brokers have not answered this worker for {silent_s} s, and answer others: perhaps"
        " its certificate or its password was replaced, which it reads when it starts.",
        "Start the worker again: nothing is lost, it reads on from the last commit.",
    )


async def until_told(ask: Callable[[], Awaitable[Told]]) -> Told:
    """Ask the brokers until they answer; raises an error that asking again does not solve."""
    pauses = broker_pauses()
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if not error.retriable and not isinstance(error, KafkaTimeoutError):
                raise
        await asyncio.sleep(pauses.begin())


class BrokerContact:
    """A monitor that logs when the brokers fall silent or leave records unacknowledged, each half
    minute for how long they have done so, and when that is over.

    Clients read certificates and passwords when they are made. A worker whose own were replaced
    cannot connect again, for as long as it waits. So it asks by a client made anew as well, which
    tells why brokers refuse it; and if they let that one in, the worker is to be started again.
    """

    def __init__(
        self,
        bootstrap: str,
        producers: Sequence[BulkProducer],
        topic: str,
        lost_since: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Create the monitor; `lost_since` returns since when (of time.monotonic) no broker answers
        the consumer, which may have others than the producers, None while one does.
        """
        self._bootstrap = bootstrap
        self._producers = producers
        self._lost_since = lost_since
        self._topic = topic
        self._silent_since: float | None = None
        self._reminder = Reminder()
        self._others_let_in = 0

    @property
    def is_silent(self) -> bool:
        """Return whether no broker answered the producer or the consumer when they asked last."""
        return self._silent_since is not None

    async def look(self, without_leader: Sequence[str]) -> None:
        """Ask, waiting a few seconds at most; nothing else waits for it. These topics have
        partitions that no broker leads, as far as is known.

        Raises EndedError where brokers answer others for two minutes, and not this worker.
        """
        asked = time.monotonic()
        answered = await asyncio.to_thread(self._producers[0].is_answered, self._topic, _PATIENCE_S)
        lost_since = self._lost_since()
        if answered and lost_since is None:
            self._answered(without_leader)
            return
        if self._silent_since is None:
            self._silent_since = asked if lost_since is None else min(asked, lost_since)
            self._reminder.reset()
        if self._reminder.is_due():
            silent_s = round(time.monotonic() - self._silent_since)
            whom = " this worker's consumer" if answered else ""
            refusal = await asyncio.to_thread(self._refusal)
            log_event(
                "brokers silent",
                f"the brokers do not answer{whom}, for {silent_s} s now: this worker asks on, also"
                f" at the bootstrap addresses, and goes on where it was once they do{refusal}",
                seconds=silent_s,
            )
            if self._others_let_in >= _OTHERS_LET_IN:
                raise _left_out(silent_s)

    def _refusal(self) -> str:
        """Return why brokers refuse a client made anew; "" if they do not, or none answers."""
        try:
            require_broker(self._bootstrap, _PATIENCE_S, may_tell=False)
        except SlidestatError as error:
            self._others_let_in = 0
            return f". {error}" if isinstance(error, NotLetInError) else ""
        self._others_let_in += 1
        return ""

    def _answered(self, without_leader: Sequence[str]) -> None:
        self._others_let_in = 0
        if self._silent_since is not None:
            self._silent_since = None
            log_event("brokers answer", "the brokers answer again")
            self._reminder.put_off()
        slowest = max(self._producers, key=lambda producer: producer.waited_s())
        waited_s = round(slowest.waited_s())
        if (waited_s < _LONG_S and not without_leader) or not self._reminder.is_due():
            return
        why = []
        if without_leader:
            why.append(f"no broker leads all partitions of {', '.join(without_leader)}")
        if waited_s:
            why.append(f"{slowest.waits_for}, for {waited_s} s now")
        log_event(
            "brokers hold up",
            f"the brokers answer, but this worker waits: {'; '.join(why)}",
            seconds=waited_s,
            without_leader=list(without_leader),
        )
