"""The state of a worker that has learnt that others have its partitions, until a rebalance confirms
it.
"""

import asyncio
from collections.abc import Callable

from slidestat.errors import EndedError, SlidestatError
from slidestat.faust.broker_contact import BrokerContact
from slidestat.faust.fencing import SupersededError
from slidestat.faust.worker.app import SESSION_TIMEOUT_S
from slidestat.kafka.transactional_producer import FencedError

# As long as a group may take to let a worker know that it was removed.
_REBALANCE_S = 3 * SESSION_TIMEOUT_S
_SUPERSEDED = SlidestatError(
    "Another worker writes to this worker's changelog, and is in no group with it.",
    "Stop one of the two; this one committed nothing since.",
)
_FENCED_OFF = EndedError(
    "The brokers take no more transactions of this worker: another one has its partitions, or a"
    " transaction was open for more than ten minutes.",
    "Start it again: nothing is lost, and what was not committed is written anew. If it happens"
    " again, look for a worker of the same topology that is in no group with it.",
)


class Supersession:
    """A guard that ends the worker if no rebalance comes after it was fenced off: then the other
    owner is in no group with it.
    """

    def __init__(self, contact: BrokerContact, end: Callable[[SlidestatError], None]) -> None:
        self._contact = contact
        self._end = end
        self._is_known = False

    def __bool__(self) -> bool:
        """Return whether the worker may write nothing."""
        return self._is_known

    def learn(self, error: SupersededError) -> None:
        """Wait for the rebalance."""
        self._is_known = True
        self._look_later(_FENCED_OFF if isinstance(error.__cause__, FencedError) else _SUPERSEDED)

    def rebalanced(self) -> None:
        """Clear the supersession after a rebalance: the group has assigned the partitions."""
        self._is_known = False

    def _look_later(self, reason: SlidestatError) -> None:
        asyncio.get_running_loop().call_later(_REBALANCE_S, self._look, reason)

    def _look(self, reason: SlidestatError) -> None:
        if not self._is_known:
            return
        if self._contact.is_silent:  # There is no way to learn of a rebalance.
            self._look_later(reason)
        else:
            self._end(reason)
