"""Who answers: slidestat, a bare loop, and other libraries, each as its own users write it.

A system is a process with the arguments BOOTSTRAP TOPIC GROUP PROGRESS_FILE DATA_DIR PARTITIONS
and what else it needs; it says how many events it has taken in `Progress`. What it counts it leaves
on a topic: that is compared with the exact answer before its speed is believed.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks import FOLDER, REPOSITORY
from benchmarks.harness.answers import Answers
from benchmarks.harness.cases import CaseName
from benchmarks.peers.environments import UnavailableError, environment_python
from slidestat.errors import SlidestatError
from slidestat.local.jars import cache_folder, fetched_jars, kafka_classpath
from slidestat.local.java import find_java
from slidestat.spark.session import require_spark

_PEERS = FOLDER / "peers"
_SPARK = REPOSITORY / "build" / "pyspark-4.1.4"
# Flink's own scripts open these packages to it.
_OPENED = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util")]
OURS = "slidestat"
BARE = "bare_consumer"

_NO_QUANTILES = {
    CaseName.QUANTILES: "it has no quantile aggregation: its users keep all values of a window"
}
_OTHER_QUANTILES = {
    CaseName.QUANTILES: "not timed: its percentile_approx takes tumbling and hopping windows, not"
    " sliding ones, and gives no bounds, which is another question"
}


@dataclass(frozen=True)
class System:
    """One way to go through a topic.

    `command` starts it, without the common arguments; it raises UnavailableError where it cannot
    run. `window` is its last argument. `most_events` bounds what it is timed on, so that a slow one
    takes seconds; None is the whole topic. `answers` says how its answers are read and which must
    be there; None where it has none, or, for ours, where they are checked by `check`. With
    `has_changelog` its state is on the broker too. `cannot` names the workloads that it has no
    answer to, with why.
    """

    name: str
    question: str
    command: Callable[[], list[str]]
    window: str = ""
    most_events: int | None = None
    answers: Answers | None = None
    has_changelog: bool = True
    cannot: Mapping[CaseName, str] = field(default_factory=dict)


def own(module: str) -> list[str]:
    """Return the command of a module in this environment."""
    return [sys.executable, "-m", f"benchmarks.{module}"]


def peer(environment: str, module: str) -> list[str]:
    """Return the command of a module in a peer's own environment."""
    return [str(environment_python(environment)), "-m", f"benchmarks.peers.{module}"]


def kafka_streams() -> list[str]:
    """Return the command of the counts of Kafka Streams, compiled."""
    return _java_peer("KafkaStreamsCount", jars="kafka-streams-4.1.1.sha256")


def kafka_streams_tiles() -> list[str]:
    """Return the command of Kafka Streams with DataSketches, compiled."""
    return _java_peer("KafkaStreamsTiles", "Tile", jars="kafka-streams-tiles.sha256")


def flink() -> list[str]:
    """Return the command of Flink's windows, compiled."""
    return _java_peer("FlinkWindows", "Tile", jars="flink-2.1.0.sha256", has_kafka=True)


def _java_peer(*sources: str, jars: str, has_kafka: bool = False) -> list[str]:
    """Compile a program, the first of the sources, against the jars of a lock, and those of the
    local broker unless the lock has a Kafka client of its own; return its command.

    Raises UnavailableError where there is no compiler or no jar.
    """
    java = find_java().executable
    compiler = java.with_name("javac")
    if not compiler.is_file():
        raise UnavailableError(f"{java} has no compiler beside it: it is a JRE, not a JDK")
    try:
        files = [] if has_kafka else kafka_classpath()
        files += fetched_jars(_PEERS / jars, f"the jars of {sources[0]}")
    except SlidestatError as error:
        raise UnavailableError(error.message) from error
    classes = cache_folder() / f"classes-{sources[0]}"
    shutil.rmtree(classes, ignore_errors=True)
    classpath = ":".join(map(str, files))
    compiled = subprocess.run(  # noqa: S603 - our own sources
        [
            *(compiler, "-d", classes, "-cp", classpath),
            *(_PEERS / f"{source}.java" for source in sources),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if compiled.returncode:
        raise UnavailableError(f"its source does not compile: {compiled.stderr.strip()[-300:]}")
    return [str(java), *_OPENED, "-cp", f"{classes}:{classpath}", sources[0]]


def _spark_stream() -> list[str]:
    try:
        require_spark()
    except SlidestatError as error:
        raise UnavailableError(f"{error.message} {error.advice}") from error
    return own("peers.spark_stream")


def spark_sketches() -> list[str]:
    """Return the command of Spark's own sketches, which PySpark 4.1 has.

    Raises UnavailableError where it is not installed.
    """
    if not _SPARK.is_dir():
        raise UnavailableError("PySpark 4.1.4 is not here: make test-spark SPARK=4.1.4 installs it")
    return ["env", f"PYTHONPATH={_SPARK}", *_spark_stream()]


_QUESTIONS = {
    "tumbling": "count, tumbling 1m",
    "hopping": "count, hopping 1m every 10s",
    "sliding": "count, sliding 1m",
}


def _faust() -> System:
    answers = Answers.of_table("{group}-counts-changelog")
    return System(
        "faust_tumbling_table",
        _QUESTIONS["tumbling"],
        partial(own, "speed.plain_faust"),
        "tumbling",
        30_000,
        answers,
        cannot=_NO_QUANTILES,
    )


def _quix(window: str, most_events: int) -> System:
    return System(
        f"quix_{window}",
        _QUESTIONS[window],
        partial(peer, "quix", "quix"),
        window,
        most_events,
        Answers.final(window),
        cannot=_NO_QUANTILES,
    )


def _streams(window: str, most_events: int | None) -> System:
    return System(
        f"kafka_streams_{window}",
        _QUESTIONS[window],
        kafka_streams,
        window,
        most_events,
        Answers.updated(window),
        cannot=_NO_QUANTILES,
    )


def _bytewax(window: str, most_events: int) -> System:
    return System(
        f"bytewax_{window}",
        _QUESTIONS[window],
        partial(peer, "bytewax", "bytewax_flow"),
        window,
        most_events,
        Answers.waited(window, lost_when_stopped=True),
        has_changelog=False,
        cannot=_NO_QUANTILES,
    )


def _pathway(window: str, most_events: int) -> System:
    return System(
        f"pathway_{window}",
        _QUESTIONS[window],
        partial(peer, "pathway", "pathway_flow"),
        window,
        most_events,
        Answers.updated(window, lost_when_stopped=True),
        has_changelog=False,
        cannot=_NO_QUANTILES,
    )


def _flink(window: str, most_events: int) -> System:
    return System(
        f"flink_{window}",
        _QUESTIONS[window],
        flink,
        window,
        most_events,
        Answers.waited(window, lost_when_stopped=False),
        has_changelog=False,
        cannot=_NO_QUANTILES,
    )


def _spark(window: str, most_events: int | None) -> System:
    return System(
        f"spark_{window}",
        _QUESTIONS[window],
        _spark_stream,
        window,
        most_events,
        Answers.waited(window, lost_when_stopped=False),
        has_changelog=False,
        cannot=_OTHER_QUANTILES,
    )


SYSTEMS = {
    system.name: system
    for system in (
        System(OURS, "sliding, all windows, with bounds", partial(own, "speed.ours")),
        System(BARE, "decoded, nothing else", partial(own, "speed.bare"), has_changelog=False),
        _faust(),
        _quix("tumbling", 300_000),
        _quix("hopping", 60_000),
        _quix("sliding", 12_000),
        _streams("tumbling", 2_400_000),
        _streams("hopping", 400_000),
        _streams("sliding", 40_000),
        _bytewax("tumbling", 200_000),
        _bytewax("hopping", 60_000),
        _pathway("tumbling", 1_000_000),
        # Takes at once what 1.5 seconds bring.
        _pathway("hopping", 1_000_000),
        _spark("tumbling", 400_000),
        _spark("hopping", 400_000),
        _flink("tumbling", 1_000_000),
        _flink("hopping", 400_000),
    )
}
