"""A real Apache Kafka broker on this machine, without Docker: one KRaft node on loopback ports.

It runs below a supervisor, a process that ends it with this one: `SupervisedProcess` is the
parent's side.
"""

import fcntl
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex, token_urlsafe
from threading import Event
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from slidestat.errors import SlidestatError
from slidestat.local import supervisor
from slidestat.local.jars import kafka_classpath, log_folder
from slidestat.local.java import find_java
from slidestat.local.settings import HOST, is_free, java_command, pick_free_ports, server_properties
from slidestat.options import BROKER_PORT

_SUPERVISOR = Path(supervisor.__file__)
_LONGEST_END_S = 45.0  # the supervisor grants 30 s before it kills


class SupervisedProcess:
    """A process, one at a time, run by a supervisor that ends it when we end, however we end.

    `folder`, if given, is made by the supervisor and removed by it at the end. `held_open` is a
    file descriptor that supervisor and process keep open as long as they live. Raises
    SlidestatError when the supervisor cannot start or cannot make the folder.
    """

    def __init__(self, folder: Path | None = None, held_open: int | None = None) -> None:
        self._folder = folder
        held = [str(held_open)] if held_open is not None else []
        self._supervisor = subprocess.Popen(  # noqa: S603 - our own script, no shell
            # isolated, and without site-packages: nothing a user installs may slow its start
            [sys.executable, "-I", "-S", _SUPERVISOR, str(os.getpid()), folder or "", *held],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's signals go to us, and we decide
            bufsize=0,
            pass_fds=[held_open] if held_open is not None else [],
            env=_environment(),
        )
        self._unread = b""
        self._status: int | None = None
        self.pid: int | None = None
        """The process, None while there is none."""
        self._ready = False
        while not self._ready and self._status is None:
            self._hear(None)
        if not self._ready:
            self.close()
            raise SlidestatError(
                f"The supervisor of the broker could not start or not make {folder}.",
                "Look at the message above, and check that the folder above can be written.",
            )

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor.pid

    def run(self, argv: Sequence[str | Path], log: Path) -> None:
        """Start a process, its output appended to `log`; `wait` returns at its end."""
        self._status = None
        self._tell({"run": [str(argument) for argument in argv], "log": str(log)})
        while self.pid is None and self._status is None:
            self._hear(None)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end of the process: its status, negative for a signal; None if it runs on.

        A supervisor that died counts as SIGKILL, for that is what the process then got.
        """
        until = time.monotonic() + timeout_s
        while self._status is None:
            left = until - time.monotonic()
            self._hear(max(0.0, left))
            if left <= 0:
                break
        return self._status

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process a signal; nothing if it has ended, never to another with its id."""
        self._tell({"signal": int(number)})

    def close(self) -> None:
        """End the process and the supervisor, remove the folder; may be called again."""
        self._tell({"stop": True})
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._supervisor.wait(_LONGEST_END_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        if self._folder is not None:  # a supervisor that was killed could not
            shutil.rmtree(self._folder, ignore_errors=True)
        self.pid = None

    def _tell(self, command: dict[str, object]) -> None:
        pipe = self._supervisor.stdin
        if pipe is None or pipe.closed:
            return
        try:
            os.write(pipe.fileno(), json.dumps(command).encode() + b"\n")
        except BrokenPipeError:  # `wait` returns how the process ended
            return

    def _hear(self, timeout_s: float | None) -> None:
        """Read the next piece of the supervisor's report, if there is one in time."""
        pipe = self._supervisor.stdout
        if pipe is None or pipe.closed:
            self._ended(-signal.SIGKILL)
            return
        ready, _, _ = select.select([pipe], [], [], timeout_s)
        if not ready:
            return
        chunk = os.read(pipe.fileno(), 4096)
        if not chunk:
            self._ended(-signal.SIGKILL)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for event in map(json.loads, lines):
            if "started" in event:
                self.pid = event["started"]
            elif "ready" in event:
                self._ready = True
            elif "exited" in event:
                self._ended(event["exited"])

    def _ended(self, status: int) -> None:
        self.pid = None
        self._status = status


def _environment() -> dict[str, str]:
    """Return our environment, with a UTF-8 locale, without which the JVM reads ASCII paths only."""
    if any(name in os.environ for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        return dict(os.environ)
    return {**os.environ, "LC_ALL": "C.UTF-8"}


# One broker at a time may use a data folder.
#
# Kafka locks its folder as well, but only after a second broker's controller has already written to
# the metadata log of the first (seen with 4.1.1: the first one then never ended cleanly).


def lock_data_folder(folder: Path) -> int:
    """Lock the folder; return the open file descriptor that holds the lock.

    The lock lasts until every process that was handed the descriptor has closed it or ended: so
    until the JVM is gone, even if it outlives us. Raises SlidestatError when another one has it.
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise SlidestatError(
            f"Another broker uses the data folder {folder}.",
            "Stop it and wait until it has ended, or choose another folder.",
        ) from None
    return descriptor


# Wait until a broker answers a real client.

_LOOK_AGAIN_S = 0.05
_CONNECT_TIMEOUT_S = 1.0
_ANSWER_TIMEOUT_S = 5.0

# the client's complaints while the broker does not answer yet are expected
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class BrokerEndedError(Exception):
    """An error of a broker that ended before it answered; `status` is negative for a signal."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


def await_broker(
    process: SupervisedProcess, bootstrap_servers: str, cluster_id: str, timeout_s: float
) -> None:
    """Return once a client sees the cluster with this id, and its broker, at the address.

    The id is compared because another broker may listen there, while ours is failing to.
    Raises BrokerEndedError when the process ends first, TimeoutError when the time is up.
    """
    until = time.monotonic() + timeout_s
    while not _answers(bootstrap_servers, cluster_id):
        status = process.wait(_LOOK_AGAIN_S)
        if status is not None:
            raise BrokerEndedError(status)
        if time.monotonic() > until:
            raise TimeoutError


def _answers(bootstrap_servers: str, cluster_id: str) -> bool:
    # a plain connection first: a client made too early pauses longer and longer between tries
    host, _, port = bootstrap_servers.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0}, logger=_silent)
    try:
        cluster = client.list_topics(timeout=_ANSWER_TIMEOUT_S)
    except KafkaException:
        return False
    return bool(cluster.cluster_id == cluster_id and cluster.brokers)


_BIND_TRIES = 5
_FORMAT_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_LAST_LINES = 15


class _PortTakenError(Exception):
    """An error of a port that another process took between its choice and its use."""


class LocalBroker:
    """An Apache Kafka broker that ends when this process ends, even by SIGKILL.

        with LocalBroker() as broker:
            Producer({"bootstrap.servers": broker.bootstrap_servers})

    Without `data_dir` the data is in a temporary folder, removed by `stop`; a folder given by the
    caller keeps topics and offsets for the next start. Without `port` a free one is chosen.
    `secured_protocols` (SSL, SASL_PLAINTEXT, SASL_SSL) get a port each in addition to the plain
    one, and `secured_settings` are the broker's own for them. A start takes 2 to 3 s, a restart 2
    s, after `kill` 5 s; 300 MB of memory. Not for use by several threads.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        port: int | None = None,
        ready_timeout_s: float = 60.0,
        secured_protocols: Sequence[str] = (),
        secured_settings: Mapping[str, str] | None = None,
    ) -> None:
        self._is_temporary = data_dir is None
        if data_dir is None:
            self._folder = Path(tempfile.gettempdir(), f"slidestat-broker-{token_hex(6)}")
            self._log_path = log_folder() / f"{self._folder.name}.log"
        else:
            self._folder = data_dir.absolute()
            self._log_path = self._folder / "broker.log"
        self._fixed_port = port
        self._ready_timeout_s = ready_timeout_s
        self._secured_settings = secured_settings or {}
        self._secured_ports = dict.fromkeys(secured_protocols, 0)
        self._ports: tuple[int, int] | None = None
        self._process: SupervisedProcess | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address `127.0.0.1:port`; the same through `kill` and `restart`."""
        if self._ports is None:
            raise RuntimeError("the broker was not started")
        return f"{HOST}:{self._ports[0]}"

    def secured_servers(self, protocol: str) -> str:
        """Return a further listener's `127.0.0.1:port`; the same through `kill` and `restart`."""
        return f"{HOST}:{self._secured_ports[protocol]}"

    @property
    def log_path(self) -> Path:
        """The broker's log file; it stays after `stop`, for a week where the data is temporary."""
        return self._log_path

    @property
    def pid(self) -> int | None:
        """The JVM's process id, None when it does not run."""
        self.is_running()
        return self._process.pid if self._process else None

    @property
    def supervisor_pid(self) -> int | None:
        """The process id of the supervisor, which starts and ends the JVM."""
        return self._process.supervisor_pid if self._process else None

    def is_running(self) -> bool:
        """Return whether the JVM is alive now."""
        return self._process is not None and self._process.wait(0) is None

    def start(self) -> None:
        """Start the broker and return once it answers a client.

        Raises SlidestatError when there is no Java or no jars, when the port given is taken,
        or when the broker ends or does not answer in time: then with its log's last lines.
        """
        if self._process is not None:
            raise RuntimeError("the broker was started already")
        self._java = find_java().executable
        self._classpath = kafka_classpath()
        try:
            self._process = self._supervise()
            for _ in range(_BIND_TRIES):
                self._ports = self._choose_ports()
                try:
                    self._run_kafka(self._process, self._ports)
                except _PortTakenError:
                    continue
                return
            raise SlidestatError(
                f"The ports chosen for the broker were taken each of {_BIND_TRIES} times.",
                "Name a port that stays free.",
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the broker; remove its data if that is temporary. May be called again."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def kill(self) -> None:
        """Kill the JVM with SIGKILL, as a crash would; data and ports stay for `restart`."""
        self._signal_and_wait(signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same ports and data, after a clean end if it still runs.

        Raises SlidestatError as `start` does, also when another process took a port meanwhile.
        """
        if self._process is None or self._ports is None:
            raise RuntimeError("the broker was not started")
        self._signal_and_wait(signal.SIGTERM)
        try:
            self._run_kafka(self._process, self._ports)
        except _PortTakenError:
            self.stop()
            raise _port_taken(self._ports[0]) from None
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _supervise(self) -> SupervisedProcess:
        """Make the folder that holds the broker's files, and the supervisor."""
        if self._is_temporary:
            return SupervisedProcess(self._folder)
        if "," in str(self._folder):
            raise SlidestatError(
                f"The data folder {self._folder} has a comma in its path, where Kafka separates "
                "folders.",
                "Choose a folder without a comma.",
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = lock_data_folder(self._folder)
        except OSError as error:
            raise SlidestatError(
                f"The data folder {self._folder} cannot be used: {error.strerror}.",
                "Choose a folder that you may write to.",
            ) from None
        try:
            return SupervisedProcess(held_open=lock)
        finally:
            os.close(lock)

    def _choose_ports(self) -> tuple[int, int]:
        if self._fixed_port is not None and not is_free(self._fixed_port):
            raise _port_taken(self._fixed_port)
        broker, controller, *secured = pick_free_ports(2 + len(self._secured_ports))
        self._secured_ports = dict(zip(self._secured_ports, secured, strict=True))
        return self._fixed_port or broker, controller

    def _run_kafka(self, process: SupervisedProcess, ports: tuple[int, int]) -> None:
        """Format the storage unless that was done, start Kafka, wait for its answer."""
        data, scratch = self._folder / "kafka", self._folder / "tmp"
        scratch.mkdir(exist_ok=True)
        settings = self._folder / "server.properties"
        settings.write_text(
            server_properties(*ports, data, self._secured_ports, self._secured_settings), "ascii"
        )
        log_start = self.log_path.stat().st_size if self.log_path.exists() else 0

        def run(*main: str | Path) -> None:
            process.run(java_command(self._java, self._classpath, scratch, main), self.log_path)

        cluster_id = _cluster_id(data)
        if cluster_id is None:
            # a first character of "-" would look like an option
            cluster_id = "K" + token_urlsafe(16)[1:]
            run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", settings)
            status = process.wait(_FORMAT_TIMEOUT_S)
            if status != 0:
                raise self._failure("could not format its storage", log_start)
        run("kafka.Kafka", settings)
        try:
            await_broker(process, self.bootstrap_servers, cluster_id, self._ready_timeout_s)
        except BrokerEndedError as ended:
            if "Address already in use" in self._log_since(log_start):
                raise _PortTakenError from None
            raise self._failure(f"ended with status {ended.status}", log_start) from None
        except TimeoutError:
            raise self._failure(
                f"did not answer within {self._ready_timeout_s:.0f} s", log_start
            ) from None

    def _signal_and_wait(self, number: signal.Signals) -> None:
        """Send the JVM a signal and wait for its end; SIGKILL it when it takes too long."""
        if self._process is None:
            return
        self._process.send_signal(number)
        if self._process.wait(_STOP_TIMEOUT_S) is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(_STOP_TIMEOUT_S)

    def _log_since(self, start: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def _failure(self, what: str, log_start: int) -> SlidestatError:
        lines = "\n".join(self._log_since(log_start).splitlines()[-_LAST_LINES:])
        return SlidestatError(
            f"The local Kafka broker {what}.", f"Read its log, {self.log_path}; it ends:\n{lines}"
        )


def _cluster_id(data: Path) -> str | None:
    """Return the id of the cluster that formatted this folder, None if none did."""
    try:
        lines = (data / "meta.properties").read_text("ascii").splitlines()
    except FileNotFoundError:
        return None
    return dict(line.split("=", 1) for line in lines if "=" in line).get("cluster.id")


def _port_taken(port: int) -> SlidestatError:
    return SlidestatError(
        f"Port {port} of {HOST} is used by another process, or this user may not take it.",
        "Stop that process, or name another port, above 1023.",
    )


_LOOK_S = 0.5


def run_in_foreground(port: int | None, data_dir: Path | None) -> None:
    """Run a broker until SIGINT or SIGTERM, then end it cleanly; from the main thread only.

    Without `port` it listens on 9092 if that is free, else on another port, which is printed.
    Without `data_dir` its topics are gone when it ends. Raises SlidestatError when the broker
    cannot start, or ends by itself.
    """
    console = Console(highlight=False)
    with _asked_to_stop() as asked:
        kafka_classpath()  # with a bar, outside of the spinner: the first time this takes a while
        broker = LocalBroker(data_dir, _port_to_use(port, console))
        try:
            with console.status("Starting Apache Kafka"):
                broker.start()
            _introduce(broker, data_dir, console)
            while not asked.wait(_LOOK_S):
                if not broker.is_running():
                    raise SlidestatError(
                        "The broker ended by itself.", f"Read its log: {broker.log_path}"
                    )
            console.print("Stopping the broker")
        finally:
            broker.stop()


@contextmanager
def _asked_to_stop() -> Iterator[Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; a second one interrupts as usual."""
    asked = Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(*_: object) -> None:
        asked.set()
        restore()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield asked
    finally:
        restore()


def _port_to_use(port: int | None, console: Console) -> int | None:
    if port is not None or is_free(BROKER_PORT):
        return port or BROKER_PORT
    console.print(f"Port {BROKER_PORT} of {HOST} is in use, so another one is taken")
    return None


def _introduce(broker: LocalBroker, data_dir: Path | None, console: Console) -> None:
    kept = f"{data_dir.absolute()}" if data_dir else "temporary, gone when the broker ends"
    console.print("[bold]Apache Kafka is ready[/bold]")
    # soft: a path broken over two lines cannot be copied
    console.print(f"  broker  {broker.bootstrap_servers}", soft_wrap=True)
    console.print(f"  data    {kept}", soft_wrap=True, markup=False)
    console.print(f"  log     {broker.log_path}", soft_wrap=True, markup=False)
    console.print("In another terminal:")
    console.print(f"  export KAFKA_BOOTSTRAP_SERVERS={broker.bootstrap_servers}", soft_wrap=True)
    console.print("Ctrl-C ends the broker")
