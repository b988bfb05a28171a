"""The memory of a worker's process: what the C library keeps of it, and what goes back."""

import ctypes
import resource
from contextlib import suppress
from typing import Any

from slidestat.engine.garbage_collector import collect_garbage

# GNU's <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_ARENAS = 2
# Columns of a batch, and the text of its emissions, are megabytes each, and freed soon after: what
# goes back to the system is cleared page by page when the next batch takes it.
_KEPT_BYTES = 64 * 2**20
# The most that the library allows. A larger block is mapped alone.
_LARGEST_KEPT = 32 * 2**20


def limit_arenas() -> None:
    """Have all threads share two arenas of the C library, in place of eight a core: each keeps what
    was once freed in it, and a worker has twenty threads, most of which hold little for a moment.
    Up to 64 MiB at the end of an arena are kept for what is allocated next. To be called before
    clients of Kafka start their threads: once it has made eight arenas, the library asks no more.
    Does nothing where the library is not GNU's.
    """
    mallopt = _of_the_c_library("mallopt")
    if mallopt is not None:
        for parameter, value in (
            (_ARENA_MAX, _ARENAS),
            (_TRIM_THRESHOLD, _KEPT_BYTES),
            (_MMAP_THRESHOLD, _LARGEST_KEPT),
        ):
            mallopt(ctypes.c_int(parameter), ctypes.c_int(value))


def give_back_memory() -> None:
    """Return what was let go: the C library keeps what lies between things that are still in use,
    and a worker that gets other partitions again and again would grow by it. Does nothing where the
    library is not GNU's. Takes up to some hundred milliseconds, in which other threads run on.
    """
    collect_garbage()
    trim = _of_the_c_library("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _of_the_c_library(name: str) -> Any | None:
    return getattr(ctypes.CDLL(None), name, None)


# Open files: each of RocksDB's tables, and each connection, is one.

# Enough for hundreds of partitions; more costs whatever walks over all numbers of descriptors.
WANTED_FILES = 65_536


def raise_open_files() -> None:
    """Have this process open as many files as it may, up to WANTED_FILES: what a shell grants by
    default, 1,024, is little for many partitions.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems have a lower limit than the one that they report.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_files() -> int:
    """Return how many files this process may have open; WANTED_FILES where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED_FILES if soft == resource.RLIM_INFINITY else soft
