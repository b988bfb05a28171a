"""A BatchApp whose one agent notes each batch: `recorder.py BOOTSTRAP ID TOPIC FOLDER SLOW_S`.

In FOLDER it writes, one JSON line each, `fetches` (what each fetch brought) and `batches` (what the
agent was given, and how many batches were waiting behind it), and reads, before each commit,
`durable.json`: offsets by partition.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP, StreamT

from slidestat.engine.records import RecordBatch
from slidestat.faust.delivery import BatchApp


def main(bootstrap: str, app_id: str, topic: str, folder: Path, slow_s: float) -> None:
    """Run until SIGTERM."""
    app = BatchApp(
        app_id,
        broker=f"kafka://{bootstrap}",
        datadir=folder / "data",
        topic_disable_leader=True,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        broker_max_poll_records=2_000,
        stream_buffer_maxsize=4,
        broker_commit_interval=0.2,
        stream_recovery_delay=0.0,
    )
    app.batch_topics = frozenset({topic})
    fetches, batches = (folder / "fetches").open("a"), (folder / "batches").open("a")
    fetch = AIOKafkaConsumerThread._fetch_records

    async def noted_fetch(self: AIOKafkaConsumerThread, *args: Any, **options: Any) -> Any:
        fetched = await fetch(self, *args, **options)
        for tp, records in fetched.items():
            print(json.dumps([tp.partition, records.offsets.tolist()]), file=fetches, flush=True)
        return fetched

    AIOKafkaConsumerThread._fetch_records = noted_fetch  # type: ignore[method-assign]

    async def durable() -> Mapping[TP, int]:
        try:
            said = json.loads((folder / "durable.json").read_text())
        except FileNotFoundError:
            return {}
        return {TP(topic, int(partition)): offset for partition, offset in said.items()}

    app.before_commit = durable

    @app.agent(app.topic(topic, value_serializer="raw"))
    async def note(stream: StreamT[RecordBatch]) -> None:
        async for batch in stream:
            waiting = stream.channel.queue.qsize()  # type: ignore[attr-defined]
            line = [batch.partition, batch.offsets.tolist(), waiting]
            print(json.dumps(line), file=batches, flush=True)
            await asyncio.sleep(slow_s)

    faust.Worker(app, quiet=True, loglevel="WARNING").execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]), float(sys.argv[5]))  # type: ignore[misc]
