"""Stand-ins for a Java, and ways to see whether a process is gone."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from slidestat.local.jars import kafka_classpath

FakeJava = Callable[..., Path]
AwaitGone = Callable[[int | None], None]

_GONE_TIMEOUT_S = 40.0


@pytest.fixture(scope="session")
def real_jars() -> list[Path]:
    """Apache Kafka's jars in the user's cache, fetched if need be."""
    return kafka_classpath()


@pytest.fixture
def fake_java(tmp_path: Path) -> FakeJava:
    """`fake_java(name, version, then="exit 0", home=None)` makes a Java home of shell script.

    It says that it is `version` and lives in `home` (its own folder), as a Java does when asked;
    asked anything else it runs `then`.
    """

    def make(name: str, version: int, then: str = "exit 0", home: Path | None = None) -> Path:
        folder = tmp_path / name
        launcher = folder / "bin" / "java"
        launcher.parent.mkdir(parents=True)
        launcher.write_text(
            "#!/bin/sh\n"
            'if [ "$1" = -XshowSettings:properties ]; then\n'
            f'  echo "    java.home = {home or folder}" >&2\n'
            f'  echo "    java.specification.version = {version}" >&2\n'
            "  exit 0\n"
            "fi\n"
            f"{then}\n"
        )
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
        return folder

    return make


@pytest.fixture
def await_gone() -> AwaitGone:
    """`await_gone(pid)` returns once that process has ended, and fails if it does not."""

    def is_gone(pid: int) -> bool:
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def wait(pid: int | None) -> None:
        assert pid is not None
        until = time.monotonic() + _GONE_TIMEOUT_S
        while not is_gone(pid):
            if time.monotonic() > until:
                os.kill(pid, 9)
                pytest.fail(f"process {pid} was left behind")
            time.sleep(0.02)

    return wait
