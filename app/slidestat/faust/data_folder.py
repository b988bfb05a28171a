"""A worker's data folder: one worker, one application, one cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from platformdirs import user_data_path

from slidestat.errors import SlidestatError
from slidestat.user_files import write_whole

if TYPE_CHECKING:
    from filelock import FileLock

_LABEL = "slidestat.json"
_SLOTS = 1000


class _Label(msgspec.Struct, frozen=True):
    """The application and the cluster to which a folder's data belong."""

    application_id: str
    cluster_id: str


@contextmanager
def data_folder(chosen: Path | None, application_id: str, cluster_id: str) -> Iterator[Path]:
    """Yield the folder for this worker's tables, locked while the context lasts.

    Without a choice, it is the first of the user's folders for this application that no other
    worker holds: a worker started again finds its tables. Raises SlidestatError for a folder that
    another worker holds, that cannot be written, or whose tables belong to another application or
    cluster.
    """
    with _lock(chosen, application_id) as folder:
        _check_label(folder, _Label(application_id, cluster_id))
        yield folder


def user_folders(application_id: str) -> Path:
    """Return the folder that has the user's data folders for an application."""
    return user_data_path("slidestat") / application_id


@contextmanager
def _lock(chosen: Path | None, application_id: str) -> Iterator[Path]:
    base = user_folders(application_id)
    slots = [chosen] if chosen else [base / f"worker-{slot}" for slot in range(_SLOTS)]
    for folder in slots:
        lock = _try_lock(folder)
        if lock is not None:
            try:
                yield folder.absolute()
            finally:
                lock.release()
            return
    raise SlidestatError(
        f"Another worker holds the data folder {slots[0]}.",
        "Give each worker a folder of its own with --data-dir, or leave the option out.",
    )


def _try_lock(folder: Path) -> "FileLock | None":
    """Return a held lock on the folder; None if another process holds it."""
    from filelock import FileLock, Timeout  # A process that only looks for a worker needs no lock.

    lock = FileLock(folder / "worker.lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        raise SlidestatError(
            f"The data folder {folder} cannot be used: {error.strerror}.",
            "Give one that can be written with --data-dir.",
        ) from error
    return lock


def _check_label(folder: Path, label: _Label) -> None:
    path = folder / _LABEL
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Label)
    except FileNotFoundError:
        write_whole(path, msgspec.json.encode(label))
        return
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SlidestatError(
            f"The data folder {folder} has a damaged {_LABEL}.",
            "Delete the folder: the worker restores its tables from the changelog.",
        ) from error
    if found.application_id != label.application_id:
        raise SlidestatError(
            f"The data folder {folder} belongs to {found.application_id}.",
            "Give this topology another folder with --data-dir.",
        )
    if found.cluster_id != label.cluster_id:
        raise SlidestatError(
            f"The data folder {folder} was written against another Kafka cluster"
            f" ({found.cluster_id}, not {label.cluster_id}).",
            "Delete the folder, or give another with --data-dir; tables are restored from the"
            " changelog.",
        )
