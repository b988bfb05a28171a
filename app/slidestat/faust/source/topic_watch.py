"""Whether the topics of a worker are still those that it began with.

Clients go by a topic's name. One that is deleted and created again while they run is read on at the
old offsets, and written to as if nothing were lost. So a worker asks for the ids of its topics:
every few seconds, to stop with what has happened and not with what follows from it; and between
fetching records and writing of them, so that none of another topic's is counted.
"""

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from slidestat.declare.declared import Declared
from slidestat.engine.records import NOT_KNOWN
from slidestat.errors import SlidestatError
from slidestat.faust.broker_contact import went_away_at_start
from slidestat.kafka.retries import broker_pauses, passes, until_answered
from slidestat.kafka.settings import client_config
from slidestat.kafka.topic_identity import Asked, TopicIdentity, asked_for, identities, told
from slidestat.text import counted

_ANSWER_S = 5.0
# A broker may not know yet a topic that was just made: it is asked again for as long.
_UNKNOWN_S = 10.0


class TopicWatch:
    """The topics of a worker's topologies, which share a source, as they were when it began."""

    def __init__(self, bootstrap: str, topologies: Sequence[Declared], data_dir: Path) -> None:
        """Ask the brokers for the topics; SlidestatError if one is missing, or none answers."""
        self._admin = AdminClient(client_config(bootstrap))
        self._data_dir = data_dir
        self._source = topologies[0].events_topic
        # Changelogs, with the name of the topology that writes each.
        self._changelogs = {topology.changelog_topic: topology.name for topology in topologies}
        self._outputs = {
            name: topology.name for topology in topologies for name in _outputs(topology)
        }
        self._readers = " and ".join(topology.name for topology in topologies)
        self._names = [self._source, *self._changelogs, *self._outputs]
        self._began: Mapping[str, TopicIdentity] = {}
        # When a broker was last asked whether the source is the same, and the answer to come.
        self._asked_at = 0.0
        self._confirmation: asyncio.Task[None] | None = None
        self.without_leader: list[str] = []
        try:
            self._began = self._ask(self._names)
        except KafkaException as error:
            if passes(error.args[0]):
                raise went_away_at_start() from error
            raise _not_described(error) from error
        for name in self._names:
            if name not in self._began:
                raise self._other(name, "is not there")

    @property
    def source_id(self) -> str:
        """The id of the source, "" where the brokers keep none."""
        return self.id_of(self._source)

    def id_of(self, topic: str) -> str:
        """Return the id of a topic when this worker began, "" where the brokers keep none."""
        return self._began[topic].topic_id

    def confirm_source(self, fetched_at: float = NOT_KNOWN) -> Awaitable[None]:
        """Ask a broker at once, unless one was asked since `fetched_at`; what is returned ends once
        one has answered that the source is still the same: what was fetched before it was asked is
        then of no other one.

        Costs a millisecond, in which others may work; waits for brokers that do not answer. Raises
        SlidestatError if the source is another one, or gone.
        """
        if self._confirmation is None or self._asked_at <= fetched_at:
            self._asked_at = time.monotonic()
            asked = asked_for(self._admin, [self._source], _ANSWER_S)
            self._confirmation = asyncio.ensure_future(self._confirmed(asked))
            self._confirmation.add_done_callback(_seen)
        return _answered(self._confirmation)

    async def _confirmed(self, asked: Asked) -> None:
        # A client that is given up while it is answered would complain.
        answers = (asyncio.shield(asyncio.wrap_future(answer)) for answer in asked.values())
        await asyncio.gather(*answers, return_exceptions=True)
        try:
            found = told(asked)
        except KafkaException:
            found = {}
        if self._source not in found:
            try:
                found = await until_answered(lambda: self._ask([self._source]))
            except KafkaException as refusal:
                raise _not_described(refusal) from refusal
        error = self._error([self._source], found)
        if error is not None:
            raise error

    async def confirm(self) -> None:
        """Raise SlidestatError if one of the topics is another one, or gone, or the source has
        other partitions; return also if no broker answers.
        """
        error = await asyncio.to_thread(self.error)
        if error is not None:
            raise error

    def error(self) -> SlidestatError | None:
        """Return the error of a changed topic; None if there is none, or no broker answers."""
        try:
            return self._error(self._names, self._ask(self._names))
        except KafkaException:
            return None

    def _ask(self, names: Sequence[str]) -> dict[str, TopicIdentity]:
        """Return the identities of topics by name, without those missing for some time."""
        until, pauses = time.monotonic() + _UNKNOWN_S, broker_pauses()
        while True:
            found = identities(self._admin, names, _ANSWER_S)
            if len(found) == len(names) or time.monotonic() > until:
                return found
            time.sleep(pauses.begin())

    def _error(
        self, names: Sequence[str], found: Mapping[str, TopicIdentity]
    ) -> SlidestatError | None:
        self.without_leader = [name for name, it in found.items() if it.without_leader]
        for name in names:
            began, now = self._began[name], found.get(name)
            if now is None:
                return self._other(name, "was deleted")
            if now.topic_id != began.topic_id:
                return self._other(name, "was deleted and made anew")
            if name == self._source and now.partitions != began.partitions:
                return _more_partitions(name, began.partitions, now.partitions)
        return None

    def _other(self, name: str, what: str) -> SlidestatError:
        if name == self._source:
            return SlidestatError(
                f"The source {name!r} {what} while this worker read it; nothing was counted of a"
                " topic that replaced it.",
                another_source(self._readers),
            )
        if name in self._changelogs:
            return SlidestatError(
                f"The changelog {name!r} {what} while this worker wrote to it: the states are"
                " now in the workers' data folders only.",
                advice_without_changelog(self._data_dir),
            )
        return SlidestatError(
            f"The topic {name!r} {what} while this worker wrote to it: what it had is gone.",
            "Start again to go on in a new one; `slidestat replay"
            f" {self._outputs[name]}` writes again what follows from the source.",
        )


async def _answered(confirmation: "asyncio.Task[None]") -> None:
    """Wait for an answer that partitions of one fetch share: who gives up does not end it."""
    # From Python 3.14 on a cancelled shield logs the error that others wait for.
    await asyncio.wait((confirmation,))
    confirmation.result()


def _seen(confirmation: "asyncio.Task[None]") -> None:
    """Have asyncio not complain of an error that nobody waited for."""
    if not confirmation.cancelled():
        confirmation.exception()


def _not_described(error: KafkaException) -> SlidestatError:
    return SlidestatError(
        f"The brokers do not describe the topics: {error.args[0].str().rstrip('.')}.",
        "Check that they are up and what this user may read, and start again.",
    )


def require_same_source(topic: str, read: str, found: str, topology: str) -> None:
    """Raise SlidestatError unless the topic of the id `found` is the one, of the id `read`, that a
    stored state has read; "" is an id that is not known.
    """
    if read and found and read != found:
        raise SlidestatError(
            f"The source {topic!r} was deleted and made anew since its stored state was written:"
            f" that is of the topic with the id {read}, and this one has {found}.",
            another_source(topology),
        )


def advice_without_changelog(data_dir: Path) -> str:
    """Return the advice where states are in workers' folders, and gone from their changelog."""
    return (
        f"Stop the group's workers, delete their folders ({data_dir} is this one's) and start"
        " again: the source is read from where the states of the changelog end, which is its first"
        " record where it has none, and all that it has from there on is counted anew."
    )


def _more_partitions(topic: str, before: int, now: int) -> SlidestatError:
    """Return the error for a source that has gained partitions."""
    return SlidestatError(
        f"The source {topic!r} had {counted(before, 'partition')} when this worker began, and has"
        f" {now}: keys are no longer in the partitions that have their states.",
        "Give the topology another name, to count from the start of its source.",
    )


def another_source(topology: str) -> str:
    """Return the advice where a state is of another source topic than there is."""
    return (
        f"To count the new topic from its start, stop all workers and run `slidestat replay"
        f" {topology}`, which forgets the states of the old one and writes over what windows of the"
        " same keys and times came to; to keep both, give the topology another name."
    )


def _outputs(topology: Declared) -> list[str]:
    names = [topology.output_topic, topology.dead_letter_topic, topology.late_topic]
    if topology.has_referee or (topology.counted and topology.counted.synopses):
        names.append(topology.answering.synopsis_topic)
    if topology.alert_topic is not None:
        names.append(topology.alert_topic)
    return names
