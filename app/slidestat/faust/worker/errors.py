"""Errors that end a worker, as the user reads them."""

import errno
import os
from pathlib import Path
from typing import NoReturn

from aiokafka.errors import KafkaConnectionError
from faust.exceptions import ConsistencyError

from slidestat.errors import SlidestatError
from slidestat.faust.broker_contact import went_away_at_start
from slidestat.faust.source.topic_watch import advice_without_changelog
from slidestat.faust.worker.open_files import open_files

# rocksdict raises plain exceptions; RocksDB begins their text with the kind of error.
_ROCKSDB_ERRORS = ("Corruption", "IO error")
_NO_FILES = (os.strerror(errno.EMFILE), os.strerror(errno.ENFILE))
_NO_ROOM = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), os.strerror(errno.EFBIG))


def raise_for_the_user(reason: BaseException, data_dir: Path) -> NoReturn:
    """Raise the error that ended a worker, as a SlidestatError if the user can correct it."""
    if isinstance(reason, ConsistencyError):
        raise SlidestatError(
            f"The tables in {data_dir} are ahead of their changelog: it was made anew.",
            advice_without_changelog(data_dir),
        ) from reason
    if isinstance(reason, KafkaConnectionError):
        raise went_away_at_start() from reason
    if isinstance(reason, OSError) and reason.errno in (errno.ENOSPC, errno.EDQUOT):
        raise _no_room(data_dir) from reason
    if str(reason).startswith(_ROCKSDB_ERRORS):
        raise _table_error(str(reason), data_dir) from reason
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
