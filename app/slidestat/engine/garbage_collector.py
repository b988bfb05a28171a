"""Python's garbage collector while batches come: calm."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def calm_garbage_collector() -> Iterator[None]:
    """A batch makes 100,000 objects that all die with it: with Python's usual thresholds, most of
    the time spent on fetching, and a sixth of a backfill's, goes into looking through them for
    cycles. A process of Spark may have other tasks afterwards: then all is as it was.
    """
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
