"""Memory that is free, back to the operating system."""

import ctypes

from slidestat.engine.garbage_collector import collect_garbage


def give_back_memory() -> None:
    """Return what was let go: the C library keeps what lies between things that are still in use,
    and a worker that gets other partitions again and again would grow by it. Does nothing where the
    library is not GNU's. Takes up to some hundred milliseconds, in which other threads go on.
    """
    collect_garbage()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
