"""A worker whose data folder is a small disk of its own, which can be filled while it works.

The disk is a tmpfs in a mount namespace of the worker's process; where no namespace may be made, a
limit on the size of its files stands in for it.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

_DISK = "96m"
# Of a log of RocksDB's, where files are limited; what a worker says is less.
_FILE_BYTES = 256 * 1024
_CHUNK = bytes(64 * 1024)
_MOUNTED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
_MOUNT = f'mount -t tmpfs -o size={_DISK} small "$0" && exec "$@"'


@cache
def can_mount() -> bool:
    """Whether this user may mount a tmpfs in a namespace."""
    tried = subprocess.run([*_MOUNTED, _MOUNT, "/mnt", "true"], capture_output=True, check=False)
    return tried.returncode == 0


class OnSmallDisk(subprocess.Popen[bytes]):
    """A process of `slidestat run ... --data-dir FOLDER ...` on such a disk."""

    def __init__(self, arguments: Sequence[str], output: IO[bytes]) -> None:
        self._folder = Path(arguments[arguments.index("--data-dir") + 1])
        self._folder.mkdir(parents=True, exist_ok=True)
        mounted = [*_MOUNTED, _MOUNT, str(self._folder)] if can_mount() else []
        command = [*mounted, sys.executable, "-m", "slidestat", *arguments]
        super().__init__(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def fill(self) -> None:
        """Leave no byte on the disk."""
        if not can_mount():
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
            return
        filler = Path(f"/proc/{self.pid}/root{self._folder}/filler")
        with suppress(OSError), filler.open("ab", buffering=0) as file:
            while file.write(_CHUNK):
                pass
            os.fsync(file.fileno())
