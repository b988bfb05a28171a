"""`slidestat demo`: real events in, figures out, each one compared with the exact figure, which
is recomputed from the file of the demo.
"""

import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from slidestat.admin.topics import create_topology_topics
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import resolved
from slidestat.declare.statistics import Count, Sum
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.connection import admin_client, require_broker
from slidestat.kafka.read.topic_reader import EmissionReader, Record
from slidestat.kafka.settings import client_config
from slidestat.local.broker import LocalBroker
from slidestat.produce.events import Columns
from slidestat.produce.produce import ProduceReport, produce_file
from slidestat.produce.readers import Reader
from slidestat.schemas.emission import Emission, Figure
from slidestat.spark.session import require_spark, spark_session
from slidestat.synopses.core.arrays import Integers
from slidestat.text import qualified, window_text


@dataclass(frozen=True, slots=True)
class Checked:
    """A figure of an emission with the exact one."""

    emission: Emission
    figure: Figure
    exact: float

    @property
    def relative_error(self) -> float:
        """The relative error |estimate - exact| / exact; 0 of 0, infinite without an estimate."""
        estimate = self.figure.estimate
        if estimate is None:
            return float("inf")
        if self.exact == 0:
            return 0.0 if estimate == 0 else float("inf")
        return abs(estimate - self.exact) / self.exact

    @property
    def holds(self) -> bool:
        """Return whether the bounds hold the exact figure and the error is within the relative
        promise: distances are whole miles, so rounding may add nothing.
        """
        estimate, lower, upper = self.figure.estimate, self.figure.lower, self.figure.upper
        if estimate is None or lower is None or upper is None:
            return False  # A count and a sum exist in any window.
        promised = self.figure.relative_error * self.exact
        return lower <= self.exact <= upper and abs(estimate - self.exact) <= promised


@dataclass(frozen=True, slots=True)
class _Key:
    times: Integers
    totals: Integers  # totals[i]: sum of the first i values


class ExactFlights:
    """The exact counts and sums of the demo's events over any window."""

    def __init__(self) -> None:
        with resources.as_file(
            resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
        ) as file:
            table = pq.read_table(file, columns=["date", "origin", "distance"])
        times = table["date"].cast("timestamp[ms]").cast("int64").to_numpy()
        values = table["distance"].cast("int64").to_numpy()
        encoded = table["origin"].combine_chunks().cast("string").dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes))
        self._keys: dict[str, _Key] = {}
        for key, rows in zip(
            encoded.dictionary.to_pylist(), np.split(order, ends[:-1]), strict=True
        ):
            totals = np.concatenate(([0], np.cumsum(values[rows])))
            self._keys[key] = _Key(times[rows], totals)

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(len(key.times) for key in self._keys.values())

    def figure(self, emission: Emission, figure: Figure) -> float:
        """Return the exact figure of an emission's key and a figure's window.

        Raises SlidestatError for a statistic or a window that the demo does not recompute.
        """
        if figure.window_ms is None:
            raise SlidestatError(
                f"{figure} is of no window of time.", "This is a bug in slidestat."
            )
        key = self._keys[emission.key]
        end_ms = emission.window_end_ms
        first, end = np.searchsorted(key.times, (end_ms - figure.window_ms, end_ms))
        match figure.statistic:
            case "count":
                return float(end - first)
            case "sum":
                return float(key.totals[end] - key.totals[first])
        raise SlidestatError(f"{figure} is neither count nor sum.", "This is a bug in slidestat.")

    def expected(self, topology: Topology, partition_of: dict[str, int]) -> set[tuple[str, int]]:
        """Return the (key, window end) that must be emitted: for each key the ticks after its
        events, and the first ones by which all its events have left a window or the span, up to its
        partition's watermark.
        """
        watermarks: dict[int, int] = {}
        for key, partition in partition_of.items():
            newest = int(self._keys[key].times[-1])
            watermarks[partition] = max(newest, watermarks.get(partition, newest))
        every = topology.every_ms
        lengths = {*topology.window_lengths, topology.span_length.length}
        wanted: set[tuple[str, int]] = set()
        for key, partition in partition_of.items():
            times, watermark = self._keys[key].times, watermarks[partition]
            ticks = (times // every + 1) * every
            wanted.update((key, tick) for tick in ticks[ticks <= watermark].tolist())
            following = np.append(times[1:], watermark)
            for length in lengths:
                empty = ((times + length) // every + 1) * every
                wanted.update((key, tick) for tick in empty[empty <= following].tolist())
        return wanted

    @property
    def keys(self) -> set[str]:
        """The names of all keys."""
        return set(self._keys)


def check(exact: ExactFlights, emissions: Iterable[Emission]) -> list[Checked]:
    """Return each figure of the emissions with the exact one."""
    return [
        Checked(emission, figure, exact.figure(emission, figure))
        for emission in emissions
        for figure in emission.figures
    ]


# The last part of the demo: what it produced as a lake on Spark, audited, and a page of it.

PAGE = Path("demo-report.html")


def show_lake(topology: Topology, bootstrap: str, folder: Path, console: Console) -> None:
    """Ingest the topology's topics into `folder`, audit every figure, and write the page.

    Without what Spark needs, a line says so. Raises SlidestatError for a broken promise.
    """
    try:
        require_spark()
    except SlidestatError as error:
        # The name of an extra is in brackets, as markup is.
        line = f"Left out: ingest, audit and report. {error}"
        console.print(line, soft_wrap=True, markup=False)
        return
    console.print("Spark: the topics as Parquet files, every figure audited once more …")
    with spark_session("demo") as spark:
        from slidestat.spark.audit.audit import Audit
        from slidestat.spark.audit.report import show
        from slidestat.spark.lake.declarations import keep_declaration
        from slidestat.spark.lake.ingest import Ingest
        from slidestat.spark.lake.lake import Lake
        from slidestat.spark.lake.session import lake_topics
        from slidestat.spark.report.page import report_data, write_page

        lake = Lake(str(folder / "lake"), topology.name)
        keep_declaration(spark, lake, topology)
        Ingest(spark, bootstrap, lake, lake_topics(topology)).take_what_is_there()
        report = Audit(spark, bootstrap, lake, resolved(topology)).run()
        write_page(report_data(spark, lake, []), PAGE)
    show(report)
    if not report.is_clean:
        raise SlidestatError("The audit found broken promises.", "This is a bug in slidestat.")
    console.print(f"{PAGE}: open it in a browser", highlight=False)


# The demo's workers: processes of the real command, in one consumer group.

_STOP_S = 30.0


class Workers:
    """A group of `count` workers of a topology file, ended by their ids with the context."""

    def __init__(self, topology_file: Path, bootstrap: str, folder: Path, count: int) -> None:
        self._commands = {
            folder / f"worker-{number}": [
                *(sys.executable, "-m", "slidestat", "run", str(topology_file)),
                # The demo waits until everything is committed.
                *("--checkpoint-interval", "1s"),
                *("--bootstrap", bootstrap),
                *("--data-dir", str(folder / f"worker-{number}")),
            ]
            for number in range(1, count + 1)
        }
        self._processes: dict[Path, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for folder, command in self._commands.items():
            with folder.with_suffix(".log").open("wb") as log:
                self._processes[folder] = subprocess.Popen(  # noqa: S603  our own command
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def check(self) -> None:
        """Raise SlidestatError with its last words if a worker has ended by itself."""
        for folder, process in self._processes.items():
            if process.poll() is not None:
                words = folder.with_suffix(".log").read_text(errors="replace").strip()[-2000:]
                raise SlidestatError(
                    f"A worker of the demo ended with exit code {process.returncode}:\n{words}",
                    "Run `make demo` again; if it ends so again, this is a bug in slidestat.",
                )


_PARTITIONS = 4
_WORKERS = 2
_ROWS_SHOWN = 60
_LIMIT_S = 600.0
_POLL_S = 0.2

# A broker that never had a group makes the topic for them first.
_COORDINATOR_AWAY = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}

_FILE = '''"""The topology of one run of the demo: flights, under names of its own."""

from slidestat import Count, Sum
from slidestat import Topology

topology = {topology!r}
'''


def run_demo(bootstrap: str | None) -> None:
    """Run the demo on the brokers at `bootstrap`, or on one of its own.

    Raises SlidestatError if a figure breaks its promise, one is missing, or a part fails.
    """
    console = Console()
    # Names of its own: nothing of a broker that is in use is read, changed or left behind.
    name = f"demo-flights-{uuid.uuid4().hex[:6]}"
    # Statistics that can be recomputed exactly for each window, within a second.
    statistics = (Count(), Sum(decimals=0))
    topology = replace(load_topology("flights"), name=name, source=name, statistics=statistics)
    exact = ExactFlights()
    with _broker(bootstrap, console) as address, tempfile.TemporaryDirectory() as folder:
        create_topology_topics(address, topology, _PARTITIONS)
        try:
            _stream(topology, address, Path(folder), exact.events, console)
            _report(topology, exact, _outputs(topology, address), console)
            show_lake(topology, address, Path(folder), console)
        finally:
            if bootstrap:
                _delete_topics(address, topology)


@contextmanager
def _broker(bootstrap: str | None, console: Console) -> Iterator[str]:
    if bootstrap:
        require_broker(bootstrap)
        console.print(f"Kafka: {bootstrap}")
        yield bootstrap
        return
    console.print("Kafka: starting a broker (the first time its jars are downloaded, 44 MB) …")
    with LocalBroker() as broker:
        console.print(f"Kafka: {broker.bootstrap_servers}, log {broker.log_path}", soft_wrap=True)
        yield broker.bootstrap_servers


def _stream(topology: Topology, address: str, folder: Path, events: int, console: Console) -> None:
    """Produce the events while the workers read them; return when all are committed."""
    file = folder / "topology.py"
    file.write_text(_FILE.format(topology=topology))
    produced: list[ProduceReport | BaseException] = []
    progress = Progress(
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    with progress, Workers(file, address, folder, _WORKERS) as workers:
        sent = progress.add_task("events sent", total=events)
        read = progress.add_task(f"events read by {_WORKERS} workers", total=events)
        out = progress.add_task("emissions written", total=None)

        def on_progress(_reader: Reader, count: int) -> None:
            progress.update(sent, completed=count)

        def produce() -> None:
            flights = resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
            try:
                with resources.as_file(flights) as path:
                    columns = Columns(key="origin", time="date", value="distance")
                    produced.append(
                        produce_file(
                            path, address, topology.source, columns=columns, on_progress=on_progress
                        )
                    )
            except BaseException as error:  # noqa: BLE001  raised again where it is waited for
                produced.append(error)

        producer = threading.Thread(target=produce, daemon=True)
        producer.start()
        deadline = time.monotonic() + _LIMIT_S
        consumer = Consumer({**client_config(address), "group.id": topology.application_id})
        while True:
            workers.check()
            committed = _committed(consumer, topology.source)
            progress.update(read, completed=committed)
            progress.update(out, completed=_written(consumer, topology.output_topic))
            if not producer.is_alive():
                if isinstance(produced[0], BaseException):
                    raise produced[0]
                progress.update(sent, completed=events)
                if committed >= events:
                    break
            if time.monotonic() > deadline:
                raise SlidestatError(
                    f"After {_LIMIT_S:.0f} s only {committed:,} of {events:,} events were read.",
                    "Try again on a machine that is less busy.",
                )
            time.sleep(_POLL_S)
        consumer.close()


def _committed(consumer: Consumer, topic: str) -> int:
    wanted = [TopicPartition(topic, p) for p in range(_PARTITIONS)]
    try:
        found = consumer.committed(wanted, timeout=30)
    except KafkaException as error:
        if error.args[0].code() in _COORDINATOR_AWAY:
            return 0
        raise
    return sum(max(partition.offset, 0) for partition in found)


def _written(consumer: Consumer, topic: str) -> int:
    return sum(
        consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1]
        for p in range(_PARTITIONS)
    )


def _outputs(topology: Topology, address: str) -> list[Record]:
    reader = EmissionReader(
        address, topology.output_topic, range(_PARTITIONS), from_beginning=True, once=True
    )
    records = (record for batch in reader.batches() for record in batch)
    # A provisional emission is replaced by the one that counts.
    return [record for record in records if not record.emission.provisional]


def _delete_topics(address: str, topology: Topology) -> None:
    admin = admin_client(address)
    names = [name for name in admin.list_topics(timeout=30).topics if topology.name in name]
    for future in admin.delete_topics(names).values():
        future.result()
    for group in admin.delete_consumer_groups([topology.application_id]).values():
        group.exception()  # a group that a worker has not left yet, Kafka forgets by itself


def _report(
    topology: Topology, exact: ExactFlights, records: list[Record], console: Console
) -> None:
    """Print a sample and the verdict; raise SlidestatError if a promise is broken."""
    distinct: dict[tuple[str, int], Record] = {}
    for record in records:
        place = (record.emission.key, record.emission.window_end_ms)
        if distinct.setdefault(place, record).json != record.json:
            raise SlidestatError(
                f"{place} was written twice, differently.", "This is a bug in slidestat."
            )
    emissions = [record.emission for record in distinct.values()]
    checked = check(exact, emissions)
    partition_of = {emission.key: emission.source_partition for emission in emissions}
    wanted = exact.expected(topology, partition_of)
    series = [(label, n) for label in topology.labels for n in topology.window_lengths]
    whole = all([(f.statistic, f.window_ms) for f in e.figures] == series for e in emissions)
    broken = [c for c in checked if not c.holds]
    console.print(_table(checked))
    if broken:
        console.print(_table(broken[:_ROWS_SHOWN]))
        raise SlidestatError(
            f"{len(broken)} of {len(checked):,} figures break their promise.",
            "This is a bug in slidestat.",
        )
    if distinct.keys() != wanted or not whole or set(partition_of) != exact.keys:
        raise SlidestatError(
            f"{len(checked):,} figures came in {len(emissions):,} emissions, "
            f"{len(series) * len(wanted):,} were due in {len(wanted):,}.",
            "This is a bug in slidestat.",
        )
    worst = max(c.relative_error for c in checked)
    promised = max(c.figure.relative_error for c in checked)
    console.print(
        f"{len(checked):,} figures checked, largest relative error observed {worst:.4%}, "
        f"promised {promised:.4%}",
        highlight=False,
        soft_wrap=True,
    )


def _table(checked: list[Checked]) -> Table:
    """Return a table of figures spread over keys and time, the busiest keys among them."""
    largest = sorted(checked, key=lambda c: -c.exact)[: _ROWS_SHOWN // 2]
    others = checked[:: max(1, 2 * len(checked) // _ROWS_SHOWN)]
    table = Table(
        title="A sample of what was checked", box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for column in ("key", "what", "n", "until (UTC)"):
        table.add_column(column, no_wrap=True)
    for column in ("lower", "estimate", "upper", "exact", "error"):
        table.add_column(column, justify="right", no_wrap=True)
    for c in [*largest, *others]:
        f = c.figure
        table.add_row(
            c.emission.key,
            qualified(f),
            window_text(f) or "-",
            time.strftime("%m-%d %H:%M", time.gmtime(c.emission.window_end_ms / 1000)),
            *(_number(number) for number in (f.lower, f.estimate, f.upper, c.exact)),
            f"{c.relative_error:.2%}",
        )
    return table


def _number(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.1f}" if number < 1_000 and number % 1 else f"{number:,.0f}"
