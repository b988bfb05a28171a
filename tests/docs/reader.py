"""A reader who types what a document says: commands in a folder of their own, at a real broker."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from platformdirs import user_cache_path
from typer.testing import CliRunner

from slidestat.cli.main import app
from tests.docs.markdown import ROOT, blocks

COMMAND_S = 120.0
READY_S = 200.0
ANSWER_S = 60.0
STOP_S = 30.0
# What a terminal shows meanwhile.
LOOK_S = 2.0


class Reader:
    """A shell with `slidestat` and `python` of this environment; what runs on is ended at the end.
    `printed` is what each command that ended has printed.

    `preparations` maps the beginning of a command to what the text around it says to do before.
    """

    def __init__(
        self, place: Path, bootstrap: str, preparations: "Mapping[str, Callable[[Reader], None]]"
    ) -> None:
        home, folder = place / "home", place / "folder"
        self.folder = folder
        self.printed: dict[str, str] = {}
        self._preparations = preparations
        self._running: list[tuple[str, subprocess.Popen[bytes], Path]] = []
        programs = home / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        # -P: a folder `app` below the reader's is data.
        for name, started in (("slidestat", "-P -m slidestat"), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {started} "$@"\n')
            program.chmod(0o755)
        self._environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(user_cache_path()),
            "XDG_DATA_HOME": str(home / "data"),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "app"),
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        }
        demo = Path("app", "slidestat", "demo")
        (folder / demo).mkdir(parents=True)
        (folder / demo / "data").symlink_to(ROOT / demo / "data")

    def write_files(self, document: Path) -> None:
        """The document's named blocks, each in its file."""
        for block in blocks(document):
            if "." in block.name:
                (self.folder / block.name).write_text(block.text, "utf-8")

    def follow(self, command: str) -> None:
        """Run a command to its end, or for a look; AssertionError if it is refused."""
        for beginning, prepare in self._preparations.items():
            if command.startswith(beginning):
                prepare(self)
        if command.startswith("slidestat run "):
            self._await_ready(self._start(command))
        elif command.startswith("slidestat watch ") and "--once" not in command:
            self._look(command)
        elif command.startswith("slidestat query "):
            self._run_until_answered(command)
        elif command.startswith("curl "):
            self._fetch(command)
        else:
            done = self.run(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            self.printed[command] = done.stdout

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """To its end; a question is answered with yes."""
        return subprocess.run(
            # The shell must stay: `--install-completion` looks for the one that it is typed in.
            ["bash", "-c", f"{command}\nexit $?"],
            cwd=self.folder,
            env=self._environment,
            input="y\n",
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )

    def await_lines(self, command: str, lines: int) -> None:
        """Return once the command has so many of them to print."""
        deadline = time.monotonic() + ANSWER_S
        while len(self.run(command).stdout.splitlines()) < lines:
            assert time.monotonic() < deadline, f"{command}: less than {lines} lines"

    def parse(self, command: str) -> None:
        """Only see that the command line takes these arguments: help comes after all of them.
        This needs no process of its own.
        """
        _, *arguments = shlex.split(command)
        done = CliRunner().invoke(app, [*arguments, "--help"])
        assert done.exit_code == 0, f"{command}\n{done.output}"

    def _start(self, command: str) -> int:
        said = self.folder / f"said-{len(self._running)}.txt"
        with said.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._running.append((command, process, said))
        return len(self._running) - 1

    def _await_ready(self, number: int) -> None:
        command, process, said = self._running[number]
        deadline = time.monotonic() + READY_S
        while "ready, partitions" not in said.read_text():
            assert process.poll() is None, f"{command}\n{said.read_text()}"
            assert time.monotonic() < deadline, f"{command}\n{said.read_text()}"
            time.sleep(0.1)

    def _look(self, command: str) -> None:
        number = self._start(command)
        _, process, said = self._running[number]
        # Ctrl-C while Python loads is another matter: it has loaded once it asks the broker.
        deadline = time.monotonic() + READY_S
        while process.poll() is None and not psutil.Process(process.pid).net_connections():
            assert time.monotonic() < deadline, command
            time.sleep(0.1)
        time.sleep(LOOK_S)
        assert process.poll() is None, f"{command}\n{said.read_text()}"
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_S) in (0, 130, -signal.SIGINT), said.read_text()

    def _run_until_answered(self, command: str) -> None:
        """A worker that has just begun may not have come to the key yet."""
        deadline = time.monotonic() + ANSWER_S
        while (done := self.run(command)).returncode:
            assert time.monotonic() < deadline, f"{command}\n{done.stderr}"
            time.sleep(0.5)

    def _fetch(self, command: str) -> None:
        """Documents name the port that a worker takes if it is free."""
        (url,) = shlex.split(command)[1:]
        said = "".join(said.read_text() for _, _, said in self._running)
        found = re.findall(r"answers at (http://[^\s\"]+)", said)
        assert found, said
        address = url.replace("http://127.0.0.1:6066", found[-1])
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - of a worker started here
            assert answer.status == 200

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        for _, process, _ in self._running:
            if process.poll() is None:
                process.terminate()
        for command, process, said in self._running:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"{command}\n{said.read_text()}") from None
