"""Several workers of one group as processes of one parent: `slidestat run --workers N`.

The parent passes on what they log, with the worker's number, and one signal to all of them. A
process that dies is started again, after a pause that grows while it keeps dying. A refusal is the
user's to correct, and would be the same again: it ends them all, and is reported once.

The first worker goes ahead: the others start when it answers. By then topics are made, kernels are
compiled, and what is refused at a start has been refused.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import msgspec

from slidestat.errors import SlidestatError
from slidestat.local.supervisor import die_with_parent
from slidestat.log import log_event
from slidestat.pauses import Pauses

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
# A worker that lived for as long was well: the next pause is the first again.
_WELL_S = 300.0
_LOOK_S = 0.2
_REFUSED = 2
_ANSWERS = b"answers at http"
_REFUSAL = re.compile(rb"(?:error|what to do): (.*)")
# Every process of the machine sees a command line: a registry's password goes by the environment.
_NOT_PASSED_ON = re.compile(r"--(?:workers|schema-registry)(?:=.*)?", re.DOTALL)


class _Stopped(msgspec.Struct, tag_field="event", tag="stopped"):
    """A refusal, as a line of JSON has it."""

    error: str
    advice: str


@dataclass
class _Worker:
    """A process, or the next one from `due` on, unless `is_done`; and the refusal it logged."""

    number: int
    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    is_done: bool = False
    due: float = 0.0
    started: float = 0.0
    pauses: Pauses = field(default_factory=lambda: Pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S))
    unread: bytes = b""
    refusal: list[str] = field(default_factory=list)


def worker_commands(
    arguments: Sequence[str], count: int, data_dir: Path | None, web_port: int | None
) -> list[list[str]]:
    """Return the command of each of `count` workers, or one a core if that is 0, from the
    `arguments` that they were asked for with, but the registry's address: they have it from the
    environment. Each has a folder of its own in `data_dir`; the first one has the web port, and the
    others answer at any.
    """
    rest = iter(arguments)
    own = []
    for argument in rest:
        if argument in ("--workers", "--schema-registry"):
            next(rest)
        elif not _NOT_PASSED_ON.fullmatch(argument):
            own.append(argument)
    commands = []
    for number in range(1, (count or usable_cores()) + 1):
        command = [sys.executable, "-P", "-m", "slidestat", *own]
        if data_dir is not None:
            command += ["--data-dir", str(data_dir / f"worker-{number}")]
        if number > 1:
            command += ["--web-port", "0"]
        elif web_port is not None:
            command += ["--web-port", str(web_port)]
        commands.append(command)
    return commands


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux; it knows of containers' sets.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class WorkerProcesses:
    """A group of processes, one a command. One signal ends all, a second one ends them at once."""

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self._workers = [_Worker(number, own) for number, own in enumerate(commands, 1)]
        self._selector = selectors.DefaultSelector()
        self._first_answers = False
        self._is_stopping = False
        self._refusal: list[str] | None = None
        self._worst = 0
        self._in_child = die_with_parent(signal.SIGTERM)

    def run(self) -> None:
        """Return when all have ended. Raises SlidestatError for what one of them has refused, and
        SystemExit where one ended badly after the signal.
        """
        with self._selector, self._signals():
            while any(w.process or not (w.is_done or self._is_stopping) for w in self._workers):
                self._start_those_due()
                for key, _ in self._selector.select(_LOOK_S):
                    self._read(key.data)
        if self._refusal is not None:
            raise SlidestatError(*self._refusal)
        if self._worst:
            sys.exit(self._worst)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
            numbers.append(signal.SIGHUP)
        before = [signal.signal(number, lambda *_: self._stop()) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _stop(self) -> None:
        self._is_stopping = True
        for worker in self._workers:
            if worker.process is not None:
                worker.process.terminate()

    def _start_those_due(self) -> None:
        for worker in self._workers if self._first_answers else self._workers[:1]:
            waits = worker.process or worker.is_done or monotonic() < worker.due
            if waits or self._is_stopping:
                continue
            worker.started = monotonic()
            worker.process = subprocess.Popen(  # noqa: S603  our own command
                worker.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # A terminal's Ctrl-C is sent to us, and once to each.
                preexec_fn=self._in_child,  # Safe: this process has one thread.
            )
            self._selector.register(_pipe(worker), selectors.EVENT_READ, worker)
            if self._is_stopping:  # The signal came while it was being started.
                worker.process.terminate()

    def _read(self, worker: _Worker) -> None:
        pipe = _pipe(worker)
        chunk = os.read(pipe, 1 << 16)
        *lines, worker.unread = (worker.unread + chunk).split(b"\n")
        if not chunk:
            lines, worker.unread = [*lines, *filter(None, [worker.unread])], b""
        for line in lines:
            self._pass_on(worker, line)
        if not chunk and worker.process is not None:
            self._selector.unregister(pipe)
            with worker.process:  # Closes the pipe as well.
                status = worker.process.wait()
            worker.process = None
            self._ended(worker, status)

    def _pass_on(self, worker: _Worker, line: bytes) -> None:
        """Log a line; a refusal is held until the worker ends."""
        self._first_answers |= _ANSWERS in line
        refusal = _refusal_in(line)
        if not refusal or (self._is_stopping and self._refusal is None):
            _tell_line(worker, line)
        worker.refusal += refusal

    def _ended(self, worker: _Worker, status: int) -> None:
        refusal, worker.refusal = worker.refusal, []
        if self._is_stopping:
            # The worker may get the signal before it has its handlers.
            asked = (-signal.SIGTERM, -signal.SIGINT)
            code = 0 if status in asked else status if status >= 0 else 128 - status
            self._worst = max(self._worst, code)
        elif status == _REFUSED:
            self._refusal = refusal[:2] or [f"Worker {worker.number} has refused to run."]
            self._stop()
        elif status == 0:
            worker.is_done = self._first_answers = True
            self._tell("worker ended", worker, "was asked to end, and is not started again")
        else:
            for text in refusal:
                _tell_line(worker, text.encode())
            if monotonic() - worker.started >= _WELL_S:
                worker.pauses.reset()
            pause_s = worker.pauses.begin()
            worker.due = monotonic() + pause_s
            how = f"exit code {status}" if status > 0 else f"signal {-status}"
            again = f"ended by {how}, and is started again in {pause_s:.1f} s"
            self._tell("worker ended", worker, again)

    def _tell(self, event: str, worker: _Worker, text: str) -> None:
        log_event(event, f"worker {worker.number} {text}", worker=worker.number)


def _pipe(worker: _Worker) -> int:
    assert worker.process is not None  # noqa: S101  It is asked of those that run alone.
    assert worker.process.stdout is not None  # noqa: S101
    return worker.process.stdout.fileno()


def _refusal_in(line: bytes) -> list[str]:
    """Return the error and the advice of a line, or one of them."""
    if found := _REFUSAL.fullmatch(line):
        return [found[1].decode(errors="replace")]
    try:
        stopped = msgspec.json.decode(line, type=_Stopped)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return [stopped.error, stopped.advice]


def _tell_line(worker: _Worker, line: bytes) -> None:
    """Pass a line on, with the worker's number: in front of a text, in an object of JSON."""
    if line.startswith(b"{") and len(line) > 2:
        written = b'{"worker": %d, %b' % (worker.number, line[1:])
    else:
        written = b"%d | %b" % (worker.number, line)
    # Where nobody reads any more, as of a terminal that was closed, workers go on, or end in peace.
    with suppress(OSError):
        sys.stderr.buffer.write(written + b"\n")
        sys.stderr.buffer.flush()
