"""The floor: a consumer that decodes every record and does nothing with it.

python -m benchmarks.speed.bare BOOTSTRAP TOPIC GROUP PROGRESS_FILE ...
"""

import signal
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Consumer

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress

_BATCH = 10_000


def read(bootstrap: str, topic: str, group: str, progress: Progress) -> None:
    """Consume and decode until SIGTERM."""
    running = True

    def stop(*_signal: Any) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            # By default the client rests for a second each time it has 100,000 records waiting; a
            # floor should not be that low for want of two settings.
            "queued.min.messages": 500_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.subscribe([topic])
    loads = orjson.loads
    events = 0
    while running:
        messages = consumer.consume(_BATCH, timeout=0.1)
        for message in messages:
            loads(message.value() or b"")
        events += len(messages)
        progress.write(events)
    consumer.close()


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _ = typed(__doc__, *OF_A_SYSTEM[:4], "more...")
    read(_bootstrap, _topic, _group, Progress(Path(_file)))
