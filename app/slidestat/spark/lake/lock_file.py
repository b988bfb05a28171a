"""The file with the job that has a lake, or that asks for it, and whether that job lives.

An owner writes its file again now and then, so a file whose owner was killed is recognised as it no
longer changes. The clocks of two machines are never compared.
"""

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from slidestat.errors import SlidestatError
from slidestat.spark.lake.lake_files import LakeFiles

SETTLED_S = 0.3
"""Of two that made a file at once, on a file system where both can, one stays."""

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
        """Return whether the file is gone, or its job was killed: on this machine that is known at
        once.
        """
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
