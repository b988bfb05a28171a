"""Sliding figures from tiles in chDB, ClickHouse in a process, as its documentation has them.

    python -m benchmarks.peers.chdb_tiles \
        BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS

States of ten seconds of each key lie in a table of the engine AggregatingMergeTree, which adds up
those of one tile by itself. At each tick, once all partitions have passed it, the tiles of the hour
are merged for the keys that had an event since the last tick, and go to the topic GROUP-answers.
The aggregates are those that the documentation names for the task: quantilesTDigest, uniq and topK
with its counts. There is no changelog, and offsets are committed as the client does by itself.
"""

import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from chdb import session
from confluent_kafka import Consumer, Message, Producer

from benchmarks.progress import Progress

_TICK_MS, _WINDOW_MS = 10_000, 3_600_000
_FETCH = 10_000
_TILES = """
CREATE TABLE IF NOT EXISTS d.tiles (
    key String, tile Int64,
    took AggregateFunction(quantilesTDigest(0.5, 0.95, 0.99), Float64),
    users AggregateFunction(uniq, String),
    paths AggregateFunction(topK(10, 3, 'counts'), String)
) ENGINE = AggregatingMergeTree ORDER BY (tile, key)
"""
_INSERT = """
INSERT INTO d.tiles SELECT assumeNotNull(key), assumeNotNull(tile),
    quantilesTDigestState(0.5, 0.95, 0.99)(assumeNotNull(took)),
    uniqState(assumeNotNull(user)), topKState(10, 3, 'counts')(assumeNotNull(path))
FROM Python(rows) GROUP BY 1, 2
"""
_ANSWERS = """
SELECT key, quantilesTDigestMerge(0.5, 0.95, 0.99)(took) AS quantiles,
    uniqMerge(users) AS "distinct", topKMerge(10, 3, 'counts')(paths) AS top
FROM d.tiles WHERE tile >= {first} AND tile < {end}
    AND key IN (SELECT key FROM d.tiles WHERE tile = {last})
GROUP BY key
"""


class Tiles:
    """The table, and the events that wait for the end of their tile."""

    def __init__(self, data_dir: str, partitions: int) -> None:
        self._session = session.Session(f"{data_dir}/chdb")
        self._session.query("CREATE DATABASE IF NOT EXISTS d")
        self._session.query(_TILES)
        self._newest = [0] * partitions
        self._waiting: list[dict[str, Any]] = []
        self._next = 0

    def add(self, messages: list[Message]) -> None:
        """Take events in."""
        for message in messages:
            event = orjson.loads(message.value() or b"")
            event["tile"] = event["time"] // _TICK_MS * _TICK_MS
            self._waiting.append(event)
            self._newest[message.partition() or 0] = event["time"]
        if not self._next and self._waiting:
            self._next = min(event["tile"] for event in self._waiting) + _TICK_MS

    def answers(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """Return each tick that all partitions have passed, with the figures of its keys."""
        passed = min(self._newest) // _TICK_MS * _TICK_MS
        if not self._next or passed < self._next:
            return []
        done = [event for event in self._waiting if event["tile"] < passed]
        self._waiting = [event for event in self._waiting if event["tile"] >= passed]
        rows = pa.Table.from_pylist(done)  # noqa: F841 - the statement reads it by its name
        self._session.query(_INSERT)
        found = []
        for tick in range(self._next, passed + 1, _TICK_MS):
            limits = {"first": tick - _WINDOW_MS, "end": tick, "last": tick - _TICK_MS}
            lines = self._session.query(_ANSWERS.format(**limits), "JSONEachRow").bytes()
            found.append((tick, [orjson.loads(line) for line in lines.splitlines()]))
        self._next = passed + _TICK_MS
        return found


def run(bootstrap: str, topic: str, group: str, progress: Progress, tiles: Tiles) -> None:
    """Read until a signal comes."""
    settings = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    done = 0
    while True:
        messages = consumer.consume(_FETCH, timeout=0.5)
        tiles.add(messages)
        for tick, figures in tiles.answers():
            for figure in figures:
                key = figure.pop("key")
                figure["top"] = [(each["item"], each["count"]) for each in figure["top"]]
                producer.produce(f"{group}-answers", orjson.dumps(figure | {"end": tick}), key)
                producer.poll(0)
        producer.flush()
        done += len(messages)
        progress.write(done)


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _data_dir, _partitions = sys.argv[1:]
    run(_bootstrap, _topic, _group, Progress(Path(_file)), Tiles(_data_dir, int(_partitions)))
