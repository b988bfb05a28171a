"""Locked jars, fetched once into the user's cache folder and checked at every start.

A lock is a file with one line for each jar, `SHA-256  group:artifact:version`. So nothing is
resolved on a user's machine: exactly these files are fetched, and a file with any other content is
refused. `kafka-4.1.1.sha256` in this file's folder has `org.apache.kafka:kafka_2.13:4.1.1` with its
runtime dependencies, and a log4j binding for SLF4J 1.
"""

import hashlib
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from slidestat import user_files
from slidestat.errors import SlidestatError
from slidestat.pauses import Pauses

# Where the local broker keeps what outlives a run: downloaded jars and log files.

_LOG_AGE_S = 7 * 24 * 3600


def cache_folder() -> Path:
    """Return the cache folder, made if missing; raises SlidestatError where it cannot be made."""
    return _made(user_files.cache_folder())


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SlidestatError(
            f"The folder {folder} for what is kept cannot be made: {error.strerror}.",
            f"Name one that can be written in {user_files.CACHE_VARIABLE}.",
        ) from error
    return folder


def log_folder() -> Path:
    """Return the folder for logs of brokers whose data is temporary; drops logs older than a week.

    The logs are not in the data's folder, because that is removed when the broker fails, which is
    when somebody wants to read the log.
    """
    folder = _made(cache_folder() / "logs")
    oldest = time.time() - _LOG_AGE_S
    for log in folder.glob("*.log"):
        try:
            if log.stat().st_mtime < oldest:
                log.unlink()
        except FileNotFoundError:  # another process tidies up at the same time
            continue
    return folder


KAFKA_VERSION = "4.1.1"
LOCK_FILE = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.sha256")

_ATTEMPTS = 6
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 20.0
_REQUEST_TIMEOUT_S = 30
_DOWNLOADS_AT_ONCE = 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Jar:
    """A locked jar: its Maven coordinate `group:artifact:version` and the SHA-256 in hex."""

    coordinate: str
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    def is_intact(self, path: Path) -> bool:
        """Return whether `path` is a file with the locked content."""
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


def locked_jars(lock_file: Path = LOCK_FILE) -> list[Jar]:
    """Return the jars that a lock file lists, in its order, which is also the class path's."""
    lines = lock_file.read_text("ascii").splitlines()
    return [Jar(coordinate, sha256) for sha256, coordinate in map(str.split, lines)]


def kafka_classpath() -> list[Path]:
    """Return the paths of Apache Kafka's jars; see `fetched_jars`. They have 44 MB."""
    return fetched_jars(LOCK_FILE, f"Apache Kafka {KAFKA_VERSION}")


def fetched_jars(lock_file: Path, title: str) -> list[Path]:
    """Return the paths of a lock's jars, every one verified; fetch those not intact.

    With all jars intact this opens no connection and costs one hash of them (44 MB: 0.1 s).
    Two processes may call it at once: one fetches, the other waits. On standard error is a bar
    named by `title`, or a line where that is no terminal. Raises SlidestatError when a jar cannot
    be had after several tries with growing pauses.
    """
    jars = locked_jars(lock_file)
    folder = cache_folder() / lock_file.stem
    if _missing(jars, folder):
        folder.mkdir(exist_ok=True)
        with FileLock(cache_folder() / f"{lock_file.stem}.lock"):
            # another process may have fetched them while this one waited for the lock
            _fetch_all(_missing(jars, folder), folder, title)
    return [folder / jar.file_name for jar in jars]


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not jar.is_intact(folder / jar.file_name)]


def _fetch_all(jars: Sequence[Jar], folder: Path, title: str) -> None:
    if not jars:
        return
    progress = Progress(
        TextColumn(f"Fetching {title}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jars"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    if progress.disable:  # A log shows no bar, and half a minute without a word looks like a fault.
        print(f"Fetching {title}", file=sys.stderr)
    # the lock is held, so a half fetched file was left by an earlier, killed process
    for stale in folder.glob("fetch-*"):
        shutil.rmtree(stale)
    with (
        tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch,
        progress,
        ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool,
    ):
        bar = progress.add_task("jars", total=len(jars))
        given_up = Event()
        fetch = partial(_fetch, folder=folder, scratch=Path(scratch), given_up=given_up)
        try:
            for _ in pool.map(fetch, jars):
                progress.advance(bar)
        except BaseException:
            given_up.set()  # one jar short is enough to fail: the others need not try on
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(jar: Jar, folder: Path, scratch: Path, given_up: Event) -> None:
    """Fetch one jar, verify it, and only then give it its name in `folder`."""
    reason = ""
    pauses = Pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    for attempt in range(_ATTEMPTS):
        if attempt and given_up.wait(pauses.begin()):
            return
        # a repository of its own for each try: the resolver trusts whatever file it finds there
        repository = Path(tempfile.mkdtemp(dir=scratch))
        try:
            fetched = download(jar.coordinate, repository)
        except ModuleNotFoundError:  # Without the resolver no try succeeds.
            raise
        except Exception as error:  # noqa: BLE001 - the resolver names no types of its own
            reason = type(error).__name__
            _log.debug("fetching %s failed", jar.coordinate, exc_info=True)
            continue
        if jar.is_intact(fetched):
            fetched.replace(folder / jar.file_name)
            return
        reason = "its content is not the expected one"
    raise SlidestatError(
        f"{jar.coordinate} could not be fetched after {_ATTEMPTS} tries (last: {reason}).",
        "Check that this machine reaches Maven Central, directly or by its proxy settings, "
        "and try again: what was fetched is kept.",
    )


def download(coordinate: str, repository: Path) -> Path:
    """Download one artifact from Maven Central into `repository`, which is empty."""
    # here, because importing the resolver takes 0.5 s, and most starts need no download
    from jgo.maven import MavenContext, PythonResolver

    context = MavenContext(
        resolver=PythonResolver(), repo_cache=repository, timeout=_REQUEST_TIMEOUT_S
    )
    path: Path = context.create_dependency(coordinate).artifact.resolve()
    return path
