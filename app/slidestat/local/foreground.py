"""The broker in the foreground of a terminal, until Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from rich.console import Console

from slidestat.errors import SlidestatError
from slidestat.local.broker import LocalBroker
from slidestat.local.jars import kafka_classpath
from slidestat.local.settings import HOST, is_free
from slidestat.options import BROKER_PORT

_LOOK_AGAIN_S = 0.5


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
            while not asked.wait(_LOOK_AGAIN_S):
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
