"""The topics of a topology, filled by hand: what ingest and audit read, without a worker."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from confluent_kafka import Producer

from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason, dead_letter_key
from slidestat.schemas.emission import Emission, Figure, emission_key

DAY_MS = 86_400_000
NOON_MS = 1_764_072_000_000


def emission(topology: str, key: str, window_end_ms: int, offset: int = 0) -> Emission:
    """An emission of one count."""
    figures = [Figure("count", 5.0, 4.0, 6.0, window_ms=60_000, relative_error=0.2)]
    return Emission(topology, key, window_end_ms, figures, "events", 0, offset)


@dataclass(frozen=True)
class Topics:
    """The topics of `name`, each with `partitions`."""

    bootstrap: str
    name: str
    source: str

    def emit(self, emissions: Sequence[Emission | bytes], declared_by: str = "") -> None:
        """Emissions, or records that are none; the fingerprint of their declaration, or none."""
        headers = [("declaration", declared_by.encode())] if declared_by else []
        self._send(
            f"{self.name}-statistics",
            [
                (b"x", e, NOON_MS, [])
                if isinstance(e, bytes)
                else (
                    emission_key(e.topology, e.key, e.window_end_ms),
                    msgspec.json.encode(e),
                    e.window_end_ms,
                    headers,
                )
                for e in emissions
            ],
        )

    def refuse(self, kind: str, reason: Reason, offset: int, value: bytes = b"?") -> None:
        """A letter on the topic of `kind`, late or dead-letters."""
        headers = DeadLetterHeaders(reason, "why", self.source, 0, offset, self.name).encode()
        key = dead_letter_key(self.source, 0, offset)
        self._send(f"{self.name}-{kind}", [(key, value, NOON_MS, headers)])

    def event(self, *values: bytes | None) -> None:
        """Raw records."""
        self._send(self.source, [(b"k", value, NOON_MS, []) for value in values])

    def foreign(self, kind: str, headers: list[tuple[str, bytes]]) -> None:
        """A record that somebody else wrote."""
        self._send(f"{self.name}-{kind}", [(None, None, NOON_MS, headers)])

    def _send(
        self,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]],
    ) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0})
        for key, value, timestamp, headers in records:
            producer.produce(
                topic, value, key, partition=-1 if key else 0, timestamp=timestamp, headers=headers
            )
        assert producer.flush(60) == 0


def make_topics(make_topic: Callable[..., str], bootstrap: str, partitions: int = 1) -> Topics:
    """Topics of this test's own."""
    source = make_topic("t", partitions)
    for kind in ("statistics", "late", "dead-letters"):
        make_topic(f"t-{kind}", partitions)
    return Topics(bootstrap, source, source)


@contextmanager
def killed_ingest(
    topics: Topics, file: Path, lake: str, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`slidestat spark ingest` in a process of its own, in batches of 1,000 records, and its log;
    killed when the context is left.
    """
    log = file.with_name("ingest.log")
    with log.open("wb") as out:
        run = subprocess.Popen(
            [
                *(sys.executable, "-m", "slidestat", "spark", "ingest", str(file)),
                *("--lake", lake, "--bootstrap", topics.bootstrap, *options),
                *("--records-per-batch", "1000", "--master", "local[2]"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Its JVM is killed with it.
        )
    try:
        yield run, log
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
