"""Counts of a minute as a user of Quix Streams writes them from its documentation.

    python -m benchmarks.peers.quix BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS WINDOW

WINDOW is tumbling, hopping (every 10 seconds) or sliding; tumbling_second for latencies. State in
RocksDB, changelog on, commits every 5 seconds as it comes; a window goes to the topic GROUP-answers
when it closes.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

from quixstreams import Application

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress

_SECOND, _STEP, _MINUTE = timedelta(seconds=1), timedelta(seconds=10), timedelta(minutes=1)


def run(
    bootstrap: str, topic: str, group: str, progress: Progress, data_dir: str, window: str
) -> None:
    """Count until SIGTERM."""
    app = Application(
        broker_address=bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        state_dir=data_dir,
        loglevel="WARNING",
    )
    done = 0

    def note(_event: Any) -> None:
        nonlocal done
        done += 1
        progress.write(done)

    events = app.dataframe(app.topic(topic, value_deserializer="json")).update(note)
    windows = {
        "tumbling": lambda: events.tumbling_window(_MINUTE),
        "hopping": lambda: events.hopping_window(_MINUTE, _STEP),
        "sliding": lambda: events.sliding_window(_MINUTE),
        "tumbling_second": lambda: events.tumbling_window(_SECOND),
    }
    answers = app.topic(f"{group}-answers", value_serializer="json")
    windows[window]().count().final().to_topic(answers)
    app.run()


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _data_dir, _, _window = typed(
        __doc__, *OF_A_SYSTEM, "window"
    )
    run(_bootstrap, _topic, _group, Progress(Path(_file)), _data_dir, _window)
