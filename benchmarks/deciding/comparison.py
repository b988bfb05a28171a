"""Quantiles, distinct users and top paths of each key, over an hour, every ten seconds.

    python -m benchmarks.deciding [--part speed] [--part live] [--system NAME]... [--json FILE]

The question that brings people here, put to slidestat and to what would be taken in its place. Each
system goes through one topic in turn, for at most so many minutes; a sample of its answers is
compared with the events themselves. Then each has events as they happen: see `deciding_live`. See
README.md beside this file.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from secrets import token_hex
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.deciding.judged_requests import WINDOW_MS, Answered, Errors, Reader, judge
from benchmarks.deciding.live import LONGEST_S, OTHER_MS, Live, Lived, OtherWindow
from benchmarks.deciding.requests import ExactRequests, Requests, draw_requests
from benchmarks.harness import results
from benchmarks.harness.answers import changelog_bytes, read_messages
from benchmarks.harness.bench import delete_made
from benchmarks.harness.cases import CASES, CaseName, make_topology
from benchmarks.harness.measure import (
    GroupOffsets,
    Measurement,
    SubjectProcess,
    time_commits,
    time_loop,
)
from benchmarks.harness.progress import Progress
from benchmarks.harness.systems import OURS, flink, kafka_streams_tiles, own, peer, spark_sketches
from benchmarks.harness.workload import send
from benchmarks.peers.environments import UnavailableError
from benchmarks.size.stored import folder_bytes
from benchmarks.speed.throughput import PARTITIONS, broker
from slidestat.admin.topics import create_topic, create_topology_topics
from slidestat.errors import SlidestatError

_CASE = CaseName.DECIDING
_QUESTION = "p50, p95, p99, distinct, top 10 of an hour, every ten seconds"
_SETTLE_S = 3.0
_KEEP = {"retention.ms": "-1"}
_STAMPED = {**_KEEP, "message.timestamp.type": "LogAppendTime"}


class Part(StrEnum):
    """A part of the benchmark: as fast as it goes, or events as they happen."""

    SPEED = "speed"
    LIVE = "live"


@dataclass(frozen=True)
class Subject:
    """A system: its command; what follows the arguments that all have; how it comes to a window
    that nobody declared. One that is not timed live says in `lacks` why.
    """

    command: Callable[[], list[str]]
    more: tuple[str, ...] = ()
    question: Callable[[str, str, int], str] | None = None
    lacks: str = ""


def _our_question(name: str, key: str, _end: int) -> str:
    return f"/topologies/{name}/keys/{key}?window={OTHER_MS // 60_000}m"


def _tiles_question(_name: str, key: str, end: int) -> str:
    return f"/{key}?first={end - OTHER_MS}&end={end}"


# For systems that add each event to 360 windows.
_SLOW = "an hour of history would take it too long"
_SYSTEMS = {
    OURS: Subject(partial(own, "speed.ours"), (CASES[_CASE].every, _CASE), _our_question),
    "chdb_tiles": Subject(partial(peer, "chdb", "chdb_tiles"), (), _tiles_question),
    "kafka_streams_tiles": Subject(kafka_streams_tiles, (), _tiles_question),
    "flink_tiles": Subject(flink, ("tiles",)),
    "flink_hop": Subject(flink, ("hop",), lacks=_SLOW),
    "spark_hop": Subject(spark_sketches, ("hour",), lacks=_SLOW),
    "clink_hop": Subject(partial(peer, "clink", "clink_hop"), lacks=_SLOW),
    "pathway_hop": Subject(partial(peer, "pathway", "pathway_flow"), ("hour",), lacks=_SLOW),
}


@dataclass(frozen=True)
class Ran:
    """What a system did in its time."""

    measurement: Measurement
    answers: int
    errors: Errors
    disk_bytes_per_key: float
    changelog_bytes_per_event: float


class Deciding:
    """A broker with the requests on a topic, and the systems that are run on it."""

    def __init__(
        self, bootstrap: str, broker_pid: int | None, requests: Requests, folder: Path
    ) -> None:
        self._bootstrap, self._broker_pid = bootstrap, broker_pid
        self._requests, self._folder = requests, folder
        self._exact = ExactRequests(requests)
        self._name = f"deciding-{token_hex(4)}"
        self._topic = f"{self._name}-events"
        self._runs = 0

    def fill_topic(self) -> int:
        """Send the requests; return their mean size in bytes."""
        create_topic(self._bootstrap, self._topic, PARTITIONS, _KEEP)
        return send(self._requests, self._bootstrap, self._topic)

    def run(self, system: str, most_s: float) -> Ran:
        """Run a system once, for `most_s` seconds at most, and judge its answers.

        Raises UnavailableError if it cannot run here, SlidestatError if it fails or an answer is
        missing.
        """
        command = _SYSTEMS[system].command()
        group, data, output, members = self._prepare(system, self._topic, _KEEP)
        progress = Progress.create(data / "progress")
        arguments = self._arguments(system, self._topic, group, data)
        events = len(self._requests)
        with (
            SubjectProcess([*command, *arguments], data / "log") as process,
            closing(GroupOffsets(self._bootstrap, self._topic, members, PARTITIONS)) as offsets,
        ):
            if system == OURS:
                measured = time_commits(process, progress, offsets, events, self._broker_pid)
            else:
                measured = time_loop(process, progress.read, 1, events, self._broker_pid, most_s)
                time.sleep(_SETTLE_S)
        done = progress.read()
        reader = Reader(self._requests, is_ours=system == OURS)
        records = (
            (m.key() or b"", m.value() or b"") for m in read_messages(self._bootstrap, output)
        )
        answered = Answered(self._exact, reader, records)
        return Ran(
            measured,
            len(answered.places),
            judge(self._exact, answered),
            folder_bytes(data / "state") / len(np.unique(self._requests.keys[:done])),
            changelog_bytes(self._bootstrap, group) / done,
        )

    def live(self, system: str, pace: int, seconds: int, most_s: float) -> Lived:
        """Give a system an hour of history and then events as they happen; see `Live.run`.

        Raises as `run` does.
        """
        subject = _SYSTEMS[system]
        if subject.lacks:
            raise UnavailableError(subject.lacks)
        command = subject.command()
        history = pace * WINDOW_MS // 1000
        keys = self._requests.key_count
        requests = draw_requests(history + pace * LONGEST_S, keys, PARTITIONS, 1000 / pace)
        topic = f"{self._name}-live-{self._runs}"
        create_topic(self._bootstrap, topic, PARTITIONS, _KEEP)
        group, data, output, _ = self._prepare(system, topic, _STAMPED)
        arguments = self._arguments(system, topic, group, data)

        def start(log: Path, window_ms: int) -> SubjectProcess:
            more = [] if window_ms == WINDOW_MS else [str(window_ms)]
            return SubjectProcess([*command, *arguments, *more], log)

        return Live(
            self._bootstrap,
            (topic, output),
            requests,
            history,
            Reader(requests, is_ours=system == OURS),
            start,
            subject.question and partial(subject.question, group),
            data,
        ).run(seconds, most_s)

    def _prepare(
        self, system: str, topic: str, kept: Mapping[str, str]
    ) -> tuple[str, Path, str, str]:
        """Make a folder and topics; return the name of all, the folder, where answers go, and the
        group.
        """
        self._runs += 1
        group = f"{self._name}-{self._runs}"
        data = self._folder / group
        (data / "state").mkdir(parents=True)
        if system != OURS:
            create_topic(self._bootstrap, f"{group}-answers", PARTITIONS, kept)
            return group, data, f"{group}-answers", group
        topology = make_topology(_CASE, topic, group, CASES[_CASE].every)
        # Made before the other topics of the topology, which would make it with default settings.
        create_topic(self._bootstrap, topology.output_topic, PARTITIONS, kept)
        create_topology_topics(self._bootstrap, topology, PARTITIONS)
        return group, data, topology.output_topic, topology.application_id

    def _arguments(self, system: str, topic: str, group: str, data: Path) -> list[str]:
        common = [self._bootstrap, topic, group, str(data / "progress"), str(data / "state")]
        return [*common, str(PARTITIONS), *_SYSTEMS[system].more]

    def clean_up(self) -> None:
        """Delete the topics and groups that this made."""
        delete_made(self._bootstrap, self._name)


def speed_rows(rounds: list[dict[str, Ran]]) -> list[tuple[str, ...]]:
    """Return a title and a text for each system: medians over the rounds, with the least and the
    most where it is a speed, and of errors the worst of all rounds.
    """
    names = list(rounds[0])

    def spread(of: Callable[[Ran, Ran], float], how: str) -> tuple[str, ...]:
        spreads = [
            results.Spread.of([of(each[name], each[OURS]) for each in rounds]) for name in names
        ]
        if len(rounds) == 1:
            return tuple(f"{s.median:{how}}" for s in spreads)
        return tuple(f"{s.median:{how}} ({s.least:{how}} - {s.most:{how}})" for s in spreads)

    def middle(of: Callable[[Ran], float], how: str) -> tuple[str, ...]:
        return tuple(f"{median(of(each[name]) for each in rounds):{how}}" for name in names)

    def worst(of: Callable[[Errors], tuple[float, ...]], how: str) -> tuple[str, ...]:
        found = [np.max([of(each[name].errors) for each in rounds], axis=0) for name in names]
        return tuple(", ".join(f"{error:{how}}" for error in errors) for errors in found)

    def times(of: Callable[[Measurement], float]) -> tuple[str, ...]:
        found = spread(lambda ran, ours: of(ours.measurement) / of(ran.measurement), ",.2f")
        return tuple("-" if name == OURS else it for name, it in zip(names, found, strict=True))

    return [
        ("events a second: slidestat's over this one's", *times(lambda m: m.events_per_s)),
        ("events a CPU second: slidestat's over this one's", *times(lambda m: m.events_per_cpu_s)),
        ("events a second", *spread(lambda ran, _: ran.measurement.events_per_s, ",.0f")),
        ("events it was timed on", *middle(lambda ran: ran.measurement.events, ",.0f")),
        ("peak memory, MiB", *middle(lambda ran: ran.measurement.peak_rss / 2**20, ",.0f")),
        ("bytes of state a key", *middle(lambda ran: ran.disk_bytes_per_key, ",.0f")),
        ("changelog, bytes an event", *middle(lambda ran: ran.changelog_bytes_per_event, ",.0f")),
        ("worst error of value: p50, p95, p99", *worst(lambda e: e.value, ".1%")),
        ("worst error of rank: p50, p95, p99", *worst(lambda e: e.rank, ".1%")),
        ("worst error of distinct users", *worst(lambda e: (e.distinct,), ".1%")),
        ("worst error of a path's share", *worst(lambda e: (e.count,), ".2%")),
        ("paths of the top ten listed", *middle(lambda ran: ran.errors.listed, ".1%")),
    ]


def live_cells(lived: Lived) -> dict[str, str]:
    """Return a title and a text for each row of the table."""

    def seconds(taken: float | None) -> str:
        return "no right answer" if taken is None else f"{taken:.1f}"

    def cost(taken: float, window: OtherWindow) -> str:
        if window.is_deployed:
            return f"{taken:.1f} s for all keys, deployed anew"
        return f"{1000 * taken:.1f} ms for one key"

    p50, p99 = np.percentile(lived.latencies_ms, (50, 99)).tolist()
    cells = {
        "from a tick to its answers, ms: p50, p99": f"{p50:,.0f}, {p99:,.0f}",
        "the latest answers after a stop, s from their tick": seconds(lived.stopped_s),
        "the latest answers after a kill, s from their tick": seconds(lived.killed_s),
    }
    if (other := lived.other) is not None:
        ranks = ", ".join(f"{error:.1%}" for error in other.errors.rank)
        cells[f"a window of {OTHER_MS // 60_000} minutes, that nobody declared"] = cost(
            other.seconds, other
        )
        cells["... its CPU time"] = cost(other.cpu_seconds, other).partition(",")[0]
        cells["... worst error of rank: p50, p95, p99"] = ranks
        cells["... worst error of distinct users"] = f"{other.errors.distinct:.1%}"
    return cells


def deciding(
    events: Annotated[int, typer.Option(min=10_000, help="Requests on the topic.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Different keys.")] = 1_000,
    hours: Annotated[float, typer.Option(min=0.1, help="Hours of event time they take.")] = 2.0,
    minutes: Annotated[float, typer.Option(min=0.1, help="The most for each other system.")] = 5.0,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each system.")] = 3,
    pace: Annotated[int, typer.Option(min=10, help="Events a second as they happen.")] = 140,
    seconds: Annotated[int, typer.Option(min=10, help="For how long latency is measured.")] = 60,
    part: Annotated[list[Part] | None, typer.Option(help="One part alone.")] = None,
    system: Annotated[
        list[str] | None, typer.Option(help=f"Beside {OURS}: {', '.join(_SYSTEMS)}; or all.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write the table to this file, beside its other part.")
    ] = None,
) -> None:
    """Put the question to each system in turn, and print what each did."""
    if unknown := [name for name in system or [] if name not in _SYSTEMS]:
        raise SlidestatError(f"There is no system {unknown[0]}.", f"One of: {', '.join(_SYSTEMS)}.")
    console = Console(width=160)
    about = {"machine": results.machine(), "keys": keys, "minutes": minutes}
    console.print(about["machine"], highlight=False)
    requests = draw_requests(events, keys, PARTITIONS, hours * WINDOW_MS / events)
    found: dict[str, dict[str, Any]] = {}
    with (
        TemporaryDirectory(prefix="slidestat-deciding-") as folder,
        broker() as (bootstrap, broker_pid),
    ):
        bench = Deciding(bootstrap, broker_pid, requests, Path(folder))
        try:
            if Part.SPEED in (part or Part):
                size = bench.fill_topic()
                console.print(f"{events:,} requests of {size} bytes, {keys:,} keys")
                names = list(dict.fromkeys([OURS, *(system or _SYSTEMS)]))
                asked = {**about, "events": events, "hours": hours, "runs": runs}
                found[Part.SPEED] = asked | _speed(bench, names, runs, 60 * minutes, console)
            if Part.LIVE in (part or Part):
                names = list(dict.fromkeys(system or _SYSTEMS))
                asked = {**about, "pace": pace, "seconds": seconds}
                found[Part.LIVE] = asked | _live(bench, names, pace, seconds, 60 * minutes, console)
        finally:
            bench.clean_up()
    for name, measured in found.items():
        print_part(console, name, measured)
    if json is not None:
        write(json, found)


def print_part(console: Console, name: str, measured: Mapping[str, Any]) -> None:
    """Print the table of a part, and who cannot."""
    systems: Mapping[str, Mapping[str, str]] = measured["systems"]
    table = Table("", *systems, title=f"{_QUESTION}: {name}")
    for title in dict.fromkeys(title for cells in systems.values() for title in cells):
        table.add_row(title, *(cells.get(title, "-") for cells in systems.values()))
    console.print(table)
    for system, reason in measured["cannot"].items():
        console.print(f"{system} cannot: {reason}", highlight=False, soft_wrap=True)


def write(path: Path, found: Mapping[str, dict[str, Any]]) -> None:
    """Write the parts that were measured; a part that was not stays, and so do systems of a live
    part that were measured in the same way before.
    """
    contents = msgspec.json.decode(path.read_bytes()) if path.is_file() else {}
    for name, part in found.items():
        old = contents.get(name, {})
        asked = ("keys", "minutes", "pace", "seconds")
        if name == Part.LIVE and all(old.get(of) == part[of] for of in asked):
            now = {*part["systems"], *part["cannot"]}
            for kind in ("systems", "cannot"):
                kept = {of: what for of, what in old[kind].items() if of not in now}
                part[kind] = kept | part[kind]
        contents[name] = part
    path.write_bytes(msgspec.json.format(msgspec.json.encode(contents)) + b"\n")


def _speed(
    bench: Deciding, names: list[str], runs: int, most_s: float, console: Console
) -> dict[str, Any]:
    rounds: list[dict[str, Ran]] = []
    cannot: dict[str, str] = {}
    for number in range(1, runs + 1):
        rounds.append({})
        for name in names:
            if name in cannot:
                continue
            try:
                ran = bench.run(name, most_s)
            except (UnavailableError, SlidestatError) as why:
                if name == OURS:
                    raise
                cannot[name] = str(why)
                console.print(f"run {number}: {name}: {why}", highlight=False, soft_wrap=True)
                continue
            rounds[-1][name] = ran
            said = f"{ran.measurement.events_per_s:,.0f} events a second, {ran.answers:,} answers"
            console.print(f"run {number}: {name}: {said}", highlight=False)
    for each in rounds:
        for name in cannot:
            each.pop(name, None)
    rows = speed_rows(rounds)
    systems = {
        name: {title: texts[place] for title, *texts in rows}
        for place, name in enumerate(rounds[0])
    }
    return {"systems": systems, "cannot": _firsts(cannot)}


def _live(
    bench: Deciding, names: list[str], pace: int, seconds: int, most_s: float, console: Console
) -> dict[str, Any]:
    systems: dict[str, dict[str, str]] = {}
    cannot: dict[str, str] = {}
    for name in names:
        try:
            systems[name] = live_cells(bench.live(name, pace, seconds, most_s))
        except (UnavailableError, SlidestatError) as why:
            if name == OURS:
                raise
            cannot[name] = str(why)
        said = systems.get(name) or cannot[name]
        console.print(f"live: {name}: {said}", highlight=False, soft_wrap=True)
    return {"systems": systems, "cannot": _firsts(cannot)}


def _firsts(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the first sentence of each."""
    return {name: text.partition(". ")[0] for name, text in texts.items()}
