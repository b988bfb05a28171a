"""A worker's end: SIGTERM and SIGINT let it finish; a second one, or too long a wait, does not.

It can be ended anywhere: that is what the order of its writes is for. So nothing is lost where it
leaves at once; the next worker reads again what was not committed.
"""

import os
import signal
import threading
from typing import Any, NoReturn

import faust

from slidestat.log import log_event

# Of the 30 s that Kubernetes grants.
LEAVE_S = 25.0


class LeavingWorker(faust.Worker):
    """A worker like Faust's, which leaves within LEAVE_S, and at a second signal at once."""

    def _schedule_shutdown(self, signal_received: signal.Signals) -> None:
        super()._schedule_shutdown(signal_received)
        log_event("stopping", f"stopping, within {LEAVE_S:.0f} s; a second signal ends it at once")
        # Not the event loop's: it may be what hangs.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _leave_at_once)
        watchdog = threading.Timer(LEAVE_S, _leave_unfinished)
        watchdog.daemon = True
        watchdog.start()


def _leave_at_once(number: int, _frame: Any) -> NoReturn:
    log_event(
        "left at once", "left at once: what was not committed is read again by the next worker"
    )
    os._exit(128 + number)


def _leave_unfinished() -> NoReturn:
    log_event(
        "left unfinished",
        f"error: The last work could not be committed within {LEAVE_S:.0f} s.\n"
        "what to do: Check that the broker is up; nothing is lost, the next worker reads again what"
        " was not committed.",
    )
    os._exit(2)
