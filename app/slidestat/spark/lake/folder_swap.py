"""Two folders trade places: in one step where the file system of this machine can, which on Linux
is every usual one; elsewhere in two renames, with the old folder set aside in between.
"""

import ctypes
import os
import sys
from functools import lru_cache
from pathlib import Path

from slidestat.spark.lake.lake_files import LakeFiles

_AT_CWD = -100
_EXCHANGE = 2  # linux/fs.h: RENAME_EXCHANGE


def swap(files: LakeFiles, old: str, new: str, aside: str) -> None:
    """Put the folder `new` in the place of `old`, which is at `new` or `aside` then.

    Where that takes two renames, `old` is nowhere between them: `put_back` brings it from `aside`.
    Raises SlidestatError for a path that its file system refuses.
    """
    here, there = _folder_here(files, old), _folder_here(files, new)
    if here and there:
        _make_durable(Path(there))
        if exchange(here, there):
            return
    files.make_parent(aside)
    files.rename(old, aside)
    files.rename(new, old)


def put_back(files: LakeFiles, old: str, aside: str) -> None:
    """Bring back what a `swap` that was broken off between its renames has set aside."""
    if files.exists(aside) and not files.exists(old):
        files.rename(aside, old)


def exchange(one: str, other: str) -> bool:
    """Exchange two folders of a disk in one step; False where system or disk has no such step."""
    call = _renameat2()
    if call is None:
        return False
    return bool(call(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _EXCHANGE) == 0)


@lru_cache(maxsize=1)
def _renameat2() -> "ctypes._NamedFuncPointer | None":
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None:
        call.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
    return call


def _make_durable(folder: Path) -> None:
    """Sync the written files to disk, as those that they replace will be removed."""
    for path in (folder, *folder.rglob("*")):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _folder_here(files: LakeFiles, path: str) -> str:
    """Return the path of a folder on this machine's disk; "" for any other."""
    found = files.path_here(path)
    return found if found and Path(found).is_dir() else ""
