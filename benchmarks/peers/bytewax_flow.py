"""Counts of a minute as a user of Bytewax writes them from its documentation.

    python -m benchmarks.peers.bytewax_flow \
        BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS WINDOW

WINDOW is tumbling or hopping, every 10 seconds, which Bytewax calls sliding; tumbling_second for
latencies. State in memory, with a recovery store (SQLite) that is written every 10 seconds as it
comes; a window goes to the topic GROUP-answers when it closes. Its clock runs on between events, so
it waits for as long as a window is: what is read faster than it happened would come late otherwise,
or what is read an instant after the clock has closed its window.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
import bytewax.operators.windowing as win
import orjson
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage, operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from confluent_kafka import OFFSET_BEGINNING

from benchmarks.harness.command import OF_A_SYSTEM, typed
from benchmarks.harness.progress import Progress

_SECOND, _STEP, _MINUTE = timedelta(seconds=1), timedelta(seconds=10), timedelta(minutes=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH = 1_000


def flow(bootstrap: str, topic: str, group: str, progress: Progress, window: str) -> Dataflow:
    """The dataflow."""
    length = _SECOND if window == "tumbling_second" else _MINUTE
    step = _STEP if window == "hopping" else length
    done = 0

    def event(message: KafkaSourceMessage) -> tuple[str, datetime]:
        nonlocal done
        done += 1
        progress.write(done)
        fields = orjson.loads(message.value)
        return fields["key"], datetime.fromtimestamp(fields["time"] / 1000, UTC)

    def answer(counted: tuple[str, tuple[int, int]]) -> KafkaSinkMessage:
        key, (number, count) = counted
        start = number * step
        fields = {
            "start": start // timedelta(milliseconds=1),
            "end": (start + length) // timedelta(milliseconds=1),
            "value": count,
        }
        return KafkaSinkMessage(key.encode(), orjson.dumps(fields))

    dataflow = Dataflow("counts")
    source = kop.input(
        "source",
        dataflow,
        brokers=[bootstrap],
        topics=[topic],
        starting_offset=OFFSET_BEGINNING,
        batch_size=_BATCH,
    )
    events = op.map("decode", source.oks, event)
    windower: win.Windower
    if step == length:
        windower = win.TumblingWindower(align_to=_EPOCH, length=length)
    else:
        windower = win.SlidingWindower(align_to=_EPOCH, length=length, offset=step)
    counted = win.fold_window(
        "count",
        events,
        win.EventClock(lambda time: time, wait_for_system_duration=length),
        windower,
        builder=int,
        folder=lambda count, _: count + 1,
        merger=int.__add__,
    )
    kop.output(
        "answers",
        op.map("encode", counted.down, answer),
        brokers=[bootstrap],
        topic=f"{group}-answers",
    )
    return dataflow


if __name__ == "__main__":
    _bootstrap, _topic, _group, _file, _data_dir, _, _window = typed(
        __doc__, *OF_A_SYSTEM, "window"
    )
    init_db_dir(Path(_data_dir), 1)
    cli_main(
        flow(_bootstrap, _topic, _group, Progress(Path(_file)), _window),
        epoch_interval=timedelta(seconds=10),
        recovery_config=RecoveryConfig(_data_dir),
    )
