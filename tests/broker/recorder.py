"""A BatchApp whose one agent notes each batch.

`recorder.py BOOTSTRAP ID TOPIC FOLDER SLOW_S IN_A_ROW`: it takes IN_A_ROW batches without a pause,
then waits for SLOW_S seconds. In FOLDER it writes, one JSON line each, `fetches` (what each fetch
brought), `batches` (what the agent was given, and how many batches were waiting behind it),
`pauses` (for how many seconds Faust's consumer sleeps, if for a second or more) and `rebalances`
(their numbers, as they begin), and reads, before each commit, `durable.json`: offsets by partition.
While there is a file `hold` it commits nothing.
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
from slidestat.faust.delivery import BatchApp, BatchConsumer


def main(
    bootstrap: str, app_id: str, topic: str, folder: Path, slow_s: float, in_a_row: int
) -> None:
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
    pauses, rebalances = (folder / "pauses").open("a"), (folder / "rebalances").open("a")
    fetch, sleep = AIOKafkaConsumerThread._fetch_records, BatchConsumer.sleep

    async def noted_fetch(self: AIOKafkaConsumerThread, *args: Any, **options: Any) -> Any:
        fetched = await fetch(self, *args, **options)
        for tp, records in fetched.items():
            print(json.dumps([tp.partition, records.offsets.tolist()]), file=fetches, flush=True)
        return fetched

    AIOKafkaConsumerThread._fetch_records = noted_fetch  # type: ignore[method-assign]

    async def noted_sleep(self: BatchConsumer, seconds: float, **options: Any) -> None:
        if seconds >= 1:
            print(json.dumps([seconds]), file=pauses, flush=True)
        await sleep(self, seconds, **options)

    BatchConsumer.sleep = noted_sleep  # type: ignore[assignment, method-assign]

    begin_rebalance = BatchApp.on_rebalance_start

    def noted_rebalance(self: BatchApp) -> None:
        begin_rebalance(self)
        print(json.dumps([self.rebalancing_count]), file=rebalances, flush=True)

    BatchApp.on_rebalance_start = noted_rebalance  # type: ignore[method-assign]

    async def durable() -> Mapping[TP, int]:
        while (folder / "hold").exists():
            await asyncio.sleep(0.05)
        try:
            said = json.loads((folder / "durable.json").read_text())
        except FileNotFoundError:
            return {}
        return {TP(topic, int(partition)): offset for partition, offset in said.items()}

    app.before_commit = durable

    @app.agent(app.topic(topic, value_serializer="raw"))
    async def note(stream: StreamT[RecordBatch]) -> None:
        taken = 0
        async for batch in stream:
            waiting = stream.channel.queue.qsize()  # type: ignore[attr-defined]
            line = [batch.partition, batch.offsets.tolist(), waiting]
            print(json.dumps(line), file=batches, flush=True)
            taken += 1
            await asyncio.sleep(slow_s if taken % in_a_row == 0 else 0)

    faust.Worker(app, quiet=True, loglevel="WARNING").execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6]))  # type: ignore[misc]
