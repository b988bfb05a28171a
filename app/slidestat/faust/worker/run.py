"""Run a worker: one process of a consumer group, which computes topologies of one topic."""

import logging

from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.faust.worker.errors import raise_for_the_user
from slidestat.faust.worker.graceful_shutdown import LeavingWorker
from slidestat.faust.worker.group_member import GroupMember
from slidestat.faust.worker.open_files import raise_open_files
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.log import LogForm, json_logging


def run_worker(settings: WorkerSettings) -> None:
    """Run a worker until SIGINT or SIGTERM, or to the end of its extent; then flush, commit and
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
    # Where the disk of the log is full, the terminal shows what ended the worker, without that
    # error.
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
