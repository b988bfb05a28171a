"""Figures of a window as a user of Spark Structured Streaming writes them from its guide.

    python -m benchmarks.peers.spark_stream \
        BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS WINDOW

WINDOW is tumbling or hopping, a count of a minute each 10 seconds, which Spark calls sliding;
tumbling_second for latencies; hour for quantiles, distinct users and top paths of an hour each 10
seconds, by its own sketches, the last of which PySpark 4.1 has. PySpark, its Java and its Kafka
connector are those of the project. All cores, state in memory with a checkpoint each micro-batch,
both as they come; a window goes to the topic GROUP-answers once the watermark has passed it.
Without a limit one micro-batch would take the whole topic at once: each takes 100,000 records at
most.
"""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.streaming.listener import StreamingQueryListener

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress
from slidestat.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_RECORDS = 100_000
_LOOK_S = 0.1
# For each window: its length, its step, and the delay of the watermark.
_WINDOWS = {
    "tumbling": ("1 minute", "1 minute", "1 minute"),
    "hopping": ("1 minute", "10 seconds", "1 minute"),
    "tumbling_second": ("1 second", "1 second", "1 second"),
    "hour": ("1 hour", "10 seconds", "1 minute"),
}
_FIELDS = {"hour": "key string, time long, took double, user string, path string"}


class _Listener(StreamingQueryListener):
    """Notes how many records the finished micro-batches had."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = 0

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._done += event.progress.numInputRows
        self._progress.write(self._done)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass


def start(
    spark: "SparkSession", bootstrap: str, topic: str, group: str, data_dir: str, window: str
) -> "StreamingQuery":
    """Start the query."""
    length, step, delay = _WINDOWS[window]
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", _RECORDS)
        .load()
    )
    fields = _FIELDS.get(window, "key string, time long, value double")
    event = f.from_json(f.col("value").cast("string"), fields)
    keyed = (
        records.select(event.alias("event"))
        .select("event.*", f.timestamp_millis("event.time").alias("at"))
        .withWatermark("at", delay)
        .groupBy(f.window("at", length, step), "key")
    )
    start = f.unix_millis(f.col("window.start")).alias("start")
    end = f.unix_millis(f.col("window.end")).alias("end")
    if window == "hour":
        figures = keyed.agg(
            f.percentile_approx("took", [0.5, 0.95, 0.99]).alias("quantiles"),
            f.approx_count_distinct("user").alias("distinct"),
            f.expr("approx_top_k(path, 10)").alias("paths"),
        )
        top = f.expr("transform(paths, each -> array(each.item, each.count))").alias("top")
        answer = f.struct(end, "quantiles", "distinct", top)
    else:
        figures = keyed.count()
        answer = f.struct(start, end, f.col("count").alias("value"))
    return (
        figures.select("key", f.to_json(answer).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"{group}-answers")
        .option("checkpointLocation", data_dir)
        .outputMode("append")
        .start()
    )


def run(
    bootstrap: str, topic: str, group: str, progress: Progress, data_dir: str, window: str
) -> None:
    """Count until SIGTERM; raises what Spark raises if the query fails."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with spark_session("benchmark") as spark:
        spark.streams.addListener(_Listener(progress))
        query = start(spark, bootstrap, topic, group, data_dir, window)
        while query.isActive and not stopped.wait(_LOOK_S):
            pass
        if not stopped.is_set():
            query.awaitTermination()
        # The last windows that the watermark has passed come in a batch of their own.
        query.processAllAvailable()
        query.stop()


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _data_dir, _, _window = typed(
        __doc__, *OF_A_SYSTEM, "window"
    )
    run(_bootstrap, _topic, _group, Progress(Path(_file)), _data_dir, _window)
