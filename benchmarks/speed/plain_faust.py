"""The same counts as a Faust user writes them from Faust's documentation.

    python -m benchmarks.speed.plain_faust BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR \
        PARTITIONS WINDOW

WINDOW is tumbling: Faust has no other that does not write an event several times. Events keep their
Kafka key, so nothing is repartitioned; windows go by the records' timestamps, the event times.
"""

from pathlib import Path
from typing import Any

import faust

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress

_WINDOW_S = 60.0
# Faust goes by the machine's clock, and the events are old: with an hour, windows vanish while they
# fill.
_KEPT_S = 20 * 365 * 86_400.0


class Event(faust.Record, serializer="json"):
    """An event; Faust decodes it with orjson, which is installed."""

    key: str
    time: int
    value: float


def make_app(
    bootstrap: str,
    topic: str,
    group: str,
    progress: Progress,
    data_dir: str,
    partitions: int,
) -> faust.App:
    """The Faust app: changelogs, store and commits as Faust has them."""
    app = faust.App(
        group,
        broker=f"kafka://{bootstrap}",
        store="rocksdb://",
        datadir=data_dir,
        topic_partitions=partitions,
        topic_disable_leader=True,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
    )
    source = app.topic(topic, value_type=Event)

    table = app.Table("counts", default=int, options={"driver": "rocksdict"})
    counts = table.tumbling(_WINDOW_S, expires=_KEPT_S)
    done = 0

    @app.agent(source)
    async def count(events: Any) -> None:
        nonlocal done
        async for event in events:
            counts[event.key] += 1
            done += 1
            progress.write(done)

    return app


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _data_dir, _partitions, _ = typed(
        __doc__, *OF_A_SYSTEM, "window"
    )
    _progress = Progress(Path(_file))
    _app = make_app(_bootstrap, _topic, _group, _progress, _data_dir, int(_partitions))
    faust.Worker(_app, loglevel="WARNING", redirect_stdouts=False).execute_from_commandline()
