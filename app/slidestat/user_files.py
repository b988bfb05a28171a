"""The files that slidestat keeps on a machine for its user: the cache folder, and small ones."""

import os
import secrets
from pathlib import Path

from platformdirs import user_cache_path

CACHE_VARIABLE = "SLIDESTAT_CACHE_DIR"


def cache_folder() -> Path:
    """Return the folder for compiled kernels, fetched jars and logs of local brokers: what
    SLIDESTAT_CACHE_DIR names, or one of the user's caches. It may not be there yet.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or user_cache_path("slidestat")).absolute()


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file, and make its folder if missing: whole or not at all, whenever this
    process or the machine ends.

    A reader finds the old content meanwhile, or all of `data`. Raises OSError, and then leaves what
    was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Processes of several containers may have the same number, and share a folder.
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            # The name may be on the disk before the data is, and a machine that stops between the
            # two would keep an empty file.
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException as error:
        new.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # A full disk is noticed by writes, which name no file.
        raise
