"""Leave out the tests whose programs this machine lacks, and say at the end what would bring them.

In CI, where the environment has `CI`, nothing is left out: a test without its program fails there.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from slidestat.errors import SlidestatError
from slidestat.spark.spark_java import find_spark_java

# The names that systems give it.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Program:
    """What some tests need and no Python package brings.

    A test needs it that asks for the fixture, or has the marker `needs_` and the fixture's name.
    """

    name: str
    fixture: str
    is_here: Callable[[], bool]
    brought_by: str


def _chromium_is_here() -> bool:
    return any(map(shutil.which, CHROMIUM)) and shutil.which("chromedriver") is not None


def _java_is_here() -> bool:
    try:
        find_spark_java()
    except SlidestatError:
        return False
    return True


def _podman_is_here() -> bool:
    # As root: a user's containers need what few machines are set up for.
    return os.geteuid() == 0 and all(map(shutil.which, ("podman", "runc", "mmdebstrap")))


PROGRAMS = (
    Program(
        "Chromium and its driver",
        "one_browser",
        _chromium_is_here,
        "sudo apt-get install chromium chromium-driver",
    ),
    Program(
        "Java 17 or 21",
        "spark",
        _java_is_here,
        "sudo apt-get install openjdk-17-jre-headless",
    ),
    Program(
        "Podman and mmdebstrap, and root",
        "image",
        _podman_is_here,
        "sudo apt-get install podman runc mmdebstrap, and make test-long by root",
    ),
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of tests that start a program by themselves."""
    for program in PROGRAMS:
        config.addinivalue_line("markers", f"needs_{program.fixture}: needs {program.name}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip each test of which a program is missing."""
    if os.environ.get("CI"):
        return
    for item in items:
        for program in PROGRAMS:
            if _needs(item, program) and not _is_here(program):
                item.add_marker(pytest.mark.skip(reason=_reason(program)))


# What the processes of a session compiled; a unit is there for all that users call.
COMPILED: set[str] = set()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests did not run for want of each program, and the command that brings it; and
    which kernels no unit has.
    """
    if COMPILED:
        names = ", ".join(sorted(COMPILED))
        terminalreporter.write_line(
            f"COMPILED HERE: no vector has these types (python -m scripts.vectors TEST): {names}"
        )
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    for program in PROGRAMS:
        if number := sum(_reason(program) in reason for reason in skipped):
            terminalreporter.write_line(
                f"NOT RUN: {number} tests, which need {program.name}. "
                f"What brings it: {program.brought_by}"
            )


def _needs(item: pytest.Item, program: Program) -> bool:
    return program.fixture in getattr(item, "fixturenames", ()) or bool(
        item.get_closest_marker(f"needs_{program.fixture}")
    )


@cache
def _is_here(program: Program) -> bool:
    return program.is_here()


def _reason(program: Program) -> str:
    return f"needs {program.name}"
