"""Figures of a window as a user of Pathway writes them from its documentation.

    python -m benchmarks.peers.pathway_flow \
        BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS WINDOW

WINDOW is tumbling or hopping, a count of a minute every 10 seconds, which Pathway calls sliding;
tumbling_second for latencies; hour for quantiles, distinct users and top paths of an hour. State in
memory, without persistence, and with no behaviour: a window's count goes to the topic GROUP-answers
each time it has changed, with the next of its commits, 1.5 seconds apart as they come. Forgetting
of old windows would drop what one partition is behind another.

Quantiles and frequent items have no reducers: an hour has them of all its values, and would be done
anew with each change. It is answered once, half an hour after its end, for want of another way to
wait for the other partition.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pathway as pw

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress

_SECOND_MS, _STEP_MS, _MINUTE_MS, _HOUR_MS = 1_000, 10_000, 60_000, 3_600_000
_QUANTILES = (0.5, 0.95, 0.99)


class Event(pw.Schema):  # type: ignore[misc]
    """What of an event is read."""

    key: str
    time: int


class Request(Event):
    """What of a request is read."""

    took: float
    user: str
    path: str


def _quantiles(took: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(took[int(quantile * (len(took) - 1))] for quantile in _QUANTILES)


def _top(paths: tuple[str, ...]) -> pw.Json:
    return pw.Json([list(each) for each in Counter(paths).most_common(10)])


def _hours(requests: Any) -> Any:
    """Return the figures of each hour, each key."""
    windows = requests.windowby(
        requests.time,
        window=pw.temporal.sliding(hop=_STEP_MS, duration=_HOUR_MS),
        instance=requests.key,
        behavior=pw.temporal.exactly_once_behavior(shift=_HOUR_MS // 2),
    )
    return windows.reduce(
        key=pw.this._pw_instance,
        end=pw.this._pw_window_end,
        distinct=pw.reducers.count_distinct(pw.this.user),
        quantiles=pw.apply(_quantiles, pw.reducers.sorted_tuple(pw.this.took)),
        top=pw.apply(_top, pw.reducers.tuple(pw.this.path)),
    )


def _counts(events: Any, window: str) -> Any:
    """Return the counts of each window, each key."""
    length = _SECOND_MS if window == "tumbling_second" else _MINUTE_MS
    shape = (
        pw.temporal.sliding(hop=_STEP_MS, duration=length)
        if window == "hopping"
        else pw.temporal.tumbling(duration=length)
    )
    return events.windowby(events.time, window=shape, instance=events.key).reduce(
        key=pw.this._pw_instance,
        start=pw.this._pw_window_start,
        end=pw.this._pw_window_end,
        value=pw.reducers.count(),
    )


def run(bootstrap: str, topic: str, group: str, progress: Progress, window: str) -> None:
    """Read until a signal comes."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "6000",
    }
    schema = Request if window == "hour" else Event
    events = pw.io.kafka.read(settings, topic=topic, schema=schema, format="json")
    answers = _hours(events) if window == "hour" else _counts(events, window)
    pw.io.kafka.write(
        answers, settings, topic_name=f"{group}-answers", format="json", key=answers.key
    )

    def read(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG001
        if is_addition:
            progress.write(row["events"])

    pw.io.subscribe(events.reduce(events=pw.reducers.count()), read)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _, _, _window = typed(__doc__, *OF_A_SYSTEM, "window")
    run(_bootstrap, _topic, _group, Progress(Path(_file)), _window)
