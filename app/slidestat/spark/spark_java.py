"""Find a Java that can run Spark 4.0 to 4.2: release 17 or 21, with the module for vectors."""

from collections.abc import Iterator
from pathlib import Path

from slidestat.errors import SlidestatError
from slidestat.local.java import Java, first_java

# https://spark.apache.org/docs/4.0.0: "Spark runs on Java 17/21". Java 25 fails at the start.
RELEASES = (17, 21)
# Spark's launcher adds it to every JVM; a JRE that was cut down may be without.
_MODULES = ("jdk.incubator.vector",)
# Where systems put a Java that is not the one on PATH.
_HOMES = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
)


def find_spark_java() -> Java:
    """Return the first Java that Spark runs on; cost: one short JVM run for each one tried.

    Raises SlidestatError, which lists what was tried, when there is none.
    """
    missing = SlidestatError(
        "Spark needs Java 17 or 21",
        "Install a Java 17 or 21 (on Debian: apt install openjdk-17-jre-headless) and set "
        "JAVA_HOME to it.",
    )
    return first_java(_installed(), "the usual folders", _error, missing, _MODULES)


def _installed() -> Iterator[tuple[str, Path]]:
    for pattern in _HOMES:
        for home in sorted(Path("/").glob(pattern.lstrip("/"))):
            if (launcher := home / "bin" / "java").is_file():
                yield "installed", launcher


def _error(release: int) -> str:
    return "" if release in RELEASES else f"is Java {release}"
