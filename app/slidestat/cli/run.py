"""The command `slidestat run`: a worker of a topology that ships, of a file, or of flags."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slidestat.cli.options import Bootstrap, Registry
from slidestat.declare.forms.flag_list import TOPOLOGY_FLAGS, Flag, flag_of
from slidestat.errors import SlidestatError
from slidestat.log import LOG_FORM, LogForm, logging_to_stderr
from slidestat.options import (
    CHECKPOINT_INTERVAL_S,
    DEFAULT_BOOTSTRAP,
    FIRST_PORT,
    LOOPBACK,
    REGISTRY_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
)

if TYPE_CHECKING:
    from slidestat.declare.declared import Declared

# The flags of a topology as options of a command, made from the one list of them.

# The type of a value on the command line: a text, a list of texts for a flag that can be repeated,
# or True.
Given = str | list[str] | bool | None


def with_topology_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, which takes `**flags`, an option for each field of a topology."""
    own = list(inspect.signature(command).parameters.values())[:-1]
    signature = inspect.Signature([*own, *_options()])
    command.__signature__ = signature  # type: ignore[attr-defined]  # Typer reads it.
    return command


def _options() -> Iterator[inspect.Parameter]:
    for field, flag in TOPOLOGY_FLAGS.items():
        type_: Any = list[str] | None if flag.repeats else str | None
        if flag.is_switch:
            type_ = bool | None
        yield inspect.Parameter(
            field,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[type_, _option(flag)],
        )


def _option(flag: Flag) -> typer.models.OptionInfo:
    # These options have a panel of their own, apart from the worker's.
    option: typer.models.OptionInfo = typer.Option(
        flag.name, metavar=flag.metavar or None, help=flag.help, rich_help_panel="Instead of a file"
    )
    return option


_CHECKPOINT_INTERVAL = f"{CHECKPOINT_INTERVAL_S:g}s"


_TopologiesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME|FILE.py|FILE.toml]...",
        help="Topologies that ship, or files; several share a worker if their group and source "
        "are the same.",
    ),
]
_DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of this worker's tables; by default one that no other worker uses."),
]
_WebHostOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help=f"Where it answers questions; beyond this machine only with {TOKEN_VARIABLE}"
        f" or {TOKEN_FILE_VARIABLE} set.",
    ),
]
_WebPortOption = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65_535,
        help=f"At which port; by default the first free one from {FIRST_PORT} on.",
    ),
]
_CheckpointIntervalOption = Annotated[
    str,
    typer.Option(
        metavar=_CHECKPOINT_INTERVAL,
        help="How often a changed state becomes durable: after a crash, so much is read again.",
    ),
]
_WorkersOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="How many processes share the partitions; one more restarts those that die. 0: one"
        " for each core.",
    ),
]
_LogOption = Annotated[
    LogForm, typer.Option(help="Lines for a person, or an event a line with its topic and offset.")
]
_AllowLossOption = Annotated[
    bool,
    typer.Option(
        "--allow-loss",
        help="Go on where the source has lost records before they were read: they are counted, "
        "and statistics that may lack them say so.",
    ),
]
_ChangeStatisticsOption = Annotated[
    bool,
    typer.Option(
        "--change-statistics",
        help="Go on over states of other statistics: those that are new begin now, without "
        "counting the source again, and their figures say since when; what is not declared any "
        "more is dropped.",
    ),
]
_AnywayOption = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Start though no record of the source has a field that is declared, and go on "
        "though all are refused.",
    ),
]


@with_topology_flags
def run(
    topologies: _TopologiesArgument = None,
    data_dir: _DataDirOption = None,
    web_host: _WebHostOption = LOOPBACK,
    web_port: _WebPortOption = None,
    checkpoint_interval: _CheckpointIntervalOption = _CHECKPOINT_INTERVAL,
    workers: _WorkersOption = None,
    log: _LogOption = LOG_FORM,
    allow_loss: _AllowLossOption = False,
    change_statistics: _ChangeStatisticsOption = False,
    anyway: _AnywayOption = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    **flags: Given,
) -> None:
    """Compute statistics until Ctrl-C; start more of these workers to share the partitions.

    Example: slidestat run flights

    Example: slidestat run --source orders --name orders --span 1h --every 1m --key user.id
    --time at --value amount --statistic count --statistic sum:decimals=2
    """
    declared = _declared(
        topologies or [],
        {field: flags[field] for field in TOPOLOGY_FLAGS if flags[field] is not None},
    )
    from slidestat.cli.start_worker import letter_command, prepared_worker, start_worker
    from slidestat.declare.times.lengths import duration_ms

    with logging_to_stderr(log):
        if workers is not None:
            from slidestat.cli.worker_processes import WorkerProcesses, worker_commands

            if registry:
                os.environ[REGISTRY_VARIABLE] = registry
            # Click has taken them in already; each worker does so again.
            arguments = sys.argv[1:]
            WorkerProcesses(worker_commands(arguments, workers, data_dir, web_port)).run()
            return
        start_worker(
            prepared_worker(
                declared,
                bootstrap,
                data_dir,
                registry,
                web_host,
                web_port,
                log=log,
                allow_loss=allow_loss,
                change_statistics=change_statistics,
                anyway=anyway,
                letter_commands={
                    it.name: letter_command(typed, bootstrap)
                    for it, typed in zip(declared, topologies or (), strict=False)
                },
                checkpoint_interval_s=duration_ms(checkpoint_interval, "--checkpoint-interval")
                / 1000,
            )
        )


def _declared(topologies: Sequence[str], given: dict[str, Any]) -> "list[Declared]":
    """Return what is declared by files and names, or else by flags."""
    if not topologies and not given:
        raise SlidestatError(
            "There is no topology to run.",
            "Name one, give a file, or declare it with --source, --name, --span and --every.",
        )
    from slidestat.declare.forms.files import load_declaration
    from slidestat.declare.forms.flags import topology_of_flags

    if not topologies:
        return [topology_of_flags(given)]
    if given:
        raise SlidestatError(
            f"Both the topology {topologies[0]} and {', '.join(map(flag_of, given))} are given.",
            "Leave one out: change the file, or declare all with flags.",
        )
    return [load_declaration(topology) for topology in topologies]
