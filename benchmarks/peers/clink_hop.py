"""Sliding figures from pyclink, as its documentation has them: a HOP in its SQL.

    python -m benchmarks.peers.clink_hop \
        BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS

Each event is in 360 windows. APPROX_PERCENTILE keeps all values of a window, and COUNT(DISTINCT)
all users. It has no aggregate of the most frequent items. Results come to Python as Arrow, as
embedded ones do, and go to the topic GROUP-answers. Progress is what windows of ten seconds of the
same topic have counted. Its watermark is behind the newest event by half an hour of event time, as
one partition may be behind the other while it catches up.
"""

import threading
from pathlib import Path
from typing import Any

import orjson
import pyclink
from confluent_kafka import Producer

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress

_STATEMENTS = """
CREATE TABLE events (
    key VARCHAR, time BIGINT, took DOUBLE PRECISION, "user" VARCHAR, path VARCHAR
) WITH (
    connector='kafka', format='json', brokers='{bootstrap}', topic='{topic}', group_id='{group}',
    event_time_column='time', watermark_lag_ms='1800000'
);
CREATE TABLE counts (many BIGINT, until BIGINT) WITH (connector='collect');
CREATE TABLE answers (
    key VARCHAR, until BIGINT,
    p50 DOUBLE PRECISION, p95 DOUBLE PRECISION, p99 DOUBLE PRECISION, users BIGINT
) WITH (connector='collect');
INSERT INTO counts SELECT COUNT(*) AS many, window_end AS until
    FROM events GROUP BY TUMBLE(time, INTERVAL '10' SECOND);
INSERT INTO answers SELECT key, window_end AS until,
    APPROX_PERCENTILE(took, 0.5) AS p50, APPROX_PERCENTILE(took, 0.95) AS p95,
    APPROX_PERCENTILE(took, 0.99) AS p99, COUNT(DISTINCT "user") AS users
    FROM events GROUP BY HOP(time, INTERVAL '1' HOUR, INTERVAL '10' SECOND), key
"""


def _count(batches: Any, progress: Progress) -> None:
    done = 0
    for batch in batches:
        done += sum(batch.column("many").to_pylist())
        progress.write(done)


def run(bootstrap: str, topic: str, group: str, progress: Progress, data_dir: str) -> None:
    """Read until a signal comes."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    kept = {"checkpoint_dir": f"{data_dir}/checkpoints", "checkpoint_interval_ms": 30_000}
    with pyclink.Engine(**kept) as engine:
        engine.execute(_STATEMENTS.format(bootstrap=bootstrap, topic=topic, group=group))
        counts = engine.collect("counts")
        threading.Thread(target=_count, args=(counts, progress), daemon=True).start()
        for batch in engine.collect("answers"):
            for row in batch.to_pylist():
                quantiles = row["p50"], row["p95"], row["p99"]
                answer = {"end": row["until"], "quantiles": quantiles, "distinct": row["users"]}
                producer.produce(f"{group}-answers", orjson.dumps(answer | {"top": []}), row["key"])
                producer.poll(0)
            producer.flush()


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _data_dir, _ = typed(__doc__, *OF_A_SYSTEM)
    run(_bootstrap, _topic, _group, Progress(Path(_file)), _data_dir)
