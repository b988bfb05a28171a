"""Quantiles, distinct users and top paths of each key, over an hour, every ten seconds.

    python -m benchmarks.deciding [--events N] [--keys N] [--minutes M] [--runs N] [--json FILE]

The question that brings people here, put to slidestat and to what would be taken in its place. Each
system goes through one topic in turn, for at most so many minutes; a sample of its answers is
compared with the events themselves. See README.md beside this file.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import results
from benchmarks.answers import changelog_bytes, read_messages
from benchmarks.bench import delete_made
from benchmarks.cases import CASES, CaseName, make_topology
from benchmarks.figures import Figure, violation_of
from benchmarks.measure import GroupOffsets, Measurement, SubjectProcess, time_commits, time_loop
from benchmarks.peers.environments import UnavailableError
from benchmarks.progress import Progress
from benchmarks.requests import ExactRequests, Requests, draw_requests
from benchmarks.stored import folder_bytes
from benchmarks.systems import OURS, flink, kafka_streams_tiles, own, peer
from benchmarks.throughput import PARTITIONS, broker, run_command
from benchmarks.workload import send
from slidestat.admin.topics import create_topic, create_topology_topics
from slidestat.errors import SlidestatError

_CASE, _EVERY_MS, _WINDOW_MS = CaseName.DECIDING, 10_000, 3_600_000
_QUANTILES = (0.5, 0.95, 0.99)
_LARGEST = 10
_SAMPLE = 500
_QUESTION = "p50, p95, p99, distinct, top 10 of an hour, every ten seconds"
_SETTLE_S = 3.0
_KEEP = {"retention.ms": "-1"}
# The command of each, and what follows the arguments that all have.
_SYSTEMS: dict[str, tuple[Callable[[], list[str]], tuple[str, ...]]] = {
    OURS: (partial(own, "ours"), (CASES[_CASE].every, _CASE)),
    "chdb_tiles": (partial(peer, "chdb", "chdb_tiles"), ()),
    "kafka_streams_tiles": (kafka_streams_tiles, ()),
    "flink_tiles": (flink, ("tiles",)),
    "flink_hop": (flink, ("hop",)),
}


class Answer(msgspec.Struct):
    """The figures of a key at a tick; `figures` are those of slidestat, with their bounds."""

    end: int
    quantiles: tuple[float, float, float]
    distinct: float
    top: list[tuple[str, float]]
    figures: list[Figure] = []


class _Figure(Figure, gc=False):
    item: str | None = None


class _Emission(msgspec.Struct):
    key: str
    window_end_ms: int
    figures: list[_Figure]


@dataclass(frozen=True)
class Errors:
    """The worst errors of a sample of answers: of a quantile's value, as a share of it, and of its
    rank, as a share of the events; of distinct users, as a share; of a path's count, as a share of
    the events; and the share of the paths of the true top ten that were listed, over all answers.
    """

    value: tuple[float, ...]
    rank: tuple[float, ...]
    distinct: float
    count: float
    listed: float


@dataclass(frozen=True)
class Ran:
    """What a system did in its time."""

    measurement: Measurement
    answers: int
    errors: Errors
    disk_bytes_per_key: float
    changelog_bytes_per_event: float


def judge(requests: Requests, answers: dict[tuple[int, int], Answer]) -> Errors:
    """Compare a sample of answers with the events.

    Raises SlidestatError if an answer is missing of those due before the newest one of their
    partition, or if bounds of slidestat do not hold.
    """
    exact = ExactRequests(requests)
    newest = [0] * requests.partitions
    for key, end in answers:
        newest[key % requests.partitions] = max(newest[key % requests.partitions], end)
    due = sorted(
        (key, end) for key, end in exact.due(_EVERY_MS) if end < newest[key % requests.partitions]
    )
    if not due:
        raise SlidestatError("No answer came in its time.", "Give it more: --minutes.")
    if missing := [pair for pair in due if pair not in answers]:
        raise SlidestatError(
            f"{len(missing)} of {len(due)} answers are missing, such as {missing[0]}.", "Report it."
        )
    chosen = np.random.default_rng(0).choice(len(due), min(_SAMPLE, len(due)), replace=False)
    values, ranks = np.zeros(len(_QUANTILES)), np.zeros(len(_QUANTILES))
    distinct = count = 0.0
    listed = wanted = 0
    for key, end in (due[i] for i in chosen.tolist()):
        answer = answers[key, end]
        rows = exact.rows(key, end - _WINDOW_MS, end)
        took = np.sort(requests.cents[rows]) / 100
        for figure in answer.figures:
            if figure.quantile is not None:
                _require(figure, violation_of(figure, np.sort(requests.cents[rows])))
        for i, (quantile, estimate) in enumerate(zip(_QUANTILES, answer.quantiles, strict=True)):
            true = took[max(0, int(np.ceil(quantile * len(took))) - 1)]
            values[i] = max(values[i], abs(estimate - true) / true)
            low, high = (np.searchsorted(took, estimate, side) for side in ("left", "right"))
            off = max(low / len(took) - quantile, quantile - (high + 1) / len(took), 0.0)
            ranks[i] = max(ranks[i], off)
        users = len(np.unique(requests.users[rows]))
        distinct = max(distinct, abs(answer.distinct - users) / users)
        counts = np.bincount(requests.paths[rows])
        for path, estimate in answer.top:
            number = int(path.removeprefix("/p/"))
            count = max(count, abs(estimate - counts[number]) / len(rows))
        # Of paths that are equally frequent any will do.
        least = np.sort(counts)[-min(_LARGEST, int((counts > 0).sum()))]
        named = [int(path.removeprefix("/p/")) for path, _ in answer.top[:_LARGEST]]
        listed += int((counts[named] >= least).sum())
        wanted += min(_LARGEST, int((counts > 0).sum()))
    return Errors(
        tuple(values.tolist()), tuple(ranks.tolist()), distinct, count, listed / max(1, wanted)
    )


def _require(figure: Figure, violation: str) -> None:
    if violation:
        raise SlidestatError(f"A bound does not hold: {figure}: {violation}.", "Report it.")


class Deciding:
    """A broker with the requests on a topic, and the systems that are run on it."""

    def __init__(
        self, bootstrap: str, broker_pid: int | None, requests: Requests, folder: Path
    ) -> None:
        self._bootstrap, self._broker_pid = bootstrap, broker_pid
        self._requests, self._folder = requests, folder
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
        start, more = _SYSTEMS[system]
        command = start()
        self._runs += 1
        group = f"{self._name}-{self._runs}"
        data = self._folder / group
        (data / "state").mkdir(parents=True)
        progress = Progress.create(data / "progress")
        arguments = [self._bootstrap, self._topic, group, str(data / "progress")]
        arguments += [str(data / "state"), str(PARTITIONS), *more]
        topology = make_topology(_CASE, self._topic, group, CASES[_CASE].every)
        if system == OURS:
            create_topology_topics(self._bootstrap, topology, PARTITIONS)
            output, members = topology.output_topic, topology.application_id
        else:
            create_topic(self._bootstrap, f"{group}-answers", PARTITIONS, _KEEP)
            output, members = f"{group}-answers", group
        events = len(self._requests)
        with (
            SubjectProcess([*command, *arguments], self._folder / f"{group}.log") as process,
            closing(GroupOffsets(self._bootstrap, self._topic, members, PARTITIONS)) as offsets,
        ):
            if system == OURS:
                measured = time_commits(process, progress, offsets, events, self._broker_pid)
            else:
                measured = time_loop(process, progress.read, 1, events, self._broker_pid, most_s)
                time.sleep(_SETTLE_S)
        done = progress.read()
        answers = {(key, answer.end): answer for key, answer in self._answers(system, output)}
        return Ran(
            measured,
            len(answers),
            judge(self._requests, answers),
            folder_bytes(data / "state") / len(np.unique(self._requests.keys[:done])),
            changelog_bytes(self._bootstrap, group) / done,
        )

    def _answers(self, system: str, topic: str) -> Iterator[tuple[int, Answer]]:
        decode = msgspec.json.Decoder(Answer).decode
        for message in read_messages(self._bootstrap, topic):
            key, value = (message.key() or b"").decode(), message.value() or b""
            key, answer = _of_ours(value) if system == OURS else (key, decode(value))
            yield self._requests.key_number(key), answer

    def clean_up(self) -> None:
        """Delete the topics and groups that this made."""
        delete_made(self._bootstrap, self._name)


_decode_emission = msgspec.json.Decoder(_Emission).decode


def _of_ours(value: bytes) -> tuple[str, Answer]:
    emission = _decode_emission(value)
    of = {figure.statistic: figure for figure in emission.figures}
    quantiles = [f.estimate or 0.0 for f in emission.figures if f.quantile is not None]
    top = [(f.item, f.estimate or 0.0) for f in emission.figures if f.item is not None]
    answer = Answer(
        emission.window_end_ms,
        (quantiles[0], quantiles[1], quantiles[2]),
        of["distinct_user"].estimate or 0.0,
        top,
        list(emission.figures),
    )
    return emission.key, answer


def rows(rounds: list[dict[str, Ran]]) -> list[tuple[str, ...]]:
    """Return a title and a text for each system: medians over the rounds, with the least and the
    most where it is a speed, and of errors the worst of all rounds.
    """
    names = list(rounds[0])

    def spread(of: Callable[[Ran, Ran], float], how: str) -> tuple[str, ...]:
        spreads = [
            results.Spread.of([of(each[name], each[OURS]) for each in rounds]) for name in names
        ]
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
        ("slidestat has so many times its events a second", *times(lambda m: m.events_per_s)),
        ("... its events a CPU second", *times(lambda m: m.events_per_cpu_s)),
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


def deciding(
    events: Annotated[int, typer.Option(min=10_000, help="Requests on the topic.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="Different keys.")] = 1_000,
    hours: Annotated[float, typer.Option(min=0.1, help="Hours of event time they take.")] = 2.0,
    minutes: Annotated[float, typer.Option(min=0.1, help="The most for each other system.")] = 5.0,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each system.")] = 3,
    system: Annotated[
        list[str] | None, typer.Option(help=f"Beside {OURS}: {', '.join(_SYSTEMS)}; or all.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
) -> None:
    """Put the question to each system in turn, and print what each did."""
    if unknown := [name for name in system or [] if name not in _SYSTEMS]:
        raise SlidestatError(f"There is no system {unknown[0]}.", f"One of: {', '.join(_SYSTEMS)}.")
    console = Console(width=160)
    machine = results.machine()
    console.print(machine, highlight=False)
    requests = draw_requests(events, keys, PARTITIONS, hours * _WINDOW_MS / events)
    rounds: list[dict[str, Ran]] = []
    cannot: dict[str, str] = {}
    with (
        TemporaryDirectory(prefix="slidestat-deciding-") as folder,
        broker() as (bootstrap, broker_pid),
    ):
        bench = Deciding(bootstrap, broker_pid, requests, Path(folder))
        try:
            console.print(f"{events:,} requests of {bench.fill_topic()} bytes, {keys:,} keys")
            for number in range(1, runs + 1):
                rounds.append({})
                for name in [OURS, *(system or [name for name in _SYSTEMS if name != OURS])]:
                    if name in cannot:
                        continue
                    try:
                        ran = bench.run(name, 60 * minutes)
                    except (UnavailableError, SlidestatError) as why:
                        if name == OURS:
                            raise
                        cannot[name] = str(why)
                        continue
                    rounds[-1][name] = ran
                    said = f"{ran.measurement.events_per_s:,.0f} events a second"
                    console.print(f"run {number}: {name}: {said}", highlight=False)
        finally:
            bench.clean_up()
    for each in rounds:
        for name in cannot:
            each.pop(name, None)
    found = rows(rounds)
    table = Table("", *rounds[0], title=f"{_QUESTION}, {len(rounds)} runs")
    for row in found:
        table.add_row(*row)
    console.print(table)
    for name, reason in cannot.items():
        console.print(f"{name} cannot: {reason}", highlight=False, soft_wrap=True)
    if json is not None:
        asked = {"events": events, "keys": keys, "hours": hours, "minutes": minutes, "runs": runs}
        contents = {"machine": machine, **asked, "systems": list(rounds[0]), "rows": found}
        contents["cannot"] = {name: text.partition(". ")[0] for name, text in cannot.items()}
        json.write_bytes(msgspec.json.format(msgspec.json.encode(contents)) + b"\n")


if __name__ == "__main__":
    run_command(deciding)
