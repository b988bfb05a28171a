"""Sliding figures from tiles in chDB, ClickHouse in a process, as its documentation has them.

    python -m benchmarks.peers.chdb_tiles \
        BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS

States of ten seconds of each key lie in a table of the engine AggregatingMergeTree, which adds up
those of one tile by itself. At each tick, once all partitions have passed it, the tiles of the hour
are merged for the keys that had an event since the last tick, and go to the topic GROUP-answers.
The aggregates are those that the documentation names for the task: quantilesTDigest, uniq and topK
with its counts. There is no changelog; offsets are committed of what is in the table. Any window of
whole tiles is answered by HTTP, with the same statement.
"""

import signal
import sys
from bisect import bisect_left
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pyarrow as pa
from chdb import session
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress

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
FROM d.tiles WHERE tile >= {first} AND tile < {end} AND key IN ({keys})
GROUP BY key
"""
_KEYS = "SELECT key FROM d.tiles WHERE tile = {last}"


class Tiles:
    """The table, and the events of each partition that wait for the end of their tile."""

    def __init__(self, data_dir: str, partitions: int) -> None:
        self._session = session.Session(f"{data_dir}/chdb")
        self._session.query("CREATE DATABASE IF NOT EXISTS d")
        self._session.query(_TILES)
        self._lock = Lock()
        self._newest = [0] * partitions
        self._waiting: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]
        self._next = 0
        # The next offset of each partition, behind what is in the table.
        self.offsets: dict[int, int] = {}

    def add(self, messages: list[Message]) -> None:
        """Take events in."""
        for message in messages:
            event = orjson.loads(message.value() or b"")
            event["tile"] = event["time"] // _TICK_MS * _TICK_MS
            partition = message.partition() or 0
            self.offsets.setdefault(partition, message.offset() or 0)
            self._waiting[partition].append(event)
            self._newest[partition] = event["time"]
        if not self._next and messages:
            self._next = min(part[0]["tile"] for part in self._waiting if part) + _TICK_MS

    def answers(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """Return each tick that all partitions have passed, with the figures of its keys."""
        passed = min(self._newest) // _TICK_MS * _TICK_MS
        if not self._next or passed < self._next:
            return []
        done = []
        for partition, waiting in enumerate(self._waiting):
            many = bisect_left(waiting, passed, key=lambda event: event["time"])
            done += waiting[:many]
            del waiting[:many]
            self.offsets[partition] = self.offsets.get(partition, 0) + many
        rows = pa.Table.from_pylist(done)  # noqa: F841 - the statement reads it by its name
        with self._lock:
            self._session.query(_INSERT)
        found = []
        for tick in range(self._next, passed + 1, _TICK_MS):
            keys = _KEYS.format(last=tick - _TICK_MS)
            found.append((tick, self.figures(tick - _WINDOW_MS, tick, keys)))
        self._next = passed + _TICK_MS
        return found

    def figures(self, first: int, end: int, keys: str) -> list[dict[str, Any]]:
        """Return the figures of the tiles in [first, end) of some keys, which SQL names."""
        statement = _ANSWERS.format(first=first, end=end, keys=keys)
        with self._lock:
            lines = self._session.query(statement, "JSONEachRow").bytes()
        found = []
        for line in lines.splitlines():
            figure = orjson.loads(line)
            figure["top"] = [(each["item"], each["count"]) for each in figure["top"]]
            found.append(figure | {"end": end})
        return found


def serve(tiles: Tiles) -> None:
    """Answer GET /KEY?first=&end= in a thread, and say where."""

    class Handler(BaseHTTPRequestHandler):
        """Answers for a window of a key."""

        def do_GET(self) -> None:
            """Answer with the figures as JSON."""
            url = urlsplit(self.path)
            asked = parse_qs(url.query)
            first, end = int(asked["first"][0]), int(asked["end"][0])
            body = orjson.dumps(tiles.figures(first, end, f"'{url.path[1:]}'")[0])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(f"answers at http://127.0.0.1:{server.server_port}", flush=True)


def run(bootstrap: str, topic: str, group: str, progress: Progress, tiles: Tiles) -> None:
    """Read until SIGTERM comes, and leave the group then."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    done = 0
    try:
        while True:
            # Records that are there are taken at once: a fetch of this many would wait for the last
            # one.
            messages = consumer.consume(_FETCH, timeout=0.05)
            tiles.add(messages)
            if found := tiles.answers():
                for tick, figures in found:
                    for figure in figures:
                        key = figure.pop("key")
                        producer.produce(
                            f"{group}-answers", orjson.dumps(figure | {"end": tick}), key
                        )
                        producer.poll(0)
                producer.flush()
                consumer.commit(
                    offsets=[TopicPartition(topic, *each) for each in tiles.offsets.items()],
                    asynchronous=False,
                )
            done += len(messages)
            progress.write(done)
    finally:
        consumer.close()


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _data_dir, _partitions = typed(__doc__, *OF_A_SYSTEM)
    _tiles = Tiles(_data_dir, int(_partitions))
    serve(_tiles)
    run(_bootstrap, _topic, _group, Progress(Path(_file)), _tiles)
