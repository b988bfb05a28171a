"""The processes of Spark on this machine, and their processor time."""

from collections.abc import Iterator
from contextlib import suppress

import psutil


def spark_processes() -> Iterator[psutil.Process]:
    """Yield Spark's JVM and its Python workers."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "kafka.Kafka" not in process.cmdline():
                yield process


def spark_cpu_seconds() -> float:
    """CPU seconds of Spark's JVM and of its Python workers, those that have ended included."""
    found = 0.0
    for process in spark_processes():
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found += times.user + times.system + times.children_user + times.children_system
    return found
