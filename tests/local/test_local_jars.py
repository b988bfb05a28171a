"""Apache Kafka's jars: locked, verified, repaired, and found offline."""

import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from slidestat.errors import SlidestatError
from slidestat.local import jars
from slidestat.local.jars import KAFKA_VERSION, kafka_classpath, locked_jars
from slidestat.user_files import CACHE_VARIABLE

# A process that fetches every jar: from the folder given, and says on standard output which.
_FETCH_FROM_FOLDER = """
import shutil, sys
from pathlib import Path
from slidestat.local import jars

def download(coordinate, repository):
    sys.stdout.write(coordinate + "\\n")  # at once: threads may write, too
    name = "{1}-{2}.jar".format(*coordinate.split(":"))
    return Path(shutil.copy(Path(sys.argv[1], name), repository / name))

jars.download = download
jars.kafka_classpath()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_jars: list[Path]) -> Path:
    """The folder of jars in a full cache of this test's own."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "cache" / f"kafka-{KAFKA_VERSION}"
    folder.mkdir(parents=True)
    for jar in real_jars:
        shutil.copy(jar, folder)
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every connection and every name look-up of this process fail."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_the_lock_lists_kafka_and_what_it_needs() -> None:
    """Every line is one exact artifact with a SHA-256, Kafka and the log binding among them."""
    locked = locked_jars()
    coordinates = [jar.coordinate for jar in locked]
    assert f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}" in coordinates
    assert "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3" in coordinates
    assert len({jar.file_name for jar in locked}) == len(locked)
    for jar in locked:
        assert re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", jar.coordinate)
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)


def test_jars_in_the_cache_are_what_the_lock_says(real_jars: list[Path]) -> None:
    """The class path is the lock's jars in the lock's order, each with the locked content."""
    locked = locked_jars()
    assert [path.name for path in real_jars] == [jar.file_name for jar in locked]
    assert all(jar.is_intact(path) for jar, path in zip(locked, real_jars, strict=True))


@pytest.mark.usefixtures("no_network")
def test_a_full_cache_needs_no_network(cache: Path) -> None:
    """With every jar intact no connection is made and no name looked up."""
    assert {path.parent for path in kafka_classpath()} == {cache}


def test_damaged_jars_are_found_and_fetched_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A truncated, an altered and a missing jar are fetched anew from the registry, no others."""
    truncated, altered, missing = (
        next(cache.glob(f"{name}-[0-9]*.jar"))
        for name in ("jspecify", "kafka-tools-api", "kafka-group-coordinator-api")
    )
    truncated.write_bytes(truncated.read_bytes()[:1000])
    content = bytearray(altered.read_bytes())
    content[500] ^= 1
    altered.write_bytes(content)
    missing.unlink()

    fetched = []
    real_download = jars.download

    def download(coordinate: str, repository: Path) -> Path:
        fetched.append(coordinate)
        return real_download(coordinate, repository)

    monkeypatch.setattr(jars, "download", download)
    kafka_classpath()
    assert {coordinate.split(":")[1] for coordinate in fetched} == {
        "jspecify",
        "kafka-tools-api",
        "kafka-group-coordinator-api",
    }
    assert all(jar.is_intact(cache / jar.file_name) for jar in locked_jars())
    assert not list(cache.glob("fetch-*"))


def test_a_registry_that_fails_now_and_then_is_asked_again(
    cache: Path,
    real_jars: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refusals and wrong content are tried again until the right content comes; a log says at once
    what it waits for.
    """
    monkeypatch.setattr(jars, "_FIRST_PAUSE_S", 0.0)
    damaged = next(cache.glob("re2j-*.jar"))
    damaged.unlink()
    good = next(path for path in real_jars if path.name == damaged.name)
    tries = 0

    def download(_coordinate: str, repository: Path) -> Path:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("refused")
        if tries == 2:
            (repository / good.name).write_bytes(b"an error page")
            return repository / good.name
        return Path(shutil.copy(good, repository))

    monkeypatch.setattr(jars, "download", download)
    kafka_classpath()
    assert tries == 3
    assert capsys.readouterr().err == f"Fetching Apache Kafka {KAFKA_VERSION}\n"
    kafka_classpath()
    assert capsys.readouterr().err == ""
    assert damaged.read_bytes() == good.read_bytes()


def test_a_registry_that_never_answers_is_an_error_with_advice(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last try the error names the artifact and what to check; nothing half is kept."""
    monkeypatch.setattr(jars, "_FIRST_PAUSE_S", 0.0)
    next(cache.glob("re2j-*.jar")).unlink()

    def download(_coordinate: str, _repository: Path) -> Path:
        raise ConnectionError("refused")

    monkeypatch.setattr(jars, "download", download)
    with pytest.raises(SlidestatError, match=r"com\.google\.re2j:re2j:1\.8 could not") as caught:
        kafka_classpath()
    assert "Maven Central" in caught.value.advice
    assert not list(cache.glob("re2j-*"))
    assert not list(cache.glob("fetch-*"))


def test_without_the_resolver_nothing_is_tried_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No try would bring it: the command says at once what to install."""
    next(cache.glob("re2j-*.jar")).unlink()
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    monkeypatch.setattr(jars, "_ATTEMPTS", 1_000)
    with pytest.raises(ModuleNotFoundError, match="jgo"):
        kafka_classpath()
    assert not list(cache.glob("fetch-*"))


def test_two_processes_fetch_each_jar_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_jars: list[Path]
) -> None:
    """Of two processes that meet an empty cache at once, one fetches and the other waits."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    command = [sys.executable, "-c", _FETCH_FROM_FOLDER, str(real_jars[0].parent)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    fetched = Counter(line for process in both for line in process.communicate()[0].splitlines())
    assert [process.returncode for process in both] == [0, 0]
    assert fetched == {jar.coordinate: 1 for jar in locked_jars()}
    folder = tmp_path / "cache" / f"kafka-{KAFKA_VERSION}"
    assert all(jar.is_intact(folder / jar.file_name) for jar in locked_jars())


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose root is read-only: it is said, with the variable that names another,
    and so where the folder alone is there.
    """
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(SlidestatError, match="Not a directory") as raised:
        jars.cache_folder()
    assert CACHE_VARIABLE in raised.value.advice
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    (tmp_path / "logs").touch()
    with pytest.raises(SlidestatError, match="logs"):
        jars.log_folder()
