"""One writer at a time in a topology's part of a lake.

A lock is a small file in the lake, made only where there is none, that says who has it. Its owner
writes it anew each `BEAT_S`, so that one whose owner was killed is known by its standing still:
then the next one takes it. The clocks of two machines are never compared.
"""

import getpass
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from slidestat.errors import SlidestatError
from slidestat.spark.lake.lake import Lake
from slidestat.spark.lake.lake_files import LakeFiles

BEAT_S = 10.0
STILL_S = 30.0
"""A lock that has stood still for so long is nobody's."""

_SETTLED_S = 0.3  # Of two that made the file at once, on a file system where both can, one stays.


class LakeLock:
    """A lock that is held: `require` tells whether it still is."""

    def __init__(self, files: LakeFiles, path: str, owner: dict[str, object]) -> None:
        self._files, self._path, self._owner = files, path, owner
        self._beats = 0
        self._lost: dict[str, object] | None = None
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True, name="lake lock")

    @property
    def text(self) -> str:
        """Return the content of the file now."""
        return json.dumps({**self._owner, "beats": self._beats}) + "\n"

    def start(self) -> None:
        """Say from now on that its owner lives."""
        self._is_mine()
        self._beating.start()

    def require(self) -> None:
        """Raise SlidestatError if another job has taken it, as from one that did not live."""
        if self._lost is not None:
            raise SlidestatError(
                f"{_named(self._lost)} has taken over this lake: this job stood still for longer"
                f" than {STILL_S:.0f} s.",
                "Let that one end, and run this one again: it goes on where it ended.",
            )

    def release(self) -> None:
        """Give it up, if it is still this job's."""
        self._ended.set()
        self._beating.join()
        # Where Spark has ended before, the lock stays; this process is gone then, too.
        with suppress(SlidestatError, Py4JError):
            if self._is_mine():
                self._files.remove(self._path)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            with suppress(SlidestatError, Py4JError):  # The next beat may come through.
                if self._is_mine():
                    self._beats += 1
                    self._files.write_over(self._path, self.text)
            if self._lost is not None:
                return

    def _is_mine(self) -> bool:
        """Whether the file is this job's; one that is gone or half written may become another's."""
        found = _read(self._files, self._path)
        if found is None:
            return False
        if found.get("token") != self._owner["token"]:
            self._lost = found
        return self._lost is None


@contextmanager
def locked(
    spark: SparkSession, lake: Lake, job: str, say: Callable[[str], None] = print
) -> Iterator[LakeLock]:
    """Have the lake's folder of a topology for one `job` until the context is left.

    Raises SlidestatError, which says who has it, while another job lives that does. One that was
    killed on this machine is known at once, one elsewhere after `STILL_S`.
    """
    files, path = LakeFiles(spark), lake.lock
    owner: dict[str, object] = {
        "job": job,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "user": getpass.getuser(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "token": uuid4().hex,
    }
    lock = LakeLock(files, path, owner)
    while not files.create(path, lock.text):
        _await_end(files, path, say)
    time.sleep(_SETTLED_S)
    lock.start()
    try:
        lock.require()
        yield lock
    finally:
        lock.release()


def _await_end(files: LakeFiles, path: str, say: Callable[[str], None]) -> None:
    """Return once the lock's owner is gone; raise SlidestatError if it lives."""
    found = _read(files, path)
    if found is None:
        time.sleep(_SETTLED_S)
        found = _read(files, path)
    if found is not None and found.get("host") == socket.gethostname():
        if _runs(found.get("pid")):
            raise _taken(path, found)
    else:
        say(f"{_named(found)} had this lake: waiting {STILL_S:.0f} s to see whether it still runs.")
        time.sleep(STILL_S)
        if _read(files, path) != found:
            raise _taken(path, _read(files, path))
    if _read(files, path) == found:
        files.remove(path)


def _runs(pid: object) -> bool:
    """Whether a process of this machine lives; one that nobody has waited for does not."""
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # It is another user's; or there is no /proc.
        return True
    return state not in "ZX"


def _taken(path: str, owner: dict[str, object] | None) -> SlidestatError:
    return SlidestatError(
        f"{_named(owner)} is writing to this lake.",
        f"Wait until it has ended, or end it; its lock is {path}.",
    )


def _named(owner: dict[str, object] | None) -> str:
    if owner is None:
        return "Another job"
    return (
        f"The {owner.get('job')} of {owner.get('user')} on {owner.get('host')}, process"
        f" {owner.get('pid')} since {owner.get('since')},"
    )


def _read(files: LakeFiles, path: str) -> dict[str, object] | None:
    """Who has the lock; None of one that is gone or half written."""
    try:
        found = json.loads(files.read(path))
    except (SlidestatError, ValueError):
        return None
    return found if isinstance(found, dict) else None
