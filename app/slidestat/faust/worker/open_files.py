"""How many files a worker may have open: RocksDB's tables, and every connection, are one each."""

import resource
from contextlib import suppress

# Enough for hundreds of partitions; more costs whatever walks over all numbers of descriptors.
WANTED_FILES = 65_536


def raise_open_files() -> None:
    """Have this process open as many files as it may, up to WANTED_FILES: what a shell grants by
    default, 1,024, is little for many partitions.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Some systems have a limit of their own below the one that they report.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_files() -> int:
    """Return how many files this process may have open; WANTED_FILES where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED_FILES if soft == resource.RLIM_INFINITY else soft
