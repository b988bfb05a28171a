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
from pathlib import Path

from app.errors import SlidestatError
from app.local.folders import cache_folder
from app.local.jars import kafka_classpath
from app.local.java import find_java
from benchmarks.answers import Answers
from benchmarks.cases import CaseName
from benchmarks.peers.environments import UnavailableError, environment_python
from benchmarks.peers.jars import peer_jars

_PEERS = Path(__file__).with_name("peers")
_JAVA_SOURCE = _PEERS / "KafkaStreamsCount.java"
_JAVA_JARS = _PEERS / "kafka-streams-4.1.1.sha256"
OURS = "slidestat"
BARE = "bare_consumer"


@dataclass(frozen=True)
class System:
    """One way to go through a topic.

    `command` starts it, without the common arguments; it raises UnavailableError where it cannot
    run. `window` is its last argument. `most_events` bounds what it is timed on, so that a slow one
    takes seconds; None is the whole topic. `answers` says how its answers are read and which must
    be there; None where it has none, or, for ours, where they are checked by `check`. `cannot`
    names the workloads that it has no answer to, with why.
    """

    name: str
    question: str
    command: Callable[[], list[str]]
    window: str = ""
    most_events: int | None = None
    answers: Answers | None = None
    cannot: Mapping[CaseName, str] = field(default_factory=dict)


def _ours() -> list[str]:
    return [sys.executable, "-m", "benchmarks.ours"]


def _own(module: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{module}"]


def _peer(environment: str, module: str) -> list[str]:
    return [str(environment_python(environment)), "-m", f"benchmarks.peers.{module}"]


def _kafka_streams() -> list[str]:
    java = find_java().executable
    compiler = java.with_name("javac")
    if not compiler.is_file():
        raise UnavailableError(f"{java} has no compiler beside it: it is a JRE, not a JDK")
    try:
        jars = [*kafka_classpath(), *peer_jars(_JAVA_JARS)]
    except SlidestatError as error:
        raise UnavailableError(error.message) from error
    classes = cache_folder() / "kafka-streams-count"
    shutil.rmtree(classes, ignore_errors=True)
    classpath = ":".join(map(str, jars))
    compiled = subprocess.run(  # noqa: S603 - our own source
        [compiler, "-d", classes, "-cp", classpath, _JAVA_SOURCE],
        capture_output=True,
        text=True,
        check=False,
    )
    if compiled.returncode:
        raise UnavailableError(f"its source does not compile: {compiled.stderr.strip()[-300:]}")
    return [str(java), "-cp", f"{classes}:{classpath}", _JAVA_SOURCE.stem]


def _flink() -> list[str]:
    raise UnavailableError(
        "apache-flink 2.3 needs apache-beam 2.61, whose dependency crcmod 1.7 comes as source "
        "alone: without a C compiler and Python's headers it does not install"
    )


_QUIX = partial(_peer, "quix", "quix")
_BYTEWAX = partial(_peer, "bytewax", "bytewax_flow")

SYSTEMS = {
    system.name: system
    for system in (
        System(OURS, "sliding 1m, 5m and 1h, with bounds", _ours),
        System(BARE, "consumed and decoded, nothing else", partial(_own, "bare")),
        System(
            "faust_tumbling_table",
            "count, tumbling 1m",
            partial(_own, "plain_faust"),
            "tumbling",
            40_000,
            Answers.of_table("{group}-counts-changelog"),
        ),
        System(
            "quix_tumbling",
            "count, tumbling 1m",
            _QUIX,
            "tumbling",
            300_000,
            Answers.final("tumbling"),
        ),
        System(
            "quix_hopping",
            "count, hopping 1m every 10s",
            _QUIX,
            "hopping",
            60_000,
            Answers.final("hopping"),
        ),
        System(
            "quix_sliding",
            "count, sliding 1m",
            _QUIX,
            "sliding",
            12_000,
            Answers.final("sliding"),
        ),
        System(
            "kafka_streams_tumbling",
            "count, tumbling 1m",
            _kafka_streams,
            "tumbling",
            None,
            Answers.updated("tumbling"),
        ),
        System(
            "kafka_streams_hopping",
            "count, hopping 1m every 10s",
            _kafka_streams,
            "hopping",
            400_000,
            Answers.updated("hopping"),
        ),
        System(
            "kafka_streams_sliding",
            "count, sliding 1m",
            _kafka_streams,
            "sliding",
            40_000,
            Answers.updated("sliding"),
        ),
        System(
            "bytewax_tumbling",
            "count, tumbling 1m",
            _BYTEWAX,
            "tumbling",
            200_000,
            Answers.waited("tumbling"),
        ),
        System(
            "bytewax_hopping",
            "count, hopping 1m every 10s",
            _BYTEWAX,
            "sliding",
            60_000,
            Answers.waited("hopping"),
        ),
        System("flink_tumbling", "count, tumbling 1m", _flink, "tumbling"),
    )
}
