"""Whether the Python of executors on other machines has what a job needs, before a job runs there.

A job that finds out by itself fails in each of its tasks, four times each, after minutes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from slidestat.errors import SlidestatError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The imports of tasks: libraries, and this package.
_LIBRARIES = ("pyarrow", "pandas", "numba", "msgspec", "rocksdict", "xxhash", "aiokafka", "cramjam")
_NEEDED = (*_LIBRARIES, "slidestat")

_Probe = Callable[[Iterable[int]], Iterator[tuple[str, str, list[str]]]]


def is_on_this_machine(master: str) -> bool:
    """Return whether tasks run in the driver's process: local, local[4]; not local-cluster."""
    return master.partition("[")[0] == "local"


def runs_each_task_once(master: str) -> bool:
    """Return whether tasks run in the driver's process, and a job ends with the first failure."""
    return is_on_this_machine(master) and "," not in master


def require_executors(spark: "SparkSession") -> None:
    """Raise SlidestatError, in one line, for executors whose Python lacks a package. Cost: a small
    task for each core; nothing on this machine, whose Python is the running one.
    """
    from pyspark.errors import PySparkException

    context = spark.sparkContext
    if is_on_this_machine(str(context.master)):
        return
    tasks = context.defaultParallelism
    try:
        lacking = context.parallelize(range(tasks), tasks).mapPartitions(_by_value()).collect()
    except (PySparkException, OSError) as error:
        raise SlidestatError(
            f"Executors cannot run Python: {_last_line(error)}",
            "Install the Python of this job on each of them, or give its path in PYSPARK_PYTHON.",
        ) from error
    for host, version, names in lacking:
        if names:
            raise SlidestatError(
                f"Python {version} of the executor on {host} lacks {', '.join(names)}.",
                "Install slidestat[spark] there, or send the package and what it needs with"
                " --py-files and --archives: see docs/spark.md, On a cluster.",
            )


def _by_value() -> _Probe:
    """Return the probe as code that is pickled as a whole: a reference to a module that is missing
    there could not be read.
    """

    def probe(_rows: Iterable[int]) -> Iterator[tuple[str, str, list[str]]]:
        import importlib.util
        import platform
        import socket

        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        yield socket.gethostname(), platform.python_version(), missing

    needed = list(_NEEDED)
    probe.__module__ = "__main__"
    return probe


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    failures = [line for line in lines if "Error" in line or "Exception" in line]
    return (failures or lines or [type(error).__name__])[0]
