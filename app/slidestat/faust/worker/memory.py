"""The memory of a worker's process: what the C library keeps of it, and what goes back."""

import ctypes
from typing import Any

from slidestat.engine.garbage_collector import collect_garbage

# GNU's <malloc.h>: M_ARENA_MAX.
_ARENA_MAX = -8
_ARENAS = 2


def limit_arenas() -> None:
    """Have all threads share two arenas of the C library, in place of eight a core: each keeps what
    was once freed in it, and a worker has twenty threads, most of which hold little for a moment.
    To be called before clients of Kafka start theirs: once it has made eight arenas, the library
    asks no more. Does nothing where the library is not GNU's.
    """
    mallopt = _of_the_c_library("mallopt")
    if mallopt is not None:
        mallopt(ctypes.c_int(_ARENA_MAX), ctypes.c_int(_ARENAS))


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
