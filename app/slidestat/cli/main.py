"""The command line `slidestat`: a function a command, each a thin cover of what does the work.

Each command imports its modules in its own function, so that `slidestat --help` answers at once.
"""

import codecs
import errno
import inspect
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from traceback import format_exception
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from slidestat.addresses import keep_secrets_of
from slidestat.cli.init import init
from slidestat.cli.operations import alertmanager, dlq_app, doctor, replay, seed, topics_app
from slidestat.cli.options import OneObject, TopologyArgument
from slidestat.cli.produce import produce
from slidestat.cli.query import mcp, query, top, watch
from slidestat.cli.run import run
from slidestat.cli.spark import app as spark_app
from slidestat.errors import SlidestatError
from slidestat.options import BOOTSTRAP_VARIABLE, BROKER_PORT, SchemaForm
from slidestat.redaction import RedactedRecord, redacted

# No room: on a disk, in a quota, in a file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Commands(TyperGroup):
    """The commands; errors about unknown arguments show no secret in them."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Read the arguments."""
        with _without_secrets():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of a command, and run it."""
        with _without_secrets():
            return super().invoke(ctx)


@contextmanager
def _without_secrets() -> Iterator[None]:
    try:
        yield
    except TyperException as error:
        if isinstance(said := getattr(error, "message", None), str):
            error.message = redacted(said)
        raise


app = typer.Typer(
    name="slidestat",
    cls=_Commands,
    help="Sliding-window statistics of keyed Kafka topics, each figure with bounds that hold.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topics_app, name="topics")
topology_app = typer.Typer(help="Look at what a topology means.", no_args_is_help=True)
app.add_typer(topology_app, name="topology")
app.add_typer(dlq_app, name="dlq")
app.add_typer(spark_app, name="spark")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"slidestat {version('slidestat')}")
        raise typer.Exit


@app.callback()
def _slidestat(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def broker(
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65_535,
            help=f"Port of 127.0.0.1; {BROKER_PORT} or a free one by default.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep topics here; without it they end with the broker.")
    ] = None,
) -> None:
    """Run an Apache Kafka broker on this machine until Ctrl-C.

    Example: slidestat broker --port 9092
    """
    from slidestat.local.broker import run_in_foreground

    run_in_foreground(port, data_dir)


for _command in (produce, init, doctor, run, replay, seed, alertmanager, mcp):
    app.command()(_command)


@topology_app.command("show")
def topology_show(
    topology: TopologyArgument,
    as_json: OneObject = False,
    strimzi: Annotated[
        int | None,
        typer.Option(
            metavar="PARTITIONS",
            min=1,
            help="Instead, Strimzi's resources for its topics and its user, for a source with so"
            " many partitions.",
        ),
    ] = None,
    asyncapi: Annotated[
        bool,
        typer.Option(
            "--asyncapi", help="Instead, an AsyncAPI document of its topics and their records."
        ),
    ] = False,
) -> None:
    """Show a topology's topics, windows, statistics with their errors, and memory a key.

    Example: slidestat topology show flights

    Example: slidestat topology show orders.toml --strimzi 12 > orders.json

    Example: slidestat topology show orders.toml --asyncapi > asyncapi.json
    """
    import msgspec

    from slidestat.cli.display.topology import show_topology, topology_object
    from slidestat.declare.forms.files import load_topology

    if as_json + asyncapi + (strimzi is not None) > 1:
        raise SlidestatError(
            "--json, --strimzi and --asyncapi print different documents.", "Give one of them."
        )
    if strimzi is not None or asyncapi:
        from slidestat.cli.display.documents import asyncapi_document, strimzi_resources
        from slidestat.declare.forms.files import load_declaration

        declaration = load_declaration(topology)
        document = (
            asyncapi_document(declaration)
            if strimzi is None
            else strimzi_resources(declaration, strimzi)
        )
        print(msgspec.json.format(msgspec.json.encode(document)).decode())
        return
    declared = load_topology(topology)
    if as_json:
        print(msgspec.json.encode(topology_object(declared)).decode())
    else:
        show_topology(declared)


@app.command()
def schema(
    record: Annotated[
        str | None,
        typer.Argument(metavar="[RECORD]", help="Such as event, emission or dead-letter-headers."),
    ] = None,
    form: Annotated[
        SchemaForm, typer.Option("--format", help="JSON Schema, or Avro's.")
    ] = SchemaForm.JSON,
) -> None:
    """Print the schema of a record on the wire; without one, list the records.

    Example: slidestat schema emission

    Example: slidestat schema emission --format avro

    Example: slidestat schema emission.v2
    """
    from slidestat.cli.display.lines import schema_lines

    for line in schema_lines(record, form):
        print(line)


for _command in (watch, query, top):
    app.command()(_command)


@app.command()
def demo(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            envvar=BOOTSTRAP_VARIABLE,
            metavar="HOST:PORT",
            help="Use these brokers; without it the demo starts its own.",
        ),
    ] = None,
) -> None:
    """Send 600,000 real events through two workers, and check every figure.

    Example: slidestat demo
    """
    from slidestat.demo.run import run_demo

    run_demo(bootstrap=bootstrap)


for _group in (app, topics_app, topology_app, dlq_app, spark_app):
    for _info in _group.registered_commands:
        # A docstring's lines end where the code's do: a terminal has others, and breaks them anew.
        _info.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(_info.callback) or "")


def _tell_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a stack trace, without secrets that a library may have put into it."""
    sys.stderr.write(redacted("".join(format_exception(kind, error, trace))))


def _tell_of_thread(hook: threading.ExceptHookArgs) -> None:
    if hook.exc_value is not None and not isinstance(hook.exc_value, SystemExit):
        sys.stderr.write(f"Exception in thread {hook.thread.name if hook.thread else ''}:\n")
        _tell_bug(hook.exc_type, hook.exc_value, hook.exc_traceback)


def _tell_unraisable(hook: "sys.UnraisableHookArgs") -> None:
    if hook.exc_value is not None:
        sys.stderr.write(f"{hook.err_msg or 'Exception ignored'}:\n")
        _tell_bug(hook.exc_type, hook.exc_value, hook.exc_traceback)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return what an encoding lacks as JSON escapes it, so that JSON stays JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def main() -> None:
    """Run the command line; a user's mistake ends in two lines and exit code 2, or its own."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The parent process closed the stream: use an empty one, so that no file or socket gets
            # its number.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    out = sys.stdout
    if isinstance(out, TextIOWrapper) and codecs.lookup(out.encoding).name != "utf-8":
        # Keys are of any characters, and a locale's encoding may lack them, as Latin-1 does.
        codecs.register_error("slidestat", _escaped)
        out.reconfigure(errors="slidestat")
    threading.excepthook, sys.unraisablehook = _tell_of_thread, _tell_unraisable
    logging.setLogRecordFactory(RedactedRecord)
    keep_secrets_of(os.environ)
    try:
        try:
            app()
        finally:
            sys.excepthook = _tell_bug  # typer has set its own.
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in (*_FULL, errno.EPIPE):
            raise
        # The interpreter would try to write the rest once more, and tell of that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno == errno.EPIPE:
            sys.exit(1)
        to, room = "", "where the output goes, and in the folder of temporary files"
        if error.filename is not None:
            to, room = f" to {error.filename}", "there"
        print(f"error: Not all could be written{to}: {error.strerror}.", file=sys.stderr)
        print(f"what to do: Make room {room}; what is there already is not all.", file=sys.stderr)
        sys.exit(2)
    except SlidestatError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.advice:
            print(f"what to do: {error.advice}", file=sys.stderr)
        sys.exit(error.exit_code)
