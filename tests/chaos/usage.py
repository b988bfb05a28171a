"""What a process uses of the machine, sample by sample."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from threading import Event
from typing import NamedTuple

_SAMPLE_S = 5.0
_KIB = 1024


class Usage(NamedTuple):
    """At a moment, in seconds since the first sample: resident bytes, open files, threads."""

    at_s: float
    memory: int
    descriptors: int
    threads: int


class UsageLog:
    """Samples of one process, taken by `watch` in a thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start = time.monotonic()
        self.samples: list[Usage] = []

    def watch(self, is_over: Event) -> None:
        """Sample every few seconds, until it is over."""
        while not is_over.wait(_SAMPLE_S):
            self.samples.append(self._now())

    def since(self, start_s: float) -> list[Usage]:
        """Return the samples from a moment on."""
        return [usage for usage in self.samples if usage.at_s >= start_s]

    def _now(self) -> Usage:
        process = Path(f"/proc/{self._pid}")
        fields = dict(
            line.split(":", 1) for line in (process / "status").read_text().splitlines() if line
        )
        return Usage(
            time.monotonic() - self._start,
            int(fields["VmRSS"].split()[0]) * _KIB,
            sum(1 for _ in (process / "fd").iterdir()),
            int(fields["Threads"]),
        )


def thirds(samples: Sequence[Usage]) -> tuple[Usage, Usage]:
    """Return the medians of the first third of samples, and of the last one."""
    third = len(samples) // 3
    return _median(samples[:third]), _median(samples[-third:])


def _median(samples: Sequence[Usage]) -> Usage:
    at_s, *used = (median(column) for column in zip(*samples, strict=True))
    return Usage(at_s, *map(int, used))
