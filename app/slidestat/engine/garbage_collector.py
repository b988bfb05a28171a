"""Python's garbage collector while batches come: calm, and in a worker by the clock."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# In a worker each connection that is closed leaves a kilobyte in a cycle of asyncio's own; after
# 500,000 objects, when the calmed collector would begin by itself, these are 80 MB.
COLLECT_EVERY_S = 30.0


def collect_garbage() -> None:
    """Collect cycles. Milliseconds: older objects are frozen, and states are bytes."""
    gc.collect()


@contextmanager
def calm_garbage_collector() -> Iterator[None]:
    """Run the garbage collector less often: a batch makes 100,000 objects that all die with it, and
    with Python's usual thresholds, most of the time spent on fetching, and a sixth of a backfill's,
    goes into looking through them for cycles. A process of Spark may have other tasks afterwards:
    then all is as it was.
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
