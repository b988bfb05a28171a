"""Python, its packages, Java, memory and disk."""

import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from aiokafka.codec import has_lz4, has_snappy, has_zstd

from slidestat.doctor.finding import Finding, Verdict
from slidestat.errors import SlidestatError
from slidestat.faust.data_folder import user_folders
from slidestat.local.jars import cache_folder
from slidestat.local.java import find_java

_PACKAGES = ("faust-streaming", "aiokafka", "confluent-kafka", "rocksdict", "numba", "pyarrow")
# aiokafka finds out at the first batch that it cannot unpack it.
_CODECS = {"lz4": has_lz4, "snappy": has_snappy, "zstd": has_zstd}
_LEAST_DISK = 2 * 10**9


def python() -> Finding:
    """Return the finding about the interpreter, and the packages that do the work."""
    try:
        found = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    except PackageNotFoundError as error:
        return Finding(
            "python",
            Verdict.BAD,
            f"{error.name} is not installed",
            "Install slidestat again, with its dependencies.",
        )
    return Finding("python", Verdict.GOOD, f"{platform.python_version()}; {found}")


def codecs() -> Finding:
    """Return the finding about the codecs with which a worker unpacks what producers compress."""
    missing = [codec for codec, is_there in _CODECS.items() if not is_there()]
    if missing:
        return Finding(
            "codecs",
            Verdict.BAD,
            f"records packed with {', '.join(missing)} cannot be read",
            'Install them: pip install "aiokafka[lz4,snappy,zstd]".',
        )
    return Finding("codecs", Verdict.GOOD, f"gzip, {', '.join(_CODECS)}")


def java() -> Iterator[Finding]:
    """Yield the findings about a Java for the local broker, and one for the Spark jobs."""
    try:
        found = find_java()
        text = f"Java {found.version} from {found.source}"
        yield Finding("java for the local broker", Verdict.GOOD, text)
    except SlidestatError as error:
        yield Finding("java for the local broker", Verdict.MISSING, error.message, error.advice)
    from slidestat.spark.spark_java import find_spark_java

    try:
        spark = find_spark_java()
        text = f"Java {spark.version} from {spark.source}"
        yield Finding("java for the Spark jobs", Verdict.GOOD, text)
    except SlidestatError as error:
        yield Finding("java for the Spark jobs", Verdict.MISSING, error.message, error.advice)


def kernels() -> Finding:
    """Return whether compiled kernels can be kept, if they did not come with the package: else each
    worker compiles them again, for minutes.
    """
    from slidestat.synopses.kernels import units

    if units.ship_with_the_package():
        return Finding("kernels", Verdict.GOOD, "machine code came with the package")
    folder = units.cache_folder()
    try:
        units.try_to_write()
    except OSError as error:
        found = f"{folder} cannot be written ({error.strerror}): each start compiles for minutes"
        advice = "Set NUMBA_CACHE_DIR to a folder that this user may write."
        return Finding("kernels", Verdict.BAD, found, advice)
    return Finding("kernels", Verdict.GOOD, f"compiled ones are kept in {folder}")


def disk() -> Iterator[Finding]:
    """Yield the findings about the disk space for tables, and for downloads."""
    for check, folder in (("tables", user_folders("")), ("downloads", cache_folder())):
        place = folder
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        text = f"{free / 1e9:,.1f} GB free at {folder}"
        if free < _LEAST_DISK:
            yield Finding(
                check, Verdict.BAD, text, "Make room, or give workers a --data-dir elsewhere."
            )
        else:
            yield Finding(check, Verdict.GOOD, text)


def supported() -> Finding | None:
    """Return a warning on platforms on which slidestat was never run, None on the others."""
    if sys.platform.startswith("linux") or sys.platform == "darwin":
        return None
    return Finding(
        "system", Verdict.BAD, platform.platform(), "Run it on Linux or macOS, or in a container."
    )
