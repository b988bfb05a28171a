"""Counts of a minute as a user of Pathway writes them from its documentation.

    python -m benchmarks.peers.pathway_flow \
        BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS WINDOW

WINDOW is tumbling or hopping, every 10 seconds, which Pathway calls sliding; tumbling_second for
latencies. State in memory, without persistence, and with no behaviour: a window's count goes to the
topic GROUP-answers each time it has changed, with the next of its commits, 1.5 seconds apart as
they come. Forgetting of old windows would drop what one partition is behind another.
"""

import sys
from pathlib import Path
from typing import Any

import pathway as pw

from benchmarks.progress import Progress

_SECOND_MS, _STEP_MS, _MINUTE_MS = 1_000, 10_000, 60_000


class Event(pw.Schema):  # type: ignore[misc]
    """What of an event is read."""

    key: str
    time: int


def run(bootstrap: str, topic: str, group: str, progress: Progress, window: str) -> None:
    """Read until a signal comes."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "6000",
    }
    length = _SECOND_MS if window == "tumbling_second" else _MINUTE_MS
    events = pw.io.kafka.read(settings, topic=topic, schema=Event, format="json")
    shape = (
        pw.temporal.sliding(hop=_STEP_MS, duration=length)
        if window == "hopping"
        else pw.temporal.tumbling(duration=length)
    )
    counted = events.windowby(events.time, window=shape, instance=events.key).reduce(
        key=pw.this._pw_instance,
        start=pw.this._pw_window_start,
        end=pw.this._pw_window_end,
        value=pw.reducers.count(),
    )
    pw.io.kafka.write(
        counted, settings, topic_name=f"{group}-answers", format="json", key=counted.key
    )

    def read(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG001
        if is_addition:
            progress.write(row["events"])

    pw.io.subscribe(events.reduce(events=pw.reducers.count()), read)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _, _, _window = sys.argv[1:]
    run(_bootstrap, _topic, _group, Progress(Path(_file)), _window)
