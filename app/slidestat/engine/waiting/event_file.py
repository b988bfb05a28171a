"""Events that wait long, in files: the operating system has in memory what of them is looked at.

A file is mapped into memory and has no name from then on: it is gone with the last array that looks
into it, also when the process is killed. None is read again by another process, which has its
events from the source.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from slidestat.engine.events import Events


def in_file(events: Events, path: Path) -> Events:
    """Return the same events in a file that was at `path` for a moment.

    Its arrays cannot be written to. Costs a copy of the events to the disk. Raises OSError where
    there is no room for them.
    """
    columns = [events.offsets, events.times, events.keys, *events.numbers, *events.items]
    # Arrow keeps a truth value in a bit, of which no view is possible.
    columns += [condition.view(np.uint8) for condition in events.conditions]
    batch = pa.record_batch(list(map(pa.array, columns)), list(map(str, range(len(columns)))))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.memory_map(str(path)) as mapped:
        path.unlink()
        offsets, times, keys, *rest = pa.ipc.open_file(mapped).get_batch(0).columns
    numbers, items = rest[: len(events.numbers)], rest[len(events.numbers) :]
    items, conditions = items[: len(events.items)], items[len(events.items) :]
    return Events(
        offsets.to_numpy(),
        times.to_numpy(),
        keys,
        tuple(column.to_numpy() for column in numbers),
        tuple(items),
        tuple(column.to_numpy().view(np.bool_) for column in conditions),
    )
