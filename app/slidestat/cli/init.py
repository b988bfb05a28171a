"""The command `slidestat init`: look at a topic, propose a topology, write it, and run it."""

import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.options import Bootstrap, OneObject, Registry, as_typed
from slidestat.errors import SlidestatError
from slidestat.options import DEFAULT_BOOTSTRAP

_PLACE = re.compile(r"[0-9]{1,9}")


_FileOption = Annotated[
    Path | None, typer.Option(help="Write the topology here; by default NAME.toml.")
]
_Topic = Annotated[str, typer.Argument(help="The topic of your events.")]
_RunOption = Annotated[bool, typer.Option("--run", help="Run the topology at once.")]
_NameOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The topology's name; by default the topic's.")
]
_RecordsOption = Annotated[
    int,
    typer.Option(min=1, max=1_000_000, help="How many records to look at, from all parts of it."),
]
_YesOption = Annotated[
    bool, typer.Option("--yes", help="Take the likeliest fields, without asking which.")
]


_KeyOption = Annotated[
    str | None, typer.Option(metavar="FIELD", help="The key's field; by default it is guessed.")
]
_TimeOption = Annotated[
    str | None, typer.Option(metavar="FIELD", help="The event time's field, in the same way.")
]
_ValueOption = Annotated[
    str | None, typer.Option(metavar="FIELD", help="The value's field, in the same way.")
]


def init(
    topic: _Topic,
    file: _FileOption = None,
    name: _NameOption = None,
    key: _KeyOption = None,
    time: _TimeOption = None,
    value: _ValueOption = None,
    records: _RecordsOption = 10_000,
    yes: _YesOption = False,
    as_json: OneObject = False,
    run: _RunOption = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Look at a topic, and write a topology for it: a start, to be read and changed.

    Example: slidestat init requests --file latency.toml --run

    Example: slidestat init requests --key service --value duration_ms

    Example: slidestat init requests --json
    """
    import msgspec

    from slidestat.cli.display.lines import sample_lines
    from slidestat.cli.display.topology import show_topology
    from slidestat.declare.forms.files import load_topology
    from slidestat.infer.judgement import remark_on_refused
    from slidestat.infer.proposal import propose, toml_text
    from slidestat.infer.sampling import readable, sample_topic, without_envelope
    from slidestat.infer.survey import survey

    name = name or re.sub(r"^[^A-Za-z0-9]+", "", topic)[:100] or "events"
    path = file or Path(f"{name}.toml")
    _require_new(path)
    if as_json and run:
        raise SlidestatError(
            "--json and --run are given.", "Leave one out: a worker's output is no JSON object."
        )
    sample = without_envelope(readable(sample_topic(bootstrap, topic, records), registry))
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not (yes or as_json)
    given = {w: f for w, f in (("key", key), ("time", time), ("value", value)) if f is not None}
    proposal = propose(sample, survey(sample.records), name, _ask if asks else None, given)
    _write(path, toml_text(proposal))
    topology = load_topology(str(path))
    if remark := remark_on_refused(topology, sample.records):
        proposal = replace(proposal, warnings=(*proposal.warnings, remark))
    if as_json:
        print(msgspec.json.encode({"file": str(path), **asdict(proposal)}).decode())
        return
    for line in sample_lines(sample, proposal):
        print(line)
    print(f"wrote       {path}\n")
    show_topology(topology)
    if run:
        from slidestat.cli.start_worker import letter_command, prepared_worker, start_worker
        from slidestat.log import logging_to_stderr

        with logging_to_stderr():
            start_worker(
                prepared_worker(
                    [topology],
                    bootstrap,
                    registry=registry,
                    letter_commands={topology.name: letter_command(str(path), bootstrap)},
                )
            )
        return
    print(f"\nRead {path}, then: {as_typed('run', str(path))}")
    print(f"and beside it:     {as_typed('watch', str(path))}")


def _require_new(path: Path) -> None:
    """Raise SlidestatError for a path that is no new TOML file's."""
    if path.suffix != ".toml":
        raise SlidestatError(f"{path} is no TOML file by its name.", "End its name in .toml.")
    if path.exists():
        raise SlidestatError(
            f"{path} exists already.",
            f"Run it with `{as_typed('run', str(path))}`, or give another name with --file.",
        )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SlidestatError(
            f"{path} cannot be written: {error.strerror}.", "Give another place with --file."
        ) from error


def _ask(what: str, fields: Sequence[tuple[str, str]]) -> int:
    """Ask for a field, and return its place; the first one where Enter alone is pressed."""
    print(f"Which field is the {what}?")
    width = max(len(name) for name, _ in fields)
    for number, (name, value) in enumerate(fields, 1):
        print(f"  {number}  {name:<{width}}  such as {value[:60]}")

    def place(text: str) -> int:
        if _PLACE.fullmatch(text) and 1 <= int(text) <= len(fields):
            return int(text) - 1
        raise typer.BadParameter(f"Give a number from 1 to {len(fields)}.")

    try:
        chosen: int = typer.prompt("Its number", default="1", value_proc=place)
    except typer.Abort:
        raise SlidestatError(
            "Nothing was written.", "Give a number, or --yes to take the likeliest fields."
        ) from None
    return chosen
