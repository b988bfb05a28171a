"""Files through every reader of them: `produce` and a worker, a backfill, a frame, a driver.

Each file has hours of its own, so that one worker counts all of them apart.
"""

import io
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, time as clock
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slidestat import TopologyDriver, over
from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.produce.events import Columns
from slidestat.produce.file_records import FileRecords, Part
from slidestat.produce.files import event_file
from slidestat.produce.produce import produce_file
from slidestat.schemas.emission import Emission
from slidestat.testing.records import MemoryStore
from tests.broker.conftest import MakeStage
from tests.broker.workers import produce

NOON = 1_764_072_000_000
HOUR = 3_600_000
# Each file's states begin anew: those before it have left the span.
GAP = 3 * HOUR
BODY = """span="1h", every="1h", windows=("1h",), emit="events",
    statistics=(
        Count(), Sum(decimals=3), Mean(decimals=3), Distinct(field="code"), TopItems(field="code"),
        Count(name="many", where="value > 1.25"),
    ),
"""
COLUMNS = Columns("key", "time", "value", more=("code",))
KEYS = ("007", "1.10", "1.1", "10:30", "é, ü", "12345678901", "true")
VALUES = ("1.25", "0.001", "3", "900719925", "2.50")
CODES = ("1.10", "x", "12E4", "9007199254740993", "007", "2025-11-25")

# The figures of an hour: by key, statistic and item, the estimate and its bounds.
Figures = dict[tuple[str, str, str | None], tuple[float, float, float]]


class Made(NamedTuple):
    """A file's name and content, and its table where it is one of Parquet."""

    name: str
    content: bytes
    table: pa.Table | None = None


def written(separator: str, hour: int) -> bytes:
    """Cells as they are, with rows that are no events and cells that are not there."""
    lines = [separator.join(("code", "key", "more", "time", "value"))]
    for row in range(60):
        key, value = KEYS[row % 7], VALUES[row % 5]
        if separator == "," and "," in key:
            key = f'"{key}"'
        time = "soon" if row == 31 else str(NOON + hour * GAP + row * 50_000)
        lines.append(separator.join((CODES[row % 6] if row % 11 else "", key, "m", time, value)))
    return "\r\n".join([*lines, "a row of another width"]).encode()


def lines(hour: int) -> bytes:
    """Numbers and texts as JSON has them, some with escapes."""
    keys = ('"007"', "12345678901", '"\\u00e9, \\u00fc"', "18446744073709551616")
    codes = ("1.10", '"1.10"', "9007199254740993", "true", "null", "1e2")
    rows = [
        f'{{"key": {keys[row % 4]}, "time": {NOON + hour * GAP + row * 50_000},'
        f' "value": {VALUES[row % 5]}, "code": {codes[row % 6]}}}'
        for row in range(60)
    ]
    return "\n".join(rows).encode()


def parquet(hour: int, key: pa.Array, value: pa.Array, code: pa.Array, time: pa.DataType) -> Made:
    """A table of columns of these types, as often as it takes for 60 rows."""
    rows = np.arange(60)
    counts = pa.array(NOON + hour * GAP + rows * 50_000).cast(pa.timestamp("ms"))
    columns = {
        name: column.take(pa.array(rows % len(column)))
        for name, column in (("key", key), ("value", value), ("code", code))
    }
    unit = pa.timestamp(time.unit)
    table = pa.table(columns | {"time": counts.cast(unit).cast(time)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=17)
    return Made(f"{hour}.parquet", sink.getvalue(), pq.read_table(io.BytesIO(sink.getvalue())))


NUMBERS = pa.array([1.25, 0.001, 3.0, 900719925.0, 2.5])
MOMENTS = [NOON, NOON + 1, None]
TABLES = (
    (pa.array([7, 2**60, 12345678901]), NUMBERS, pa.array(CODES), pa.timestamp("ms")),
    (
        pa.array([7.0, 12345678901.0]),
        pa.array([Decimal("1.25"), Decimal("0.10")]),
        pa.array([1.5, 2.0, float("nan"), 12345678901.0]),
        pa.timestamp("us", "UTC"),
    ),
    (
        pa.array(KEYS).dictionary_encode(),
        pa.array([0.1, 1.5, None], pa.float32()),
        pa.array([0.1, 16777216.0], pa.float32()),
        pa.timestamp("ns", "Europe/Berlin"),
    ),
    *(
        (pa.array(["a", "b"]), NUMBERS, pa.array(MOMENTS, pa.timestamp("ms")).cast(kind), time)
        for kind, time in (
            (pa.timestamp("ns"), pa.timestamp("ns")),
            (pa.timestamp("us", "Asia/Kolkata"), pa.timestamp("us", "+05:30")),
        )
    ),
    (
        pa.array([clock(10, 30), clock(11, 15, 0, 5)], pa.time64("us")),
        pa.array([3, 2**30, 1], pa.uint64()),
        pa.array([date(2025, 11, 25), None, date(1999, 1, 1)]),
        pa.timestamp("us"),
    ),
    (
        pa.array([b"007", "é".encode()], pa.binary()),
        pa.array([2, 1], pa.int8()),
        pa.array([True, False, None]),
        pa.timestamp("ms", "America/New_York"),
    ),
)


def made_files() -> list[Made]:
    found = [
        Made("0.csv", written(",", 0)),
        Made("1.tsv", written("\t", 1)),
        Made("2.jsonl", lines(2)),
        Made("3.ndjson", lines(3)),
    ]
    return found + [parquet(hour, *columns) for hour, columns in enumerate(TABLES, 4)]


def by_hour(emissions: Iterable[Emission]) -> dict[int, Figures]:
    """Return the figures of windows that have events."""
    found: dict[int, Figures] = defaultdict(dict)
    for emission in (it for it in emissions if it.figures[0].estimate):
        hour = (emission.window_end_ms - HOUR - NOON) // GAP
        for it in emission.figures:
            figure = (it.estimate, it.lower, it.upper)
            found[hour][emission.key, it.statistic, it.item] = figure
    return dict(found)


def backfilled(topology: Topology, path: Path) -> Figures:
    """What a backfill writes of a file, which is closed by the records after it."""
    batches = FileRecords.of(topology, {}, "ms").read(Part(event_file(path), 0))
    rows = pa.Table.from_batches(batches)
    keys, values = rows["key"].to_pylist(), rows["value"].to_pylist()
    times = rows["timestamp"].fill_null(-1).to_pylist()
    last = max(times) + 2 * HOUR
    keys += [b"zz"] * 20
    values += [b'{"key":"zz","time":%d,"value":1,"code":"z"}' % last] * 20
    offsets = np.arange(len(keys))
    batch = RecordBatch(topology.source, 0, offsets, keys, values, [*times, *[last] * 20], 0)
    processor = PartitionProcessor(topology, topology.source, 0, MemoryStore(), codec=JsonCodec())
    decode = JsonCodec().decode
    (found,) = by_hour(
        decode(value) for _, value, *_ in processor.process(batch).emissions
    ).values()
    return found


def of_frame(frame: pa.Table, topology: Topology) -> Figures:
    """What `over` has of a table."""
    found = over(frame, topology)
    return {
        (row["key"], row["statistic"], row["item"]): (row["estimate"], row["lower"], row["upper"])
        for row in found.to_pylist()
        if row["window_end"] == found["window_end"][0].as_py()
    }


def driven(content: bytes, topology: Topology) -> Figures:
    """What a driver has of lines of JSON."""
    driver = TopologyDriver(topology)
    driver.send_bytes(*content.split(b"\n"))
    driver.close_windows()
    (found,) = by_hour(driver.emissions).values()
    return found


def test_readers_of_a_file_agree(make_stage: MakeStage, tmp_path: Path) -> None:
    """Figures of the same file: of a worker, to which it was produced, and of all others."""
    stage = make_stage(partitions=1, body=BODY)
    topology, files, sent = stage.topology, made_files(), dict[str, int]()
    for made in files:
        (tmp_path / made.name).write_bytes(made.content)
        raw = made.name == "3.ndjson"
        report = produce_file(
            tmp_path / made.name,
            stage.bootstrap,
            topology.source,
            columns=Columns("key") if raw else COLUMNS,
            skip_bad=True,
            raw=raw,
        )
        sent[made.name] = report.sent
    last = NOON + len(files) * GAP
    end = b'{"key":"zz","time":%d,"value":1,"code":"z"}' % last
    produce(stage.bootstrap, topology.source, [(b"zz", end)] * 20)
    stage.drain()
    decode = msgspec.json.Decoder(Emission).decode
    counted = by_hour(map(decode, stage.emissions().values()))
    assert sorted(counted) == list(range(len(files)))
    for hour, made in enumerate(files):
        counts = [it[0] for (_, name, _), it in counted[hour].items() if name == "count"]
        assert sum(counts) == sent[made.name], made.name
        assert counted[hour] == backfilled(topology, tmp_path / made.name), made.name
        if made.table is not None:
            assert counted[hour] == of_frame(made.table, topology), made.name
            frame = made.table.to_pandas(types_mapper=None)
            assert counted[hour] == of_frame(pa.Table.from_pandas(frame), topology), made.name
        elif made.name.endswith("json"):
            assert counted[hour] == driven(made.content, topology), made.name
