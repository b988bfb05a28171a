"""One broker at a time on a data folder.

Kafka locks its folder as well, but only after a second broker's controller has already written
to the metadata log of the first (seen with 4.1.1: the first one then never ended cleanly).
"""

import fcntl
import os
from pathlib import Path

from slidestat.errors import SlidestatError


def lock_data_folder(folder: Path) -> int:
    """Lock the folder; return the open file descriptor that holds the lock.

    The lock lasts until every process that was handed the descriptor has closed it or ended: so
    until the JVM is gone, even if it outlives us. Raises SlidestatError when another one has it.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SlidestatError(
            f"Another broker uses the data folder {folder}.",
            "Stop it and wait until it has ended, or choose another folder.",
        ) from None
    return descriptor
