"""The mover of a group of workers, in a thread of the one that is elected.

Elected is who has partition 0 of the topic that records are moved to: the group gives it to one
worker, and to another one when that is gone. Where two take themselves for it for a moment, the
later one fences the other off, whose transaction counts for nothing.
"""

import threading
import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException

from slidestat.errors import SlidestatError
from slidestat.kafka.connection import set_command
from slidestat.kafka.producer import REFUSED_TIMES, advice_on_times
from slidestat.kafka.transactional_producer import Failure, LostError, failure_of
from slidestat.log import log_event
from slidestat.pauses import Pauses
from slidestat.repartition.moved_from import Behind, Move
from slidestat.repartition.mover import Mover

ELECTING_PARTITION = 0

# Another elected mover has begun; it moves, or the group is about to elect another.
_FENCED_PAUSE_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_LEAVE_S = 10.0


class ElectedMover:
    """A mover of records while this worker is elected; a person must correct its `failure`."""

    def __init__(self, move: Move) -> None:
        self._move = move
        self._is_elected = threading.Event()
        self._is_stopping = threading.Event()
        self.failure: Exception | None = None
        self._mover: Mover | None = None
        self._thread = threading.Thread(target=self._run, name="repartition", daemon=True)
        self._thread.start()

    @property
    def behind(self) -> Mapping[str, Behind] | None:
        """The lag of moving by the source, as of the last second or so; None where another worker
        moves, and until it is known.
        """
        mover = self._mover
        return None if mover is None else mover.behind

    def elect(self, partitions: Collection[int]) -> None:
        """Begin, or end, by the partitions that this worker has now."""
        if ELECTING_PARTITION in partitions:
            self._is_elected.set()
        else:
            self._is_elected.clear()

    def stop(self) -> None:
        """Commit what was moved, if the brokers let it within ten seconds, and end."""
        self._is_stopping.set()
        self._is_elected.set()  # So that no other mover waits for it.
        self._thread.join(_LEAVE_S)

    def _goes_on(self) -> bool:
        return self._is_elected.is_set() and not self._is_stopping.is_set()

    def _run(self) -> None:
        pauses = Pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        fenced = Pauses(_FENCED_PAUSE_S, _FENCED_PAUSE_S)
        while not self._is_stopping.is_set():
            self._is_elected.wait()
            if self._is_stopping.is_set():
                return
            began = time.monotonic()
            try:
                self._tell("begins", "by their key")
                self._mover = Mover(self._move, self._goes_on)
                self._mover.run()
                pauses.reset()
            except SlidestatError as error:
                self.failure = error
                return
            except LostError as error:
                self._tell("continues", f"with a new producer: {error}")
                self._is_stopping.wait(self._next_pause(pauses, began))
            except KafkaException as error:
                kafka_error: KafkaError = error.args[0]
                failure = failure_of(kafka_error)
                if failure is Failure.REFUSED:
                    self.failure = _refused(self._move, kafka_error)
                    return
                if failure is Failure.FENCED:
                    self._is_stopping.wait(fenced.begin())
                    continue
                if self._goes_on():
                    reason = kafka_error.str().rstrip(".")
                    pause_s = self._next_pause(pauses, began)
                    self._tell("waits", f"again in {pause_s:.1f} s: {reason}")
                    self._is_stopping.wait(pause_s)
            except Exception as error:  # noqa: BLE001  The worker ends of it.
                self.failure = error
                return
            finally:
                self._mover = None

    def _next_pause(self, pauses: Pauses, began: float) -> float:
        """Begin the next pause, the first one again after a mover that ran for long since `began`
        or moved records, and return its length in seconds.
        """
        has_moved = self._mover is not None and self._mover.has_moved
        if has_moved or time.monotonic() - began > _LONGEST_PAUSE_S:
            pauses.reset()
        return pauses.begin()

    def _tell(self, what: str, how: str) -> None:
        topology = self._move.topology
        log_event(
            f"repartition {what}",
            f"{topology.name}: moves the records of {topology.sources_text} to"
            f" {topology.events_topic} {how}",
            topology=topology.name,
            topics=[*topology.source_topics, topology.events_topic],
        )


def _refused(move: Move, kafka_error: KafkaError) -> SlidestatError:
    topology = move.topology
    topic, reason = topology.events_topic, kafka_error.str().rstrip(".")
    advice = "Check what this user may do (`slidestat doctor`), and the settings of the topics."
    if kafka_error.code() in REFUSED_TIMES:
        advice = advice_on_times(topic, move.bootstrap)
    elif kafka_error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        command = set_command(move.bootstrap, topic, "max.message.bytes=BYTES")
        advice = (
            "It takes smaller records than its sources, by its max.message.bytes or by the brokers'"
            f" message.max.bytes: set it to the largest of theirs, {command}."
        )
    elif kafka_error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        advice = "Set the brokers' transaction.max.timeout.ms to 60000 or more."
    return SlidestatError(
        f"{topology.name}: records of {topology.sources_text!r} cannot be moved to"
        f" {topic!r}: {reason}.",
        f"{advice} Nothing is lost: a restarted worker goes on from the last commit.",
    )
