"""From a record to the statistic that it brings about, at a fixed rate.

    python -m benchmarks.latency [--rate 2000] [--seconds 60]

Records of 1,000 keys go to an empty topic as they happen: their event time is the time of sending.
A worker emits count, sum and mean of each key each second; the broker stamps each statistic as it
appends it. Latency is from the sending of the record that moved the watermark past the tick, which
the statistic names, to that stamp: decoding, statistics and producing, and both ways to the broker.
"""

import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console

from app.client.connection import admin_client
from app.client.topics import create_topic
from app.errors import SlidestatError
from app.security.clients import client_config
from app.streaming.topology import Topology
from benchmarks import results
from benchmarks.cases import CaseName, make_topology
from benchmarks.measure import GroupOffsets, SubjectProcess
from benchmarks.progress import Progress
from benchmarks.systems import OURS, SYSTEMS
from benchmarks.throughput import PARTITIONS, broker, run_command

_KEYS = 1_000
_EVERY = "1s"
_TOPIC, _NAME = "latency-events", "latency"
_PATIENCE_S = 180.0
# The first seconds have the kernels' loading in them.
_WARM_UP_S = 5


class _Emission(msgspec.Struct, gc=False):
    source_partition: int
    source_offset: int


def measure_latency(rate: int, seconds: int) -> dict[str, float]:
    """Milliseconds, p50 and p99 over all statistics after the first five seconds."""
    with (
        tempfile.TemporaryDirectory(prefix="slidestat-bench-") as name,
        broker() as (bootstrap, _),
    ):
        folder = Path(name)
        topology = make_topology(CaseName.SUMS, _TOPIC, _NAME, _EVERY)
        create_topic(bootstrap, _TOPIC, PARTITIONS, {"retention.ms": "-1"})
        for topic in (topology.output_topic, topology.dead_letter_topic, topology.late_topic):
            settings = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
            create_topic(bootstrap, topic, PARTITIONS, settings)
        progress = Progress.create(folder / "progress")
        command = [*SYSTEMS[OURS].command(), bootstrap, _TOPIC, _NAME, str(folder / "progress")]
        command += [str(folder), str(PARTITIONS), _EVERY, CaseName.SUMS]
        group = topology.application_id
        try:
            with (
                SubjectProcess(command, folder / "log") as process,
                closing(GroupOffsets(bootstrap, _TOPIC, group, PARTITIONS)) as offsets,
            ):
                # The worker has joined once it takes up the first records.
                sent = _send(bootstrap, PARTITIONS, 1)
                process.wait_for(progress.read, 1, _PATIENCE_S)
                sent = _send(bootstrap, rate * seconds, rate)
                process.wait_for(offsets.committed, PARTITIONS + rate * seconds, _PATIENCE_S)
            found = _latencies(bootstrap, topology, sent)
        finally:
            _delete(bootstrap)
    if not len(found):
        raise SlidestatError("There were no statistics.", "Measure for longer: --seconds.")
    p50, p99 = np.percentile(found, (50, 99)).tolist()
    return {
        "rate": rate,
        "seconds": seconds,
        "statistics": len(found),
        "p50_ms": p50,
        "p99_ms": p99,
    }


def _send(bootstrap: str, events: int, rate: int) -> int:
    """Send events at a rate; return the time after which statistics count, in milliseconds."""
    producer = Producer({**client_config(bootstrap), "linger.ms": 1})
    start = time.time()
    for number in range(events):
        # Sleep as long as the schedule wants; what is late goes at once.
        if (wait := start + number / rate - time.time()) > 0:
            producer.poll(0)
            time.sleep(wait)
        key, now = number % _KEYS, int(time.time() * 1000)
        value = b'{"key":"key-%06d","time":%d,"value":1.25}' % (key, now)
        producer.produce(_TOPIC, value, b"key-%06d" % key, key % PARTITIONS, timestamp=now)
    producer.flush(_PATIENCE_S)
    return int((start + _WARM_UP_S) * 1000)


def _latencies(bootstrap: str, topology: Topology, since_ms: int) -> list[int]:
    """Of each statistic whose record was sent at `since_ms` or later."""
    sent = {place: stamp for place, stamp, _ in _read(bootstrap, _TOPIC)}
    decode = msgspec.json.Decoder(_Emission).decode
    found = []
    for _, stamp, value in _read(bootstrap, topology.output_topic):
        emission = decode(value)
        cause = sent[emission.source_partition, emission.source_offset]
        if cause >= since_ms:
            found.append(stamp - cause)
    return found


def _read(bootstrap: str, topic: str) -> list[tuple[tuple[int, int], int, bytes]]:
    """Place, timestamp and value of all records of a topic."""
    settings = {"group.id": f"{topic}-check", "enable.auto.commit": False}
    consumer = Consumer({**client_config(bootstrap), **settings})
    found: list[tuple[tuple[int, int], int, bytes]] = []
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        wanted = sum(consumer.get_watermark_offsets(place)[1] for place in places)
        consumer.assign(places)
        while len(found) < wanted:
            for message in consumer.consume(wanted - len(found), timeout=1.0):
                place = (message.partition() or 0, message.offset() or 0)
                found.append((place, message.timestamp()[1], message.value() or b""))
    finally:
        consumer.close()
    return found


def _delete(bootstrap: str) -> None:
    admin = admin_client(bootstrap)
    topics = [name for name in admin.list_topics(timeout=30).topics if name.startswith(_NAME)]
    for future in admin.delete_topics(topics).values():
        future.exception()


def latency(
    rate: Annotated[int, typer.Option(min=100, help="Records a second.")] = 2_000,
    seconds: Annotated[int, typer.Option(min=10, help="For how long.")] = 60,
) -> None:
    """Measure latency at a fixed rate."""
    console = Console(width=150)
    console.print(results.machine(), highlight=False)
    found = measure_latency(rate, seconds)
    console.print(
        f"{rate:,} records a second for {seconds} s: {found['statistics']:,} statistics,"
        f" p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms",
        highlight=False,
    )


if __name__ == "__main__":
    run_command(latency)
