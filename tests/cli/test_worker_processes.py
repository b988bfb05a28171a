"""The parent of several workers: what it starts, passes on, starts again and gives up."""

import json
import os
import signal
import sys
import threading
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from slidestat.cli import worker_processes
from slidestat.cli.worker_processes import WorkerProcesses, usable_cores, worker_commands
from slidestat.errors import SlidestatError


def test_each_worker_has_its_folder_and_the_first_one_the_port() -> None:
    """All else is as it was asked for; 0 is a worker a core."""
    asked = [
        "run",
        "t.toml",
        "--workers=3",
        "--data-dir",
        "/d",
        "--web-port",
        "7000",
        "--log",
        "json",
    ]
    commands = worker_commands(asked, 3, Path("/d"), 7_000)
    rest = ["run", "t.toml", *asked[3:]]
    for number, command in enumerate(commands, 1):
        assert command[:4] == [sys.executable, "-P", "-m", "slidestat"]
        port = "7000" if number == 1 else "0"
        own = ["--data-dir", f"/d/worker-{number}", "--web-port", port]
        assert command[4:] == [*rest, *own]
    assert worker_commands(["run", "--workers", "1", "t"], 1, None, None)[0][4:] == ["run", "t"]
    assert len(worker_commands(["run", "t"], 0, None, None)) == usable_cores()


def script(text: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", text, *map(str, arguments)]


DIES_OFTEN = """
import os, pathlib, sys
lives = pathlib.Path(sys.argv[1])
lives.write_text(lives.read_text() + "x" if lives.exists() else "x")
print("answers at http://127.0.0.1:1", flush=True)
if len(lives.read_text()) < 5:
    os.kill(os.getpid(), 9)
print("no newline", end="")
"""


def test_what_dies_is_started_again_after_a_growing_pause(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Twice as long each time, up to a limit, less a random part; what ends well has been asked to
    end.
    """
    caplog.set_level("INFO", logger="slidestat")
    monkeypatch.setattr(worker_processes, "_LONGEST_PAUSE_S", 4.0)
    # A second goes by at each look.
    seconds = count()
    monkeypatch.setattr(worker_processes, "_LOOK_S", 0.01)
    monkeypatch.setattr(worker_processes, "monotonic", lambda: float(next(seconds)))
    WorkerProcesses([script(DIES_OFTEN, tmp_path / n) for n in "ab"]).run()
    told = [r.text for r in caplog.records if getattr(r, "worker", 0) == 2]
    pauses = [float(text.split()[-2]) for text in told[:-1]]
    assert all(most / 2 <= it <= most for it, most in zip(pauses, [1, 2, 4, 4], strict=True))
    assert all("ended by signal 9" in text for text in told[:-1])
    assert told[-1] == "worker 2 was asked to end, and is not started again"
    said = capfd.readouterr().err.splitlines()
    assert said.count("1 | answers at http://127.0.0.1:1") == 5
    assert "2 | no newline" in said
    # The others wait for the first one.
    assert said[0].startswith("1 | ")


REFUSES = "import sys; print(sys.argv[1]); print(sys.argv[2], flush=True); sys.exit(2)"
ANSWERS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("answers at http://127.0.0.1:1", flush=True)
signal.sigwait([signal.SIGTERM])
print("stopping")
sys.exit(int(sys.argv[1]))
"""
STOPPED = json.dumps({"time": "t", "event": "stopped", "error": "No topic.", "advice": "Make it."})


ENDS_ONCE = """
import pathlib, sys
from slidestat.cli import main
from slidestat.errors import EndedError
life = pathlib.Path(sys.argv[1])
def worker():
    if not life.exists():
        life.touch()
        raise EndedError("Its transaction was open for too long.", "Start it again.")
main.app = worker
main.main()
"""


def test_what_only_has_to_be_started_again_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An error after which a worker goes on is no refusal: it is told, and ends nobody else."""
    caplog.set_level("INFO", logger="slidestat")
    monkeypatch.setattr(worker_processes, "_FIRST_PAUSE_S", 0.1)
    WorkerProcesses([script(ENDS_ONCE, tmp_path / "life")]).run()
    told = [record.text for record in caplog.records if hasattr(record, "worker")]
    assert [text.split(", and")[0] for text in told] == [
        "worker 1 ended by exit code 1",
        "worker 1 was asked to end",
    ]
    assert "1 | Its transaction was open for too long." in capfd.readouterr().err


@pytest.mark.parametrize(
    "lines", [("error: No topic.", "what to do: Make it."), (STOPPED, '{"event": "other"}')]
)
def test_a_refusal_ends_all_and_is_raised(
    lines: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Once, with its advice, in text and in JSON; the others end as they do after a signal."""
    refuses = script(REFUSES, *lines)
    with pytest.raises(SlidestatError) as refused:
        WorkerProcesses([script(ANSWERS, 0), refuses, refuses]).run()
    assert (refused.value.message, refused.value.advice) == ("No topic.", "Make it.")
    said = capfd.readouterr().err
    assert "No topic" not in said
    assert "1 | stopping" in said
    with pytest.raises(SlidestatError, match="Worker 1 has refused"):
        WorkerProcesses([script("raise SystemExit(2)")]).run()


def test_lines_of_json_stay_objects(capfd: pytest.CaptureFixture[str]) -> None:
    """With the worker's number as a field."""
    text = """print('{"event": "answers", "text": "answers at http://x"}'); print("{}")"""
    WorkerProcesses([script(text)] * 2).run()
    lines = capfd.readouterr().err.splitlines()
    objects = [json.loads(line) for line in lines if line.startswith('{"')]
    assert sorted(found["worker"] for found in objects) == [1, 2]


@pytest.mark.usefixtures("hangups")
def test_a_closed_terminal_ends_all_as_a_signal_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers are asked to end, and waited for, though nobody can read what they say."""
    ready, ended = tmp_path / "ready", tmp_path / "ended"

    def close() -> None:
        while not ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGHUP)

    read, write = os.pipe()
    os.close(read)
    with open(write, "wb", buffering=0) as nowhere:  # noqa: PTH123 - a pipe's end
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(buffer=nowhere))
        threading.Thread(target=close).start()
        WorkerProcesses([script(LIVES_UNTIL_TOLD, ready, ended)]).run()
    assert ended.exists()


LIVES_UNTIL_TOLD = """
import pathlib, signal, sys
ready, ended = map(pathlib.Path, sys.argv[1:])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("a line that nobody reads", flush=True)
ready.touch()
signal.sigwait([signal.SIGTERM])
print("another one", flush=True)
ended.touch()
"""
