"""One writer at a time in a topology's part of a lake.

A lock is a small file in the lake, made only where there is none, with its owner. The owner writes
it again each `BEAT_S`, so a lock whose owner was killed is recognised as it no longer changes: then
the next job takes it. The clocks of two machines are never compared.

A job that runs for weeks lends its lock: one that asks for it, by another small file, gets it
between two writes, and gives it back.
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
from slidestat.spark.lake.files import LakeFiles
from slidestat.spark.lake.lake import Lake

# The file with the job that has a lake, or that asks for it, and whether that job lives.

SETTLED_S = 0.3
"""If two make a file at once, on a file system where both can, one stays."""

STILL_S = 30.0
"""A file that has not changed for so long has no owner."""

Owner = dict[str, object]


class Watched:
    """A job's file, looked at now and then; `found` is its last content."""

    def __init__(self, files: LakeFiles, path: str) -> None:
        self._files, self._path = files, path
        self._since = time.monotonic()
        self.found: Owner | None = None

    def is_gone(self) -> bool:
        """Return whether the file or its job is gone: here at once, elsewhere after 30 s."""
        found = read_owner(self._files, self._path)
        if found is None and not self._files.exists(self._path):
            return True
        if found != self.found:
            self.found, self._since = found, time.monotonic()
        if found is not None and found.get("host") == socket.gethostname():
            return not _runs(found.get("pid"))
        return time.monotonic() - self._since > STILL_S


def await_end(files: LakeFiles, path: str, say: Callable[[str], None]) -> None:
    """Return once the lock's owner is gone; raise SlidestatError if it lives."""
    found = settled_owner(files, path)
    if found is not None and found.get("host") == socket.gethostname():
        if _runs(found.get("pid")):
            raise taken(path, found)
    else:
        say(f"{named(found)} had this lake: waiting {STILL_S:.0f} s to see whether it still runs.")
        time.sleep(STILL_S)
        if read_owner(files, path) != found:
            raise taken(path, read_owner(files, path))
    if read_owner(files, path) == found:
        files.remove(path)


def _runs(pid: object) -> bool:
    """Return whether a process of this machine lives; a zombie that was not waited for does not."""
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


def taken(path: str, owner: Owner | None) -> SlidestatError:
    """Return the error of a lake that another job has."""
    return SlidestatError(
        f"{named(owner)} is writing to this lake.",
        f"Wait until it has ended, or end it; its lock is {path}.",
    )


def named(owner: Owner | None) -> str:
    """Return a description of the job that has a lock, for a person."""
    if owner is None:
        return "Another job"
    return (
        f"The {owner.get('job')} of {owner.get('user')} on {owner.get('host')}, process"
        f" {owner.get('pid')} since {owner.get('since')},"
    )


def settled_owner(files: LakeFiles, path: str) -> Owner | None:
    """Return the same as `read_owner`, once what was half written is whole."""
    found = read_owner(files, path)
    if found is None:
        time.sleep(SETTLED_S)
        found = read_owner(files, path)
    return found


def read_owner(files: LakeFiles, path: str) -> Owner | None:
    """Return the owner of the lock; None if the file is gone or half written."""
    try:
        found = json.loads(files.read(path))
    except (SlidestatError, ValueError):
        return None
    return found if isinstance(found, dict) else None


BEAT_S = 10.0
_LOOKS_S = 0.5


class LakeLock:
    """A lock that is held: `writing` checks that it still is. One that `lends` has its lake as it
    should be, by calling that, whenever it comes back.
    """

    def __init__(
        self, files: LakeFiles, path: str, owner: Owner, lends: Callable[[], None] | None = None
    ) -> None:
        self._files, self._path, self._owner = files, path, owner
        self._lends = lends
        self._beats = 0
        self._lost: Owner | None = None
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, daemon=True, name="lake lock")
        # The number of threads that write now; none begins to while the lock is lent.
        self._writing = 0
        self._is_lent = False
        self._turn = threading.Condition()

    @property
    def text(self) -> str:
        """Return the content of the file now."""
        lends = self._lends is not None
        return json.dumps({**self._owner, "beats": self._beats, "lends": lends}) + "\n"

    def start(self) -> None:
        """Write from now on that its owner lives."""
        self._is_mine()
        self._beating.start()

    def require(self) -> None:
        """Raise SlidestatError if another job has taken it, as from one that did not live."""
        if self._lost is not None:
            raise SlidestatError(
                f"{named(self._lost)} has taken over this lake: this job stood still for longer"
                f" than {STILL_S:.0f} s.",
                "Let that one end, and run this one again: it goes on where it ended.",
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write to the lake in this context, once it is not lent; SlidestatError as `require`."""
        with self._turn:
            self._turn.wait_for(lambda: not self._is_lent)
            self._writing += 1
        try:
            self.require()
            yield
        finally:
            with self._turn:
                self._writing -= 1
                self._turn.notify_all()

    def release(self) -> None:
        """Release the lock, if it is still this job's."""
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
                    self._lend()
            if self._lost is not None:
                return

    def _is_mine(self) -> bool:
        """Return whether the file is this job's; one gone or half written may become another's."""
        found = read_owner(self._files, self._path)
        if found is None:
            return False
        if found.get("token") != self._owner["token"]:
            self._lost = found
        return self._lost is None

    def _lend(self) -> None:
        """Give the lock to a job that asks for it, while no thread writes, and take it back."""
        asking = None if self._lends is None else read_owner(self._files, _asking(self._path))
        if asking is None or self._lends is None:
            return
        with self._turn:
            self._is_lent = True
            self._turn.wait_for(lambda: not self._writing)
        try:
            self._files.remove(self._path)
            self._lost = asking  # Until it is back.
            if self._is_back(asking):
                self._lends()
                self._lost = None
        finally:
            with self._turn:
                self._is_lent = False
                self._turn.notify_all()

    def _is_back(self, asking: Owner) -> bool:
        """Wait until it can be had again; False if another job has it, or this one ends."""
        wanted = Watched(self._files, _asking(self._path))
        while not wanted.is_gone() and not self._ended.wait(_LOOKS_S):
            pass
        if wanted.found == asking and wanted.is_gone():  # It was killed before it came.
            self._files.remove(_asking(self._path))
        taken = Watched(self._files, self._path)
        while not self._ended.is_set():
            if self._files.create(self._path, self.text):
                return True
            if taken.is_gone():
                self._files.remove(self._path)
            elif taken.found is not None and taken.found.get("token") != asking.get("token"):
                self._lost = taken.found
                return False
            self._ended.wait(_LOOKS_S)
        return False


@contextmanager
def locked(
    spark: SparkSession,
    lake: Lake,
    job: str,
    say: Callable[[str], None] = print,
    *,
    lends: Callable[[], None] | None = None,
    borrows: bool = False,
    path: str = "",
) -> Iterator[LakeLock]:
    """Lock the lake's folder of a topology for one `job` until the context is left; or, by another
    `path`, what that lock is for.

    A job that `lends` gives it, between two of its writes, to one that `borrows`, and has it back
    then: so that is called first. One that borrows waits for that.

    Raises SlidestatError, with the owner, while another job that has it lives. One that was killed
    on this machine is known at once, one elsewhere after `STILL_S`.
    """
    files, path = LakeFiles(spark), path or lake.lock
    owner: Owner = {
        "job": job,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "user": getpass.getuser(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "token": uuid4().hex,
    }
    lock = LakeLock(files, path, owner, lends)
    try:
        while not files.create(path, lock.text):
            found = settled_owner(files, path)
            if borrows and found is not None and found.get("lends"):
                say(f"{named(found)} is writing to this lake: waiting for the end of its batch.")
                _borrow(files, path, owner)
            else:
                await_end(files, path, say)
    finally:
        # Removed only with the lock in hand: the lender waits for that.
        if read_owner(files, _asking(path)) == owner:
            files.remove(_asking(path))
    time.sleep(SETTLED_S)
    lock.start()
    try:
        lock.require()
        yield lock
    finally:
        lock.release()


def _asking(path: str) -> str:
    """Return the file of a job that asks for the lock."""
    return f"{path.removesuffix('.json')}_wanted.json"


def _borrow(files: LakeFiles, path: str, owner: Owner) -> None:
    """Ask for the lock, wait until it is free; raises SlidestatError if another job waits too."""
    asking = _asking(path)
    while not files.create(asking, json.dumps(owner) + "\n"):
        other = Watched(files, asking)
        if not other.is_gone():
            raise SlidestatError(
                f"{named(other.found)} waits for this lake already.",
                "Wait until it has ended, or end it.",
            )
        files.remove(asking)
    lock = Watched(files, path)
    while not lock.is_gone():
        time.sleep(_LOOKS_S)
