"""The command `slidestat run`: a worker of a topology that ships, of a file, or of flags."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slidestat.cli.options import Bootstrap, Registry
from slidestat.errors import SlidestatError
from slidestat.log import LogForm, telling
from slidestat.options import DEFAULT_BOOTSTRAP, LOOPBACK, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

if TYPE_CHECKING:
    from slidestat.declare.referee import Referee
    from slidestat.declare.topology import Topology


def _flag(flag: str, metavar: str, help_text: str) -> typer.models.OptionInfo:
    """A flag of the topology; they are told apart from the worker's own options in the help."""
    option: typer.models.OptionInfo = typer.Option(
        flag, metavar=metavar, help=help_text, rich_help_panel="Instead of a file"
    )
    return option


def run(
    topologies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|FILE.py|FILE.toml]...",
            help="Topologies that ship, or files; several share a worker if their group and source "
            "are the same.",
        ),
    ] = None,
    source: Annotated[str | None, _flag("--source", "TOPIC", "The topic of the events.")] = None,
    name: Annotated[
        str | None, _flag("--name", "NAME", "Begins the names of the topics that are written.")
    ] = None,
    span: Annotated[
        str | None, _flag("--span", "1h", 'The longest window kept; or "1000 events".')
    ] = None,
    every: Annotated[
        str | None, _flag("--every", "1m", "How often statistics are written, in event time.")
    ] = None,
    windows: Annotated[
        list[str] | None, _flag("--window", "5m", "A window written; repeat it; default: the span.")
    ] = None,
    statistics: Annotated[
        list[str] | None,
        _flag(
            "--statistic",
            "KIND[:FIELD][:NAME=VALUE]...",
            "Such as count, or quantile:took.ms:quantiles=0.5,0.99:epsilon=0.02; repeat it; "
            "default: what is right for most.",
        ),
    ] = None,
    lateness: Annotated[
        str | None, _flag("--lateness", "5s", "How far a record may lie behind the newest.")
    ] = None,
    ahead: Annotated[
        str | None, _flag("--ahead", "5m", "How far an event may lie after its record's timestamp.")
    ] = None,
    idle: Annotated[
        str | None,
        _flag("--idle", "30s", "Emit provisionally when a partition brings nothing for so long."),
    ] = None,
    key_field: Annotated[
        str | None,
        _flag(
            "--key",
            "FIELD",
            "Field of the key; user.id is one inside of another, kafka:key the record's own.",
        ),
    ] = None,
    time_field: Annotated[
        str | None,
        _flag("--time", "FIELD", "Field of the event time; kafka:timestamp is the record's own."),
    ] = None,
    time_format: Annotated[
        str | None,
        _flag(
            "--time-format",
            "ms|s|us|ns|iso8601|iso8601-utc|sequence",
            "How times are written; default: ms.",
        ),
    ] = None,
    value_field: Annotated[
        str | None, _flag("--value", "FIELD", "Field of statistics that name none.")
    ] = None,
    where: Annotated[
        str | None,
        _flag("--where", "CONDITION", 'Count these events alone, as SQL: "status >= 500".'),
    ] = None,
    computed: Annotated[
        list[str] | None,
        _flag("--computed", "EXPRESSION as NAME", "A field computed from others; repeat for more."),
    ] = None,
    tombstones: Annotated[
        str | None,
        _flag(
            "--tombstones", "pass-over|dead-letter", "Records without a value; default: pass-over."
        ),
    ] = None,
    publish: Annotated[
        str | None,
        _flag("--publish", "partition|KEY,KEY", "Have a referee answer over all partitions."),
    ] = None,
    alerts: Annotated[
        list[str] | None,
        _flag(
            "--alert",
            "NAME:WHEN[:NAME=VALUE]...",
            'Such as "slow:p99 > 500 and count >= 100:window=5m:for=3"; repeat it.',
        ),
    ] = None,
    repartition: Annotated[
        bool | None,
        _flag("--repartition", "", "Move the records to GROUP-repartition by their key first."),
    ] = None,
    output_format: Annotated[
        str | None,
        _flag("--output-format", "json|avro|connect-json", "Of the statistics; default: json."),
    ] = None,
    output_shape: Annotated[
        str | None,
        _flag("--output-shape", "emissions|rows", "rows: a record a window, plain columns."),
    ] = None,
    output: Annotated[
        str | None,
        _flag("--output", "NAME", "Begins the names of the topics written; default: --name."),
    ] = None,
    group: Annotated[
        str | None, _flag("--group", "NAME", "The consumer group's name; default: the topology's.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the tables, one a worker; by default one of yours that none holds."
        ),
    ] = None,
    web_host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help=f"Where it answers questions; beyond this machine only with {TOKEN_VARIABLE}"
            f" or {TOKEN_FILE_VARIABLE} set.",
        ),
    ] = LOOPBACK,
    web_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="At which port; by default the first free one from 6066 on."
        ),
    ] = None,
    checkpoint_interval: Annotated[
        str,
        typer.Option(
            metavar="30s",
            help="How often a changed state becomes durable; after a crash as much is read again.",
        ),
    ] = "30s",
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="So many processes that share the partitions, under one that restarts what dies; "
            "0: one a core.",
        ),
    ] = None,
    log: Annotated[
        LogForm,
        typer.Option(help="Lines for a person, or an event a line with its topic and offset."),
    ] = LogForm.TEXT,
    allow_loss: Annotated[
        bool,
        typer.Option(
            "--allow-loss",
            help="Go on where the source has lost records before they were read: they are counted, "
            "and statistics that may lack them say so.",
        ),
    ] = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Compute statistics until Ctrl-C; start more of these workers to share the partitions.

    Example: slidestat run flights

    Example: slidestat run --source orders --name orders --span 1h --every 1m --key user.id
    --time at --value amount --statistic count --statistic sum:decimals=2
    """
    flags = {
        "source": source,
        "name": name,
        "span": span,
        "every": every,
        "windows": windows,
        "statistics": statistics,
        "lateness": lateness,
        "ahead": ahead,
        "idle": idle,
        "key_field": key_field,
        "time_field": time_field,
        "time_format": time_format,
        "value_field": value_field,
        "where": where,
        "computed": computed,
        "tombstones": tombstones,
        "publish": publish,
        "alerts": alerts,
        "repartition": repartition,
        "output_format": output_format,
        "output_shape": output_shape,
        "output": output,
        "group": group,
    }
    given = {field: value for field, value in flags.items() if value is not None}
    if not topologies and not given:
        raise SlidestatError(
            "There is no topology to run.",
            "Name one, give a file, or declare it with --source, --name, --span and --every.",
        )
    from slidestat.cli.start_worker import start_worker
    from slidestat.declare.forms.files import load_declaration
    from slidestat.declare.forms.flags import flag_of, topology_of_flags
    from slidestat.declare.lengths import duration_ms

    declared: list[Topology | Referee]
    if not topologies:
        declared = [topology_of_flags(given)]
    elif given:
        raise SlidestatError(
            f"Both the topology {topologies[0]} and {', '.join(map(flag_of, given))} are given.",
            "Leave one out: change the file, or declare all with flags.",
        )
    else:
        declared = [load_declaration(topology) for topology in topologies]
    with telling(log):
        if workers is not None:
            from slidestat.cli.worker_processes import WorkerProcesses, worker_commands

            # Click has taken them in already; each worker does so again.
            arguments = sys.argv[1:]
            WorkerProcesses(worker_commands(arguments, workers, data_dir, web_port)).run()
            return
        start_worker(
            declared,
            bootstrap,
            data_dir,
            registry,
            web_host,
            web_port,
            log=log,
            allow_loss=allow_loss,
            checkpoint_interval_s=duration_ms(checkpoint_interval, "--checkpoint-interval") / 1000,
        )
