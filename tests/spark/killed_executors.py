"""A stream on a cluster of two executors, one of which is killed in each of three batches.

Prints how many were killed, and whether all rows are those of a worker; run by
tests/spark/session/test_cluster.py with a folder.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import psutil
import pyarrow as pa
from pyspark.errors import StreamingQueryException

from slidestat.spark import stream
from slidestat.spark.backfill.backfill import by_partition
from slidestat.spark.session import spark_session
from slidestat.spark.streaming.operator import PROVIDER, ROCKSDB
from tests.spark.requests_history import TOPOLOGY, history_of, requests
from tests.spark.streaming.test_stream import Batches, rows_from, texts, write_records

KILLS, BATCHES, EVENTS, STARTS = 3, 4, 150, 20


def slow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on, slowly enough that a task can be killed behind its states."""
    for batch in batches:
        time.sleep(1.5)
        yield batch


def executors() -> list[psutil.Process]:
    """Return the executors of this process's cluster."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # It has ended meanwhile.
            if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                found.append(process)
    return found


def kill_in_batches(checkpoint: Path, over: Event, killed: set[str]) -> None:
    """Kill an executor in each of some batches that have begun and not ended."""
    while not over.wait(4) and len(killed) < KILLS:
        begun, ended = (
            {it.name for it in (checkpoint / log).glob("[0-9]*")} for log in ("offsets", "commits")
        )
        batch = max(begun - ended - killed, default=None)
        if batch is not None and (found := executors()):
            os.kill(found[0].pid, signal.SIGKILL)
            killed.add(batch)


def main(folder: Path) -> None:
    """Run the stream until it has ended by itself."""
    with spark_session("killed", "local-cluster[2,1,1024]") as spark:
        spark.conf.set(PROVIDER, ROCKSDB)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        parts = [requests(BATCHES * EVENTS, seed) for seed in range(2)]
        topics = [f"filled-{it}" for it in ("statistics", "late", "dead-letters")]
        written = by_partition(TOPOLOGY, history_of(spark, parts), 2).collect()
        wanted = texts([row for row in written if row.topic in topics])
        for number in range(BATCHES):
            cut = slice(EVENTS * number, EVENTS * (number + 1))
            write_records(folder / "records", f"{number}", parts, cut)
            os.utime(folder / "records" / f"{number}.parquet", (1e9 + number, 1e9 + number))
        rows = stream(rows_from(spark, folder / "records"), TOPOLOGY)
        rows = rows.mapInArrow(slow, rows.schema)
        batches, over, killed = Batches(folder / "checkpoint"), Event(), set[str]()
        killer = Thread(target=kill_in_batches, args=(batches.checkpoint, over, killed))
        killer.start()
        try:
            for _ in range(STARTS):
                try:
                    batches.run(rows)
                    break
                except StreamingQueryException as error:
                    # Spark gives each process of Python ten seconds, and tasks four tries.
                    print(str(error).splitlines()[0], file=sys.stderr)
        finally:
            over.set()
            killer.join()
        print("killed", len(killed), "batches", len(batches.rows), "equal", batches.all == wanted)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
