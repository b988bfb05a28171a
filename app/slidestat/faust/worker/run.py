"""Run a worker: one process of a consumer group, which computes topologies of one topic."""

import errno
import logging
import os
import re
import signal
import threading
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import faust
from aiokafka.errors import KafkaConnectionError, KafkaError
from confluent_kafka import KafkaException
from faust.exceptions import ConsistencyError

from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.errors import SlidestatError
from slidestat.faust.broker_contact import refused, went_away_at_start
from slidestat.faust.source.topic_watch import advice_without_changelog
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.resources import open_files, raise_open_files
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.log import LogForm, json_logging, log_event

# Errors that end a worker, as the user reads them.

# rocksdict raises plain exceptions; RocksDB begins their text with the kind of error.
_ROCKSDB_ERRORS = ("Corruption", "IO error")
# rocksdict's own errors of the system, such as for a database's folder, have Rust's form.
_OF_SYSTEM = re.compile(r"(?P<reason>[^\n]+) \(os error \d+\)")
_NO_FILES = (os.strerror(errno.EMFILE), os.strerror(errno.ENFILE))
_NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), os.strerror(errno.EFBIG))


def raise_for_the_user(reason: BaseException, data_dir: Path) -> NoReturn:
    """Raise the error that ended a worker, as a SlidestatError if the user can correct it."""
    if isinstance(reason, ConsistencyError):
        raise SlidestatError(
            f"The tables in {data_dir} are not of the changelog that there is: it was made anew, or"
            " lost its end, as with an unclean election of a leader or a lost disk.",
            advice_without_changelog(data_dir),
        ) from reason
    if isinstance(reason, KafkaConnectionError):
        raise went_away_at_start() from reason
    if isinstance(reason, (KafkaError, KafkaException)):
        raise refused(reason) from reason
    if isinstance(reason, OSError) and reason.errno in (errno.ENOSPC, errno.EDQUOT):
        raise _no_room(data_dir) from reason
    text = str(reason)
    of_system = _OF_SYSTEM.fullmatch(text) if type(reason) is Exception else None
    if of_system is not None:
        raise _table_error(of_system["reason"], data_dir) from reason
    if text.startswith(_ROCKSDB_ERRORS):
        raise _table_error(text, data_dir) from reason
    raise reason


def _table_error(reason: str, data_dir: Path) -> SlidestatError:
    if reason.endswith(_NO_ROOM):
        return _no_room(data_dir)
    if reason.endswith(_NO_FILES):
        return SlidestatError(
            f"The worker has no file left to open for the tables in {data_dir}: it may have"
            f" {open_files():,} open.",
            "Allow it more (`ulimit -n`, LimitNOFILE of systemd), or give its partitions to more"
            " workers, and start it again: nothing is lost, and nothing is damaged.",
        )
    return SlidestatError(
        f"The tables in {data_dir} cannot be read: {reason.rstrip('.')}.",
        f"Delete the folder {data_dir}; the worker restores it from the changelog.",
    )


def _no_room(data_dir: Path) -> SlidestatError:
    return SlidestatError(
        f"There is no room for tables and waiting events in {data_dir}.",
        "Make room, and start the worker again: nothing is lost.",
    )


# A worker's end: the first signal lets it finish; a second one, or too long a wait, does not.
#
# It can be ended anywhere: that is what the order of its writes is for. So nothing is lost where it
# leaves at once; the next worker reads again what was not committed.

# Part of the 30 s that Kubernetes grants.
LEAVE_S = 25.0
# A program that ends a whole group of processes may ask each of them twice at once, as `timeout`
# does: a signal that comes so soon after the first is the same request.
ONE_WISH_S = 0.25
_SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


class LeavingWorker(faust.Worker):
    """A worker like Faust's, which leaves within LEAVE_S, and at a second signal at once. It leaves
    as well when its terminal is closed, and no signal starts a debugger in it.
    """

    def install_signal_handlers(self) -> None:
        super().install_signal_handlers()
        self.loop.remove_signal_handler(signal.SIGUSR2)
        # A terminal's end is nothing to a worker that `nohup` has started.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self.loop.add_signal_handler(signal.SIGHUP, self._schedule_shutdown, signal.SIGHUP)

    def _schedule_shutdown(self, signal_received: signal.Signals) -> None:
        super()._schedule_shutdown(signal_received)
        log_event("stopping", f"stopping, within {LEAVE_S:.0f} s; a second signal ends it at once")
        asked = monotonic()

        def leave_if_asked_again(number: int, _frame: Any) -> None:
            if monotonic() - asked >= ONE_WISH_S:
                _leave_at_once(number)

        # Python's own handlers, not the event loop's, which may be what hangs.
        for number in _SIGNALS:
            signal.signal(number, leave_if_asked_again)
        watchdog = threading.Timer(LEAVE_S, _leave_unfinished)
        watchdog.daemon = True
        watchdog.start()


def _leave_at_once(number: int) -> NoReturn:
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


def run_worker(settings: WorkerSettings) -> None:
    """Run a worker until a signal ends it, or to the end of its extent; then flush, commit and
    leave the group.

    Raises SlidestatError for what the user can correct, other exceptions as they are.
    """
    raise_open_files()
    member = GroupMember(settings)
    app = member.app
    # The terminal shows our own messages; Faust's are in its log.
    is_json = settings.log is LogForm.JSON
    worker = LeavingWorker(
        app,
        quiet=True,
        loglevel="WARNING",
        logfile=None if is_json else str(settings.data_dir / "worker.log"),
        logging_config=json_logging() if is_json else None,
        redirect_stdouts=False,
    )
    worker.spinner = None
    # Where the disk of the log is full, the terminal shows what ended the worker.
    logging.raiseExceptions = False
    # A commit that takes longer than the interval is a busy worker, not an error.
    logging.getLogger("mode.timers").setLevel(logging.ERROR)
    try:
        with calm_garbage_collector():
            worker.execute_from_commandline()
    except SystemExit as stop:
        if stop.code:
            # The exit means only that there was an error; the error is the one that Faust stopped
            # for, or its cause.
            reason = app.crash_reason or stop.__context__ or stop
            if (error := app.topics_error()) is not None:
                raise error from reason
            raise_for_the_user(reason, settings.data_dir)
    finally:
        member.close()
