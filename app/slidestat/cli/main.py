"""The command line `slidestat`: one function a command, each a thin cover of what does the work.

What a command needs is imported inside it, so that `slidestat --help` answers at once.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.alertmanager import alertmanager
from slidestat.cli.dlq import dlq_app
from slidestat.cli.doctor import doctor
from slidestat.cli.init import init
from slidestat.cli.options import (
    NAME_OR_FILE,
    TOPOLOGY,
    Bootstrap,
    ObjectALine,
    OneObject,
    Registry,
    TopologyArgument,
    TopologyOption,
)
from slidestat.cli.replay import replay
from slidestat.cli.run import run
from slidestat.cli.spark import app as spark_app
from slidestat.errors import SlidestatError
from slidestat.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    Compression,
    SchemaForm,
    TimeUnit,
)

app = typer.Typer(
    name="slidestat",
    help="Sliding-window statistics of keyed Kafka topics, each figure with bounds that hold.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
topics_app = typer.Typer(help="Create topics, and list them.", no_args_is_help=True)
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
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
def broker(
    port: Annotated[
        int | None, typer.Option(help="Port of 127.0.0.1; 9092 or a free one by default.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep topics here; without it they end with the broker.")
    ] = None,
) -> None:
    """Run an Apache Kafka broker on this machine until Ctrl-C.

    Example: slidestat broker --port 9092
    """
    from slidestat.local.foreground import run_in_foreground

    run_in_foreground(port, data_dir)


@topics_app.command("create")
def topics_create(
    name: Annotated[str | None, typer.Argument(help="A topic; or give --topology.")] = None,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions.")] = 4,
    topology: TopologyOption = None,
    retention: Annotated[
        str,
        typer.Option(
            metavar="forever|7d",
            help="How long the broker keeps records. It goes by their event times: "
            "under a week's retention, last year's events are deleted before they are read.",
        ),
    ] = "forever",
    as_json: ObjectALine = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic, or the four topics of a topology; those that exist are left as they are.

    Example: slidestat topics create --topology flights --partitions 4
    """
    from slidestat.admin.topics import create_topic, create_topology_topics, retention_config
    from slidestat.cli.display.topics import show_outcomes

    if (name is None) == (topology is None):
        raise SlidestatError(
            "It is not clear which topic to create.", "Give one name, or --topology, not both."
        )
    if topology is not None:
        from slidestat.declare.forms.files import load_topology

        outcomes = create_topology_topics(bootstrap, load_topology(topology), partitions, retention)
    else:
        assert name is not None  # noqa: S101  # The check above.
        outcomes = [create_topic(bootstrap, name, partitions, retention_config(retention))]
    show_outcomes(outcomes, as_json=as_json)


@topics_app.command("list")
def topics_list(
    as_json: ObjectALine = False,
    internal: Annotated[bool, typer.Option("--all", help="Kafka's own topics too.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics: partitions, records, retention, cleanup policy.

    Example: slidestat topics list --json
    """
    from slidestat.admin.topics import list_topics
    from slidestat.cli.display.topics import show_topics

    show_topics(list_topics(bootstrap, internal=internal), as_json=as_json)


@app.command()
def produce(
    file: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, JSON lines (also .gz .zst .bz2 .xz) or Parquet; "
            "- for JSON lines on standard input."
        ),
    ],
    topic: Annotated[str, typer.Option(help="The topic to send to.")],
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the keys; default: key.")
    ] = None,
    time: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the event times.")
    ] = "time",
    value: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the values; `value`, or none beside --with."
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="COLUMN", help="Send this column too, under its name; repeat it."
        ),
    ] = None,
    time_unit: Annotated[
        TimeUnit, typer.Option(help="What integer times count since 1970-01-01T00:00:00Z.")
    ] = TimeUnit.MILLISECONDS,
    limit: Annotated[int | None, typer.Option(min=1, help="Send at most this many events.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Send at most this many events a second.")
    ] = None,
    compression: Annotated[Compression, typer.Option(help="Codec.")] = Compression.LZ4,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows that are no events, and count them.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Send the lines of a JSON lines file unread.")
    ] = False,
    spread: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Send this key's events to all partitions in turn, for a topology that publishes "
            "the key; repeat it.",
        ),
    ] = None,
    as_json: OneObject = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Send a file's events to a topic.

    Example: slidestat produce flights.parquet --topic flights --key origin --time date
    --value delay --with destination
    """
    from slidestat.cli.display.produce import produce_bar, show_report
    from slidestat.produce.events import Columns
    from slidestat.produce.produce import produce_file

    column = "key" if key is None else key
    columns = Columns(column, time, value, time_unit, tuple(more or ()))
    with produce_bar(Path(file).name) as on_progress:
        report = produce_file(
            file,
            bootstrap,
            topic,
            columns=columns,
            limit=limit,
            rate=rate,
            compression=compression,
            skip_bad=skip_bad,
            raw=raw,
            must_have_key=key is not None,
            spread=spread or (),
            on_progress=on_progress,
        )
    show_report(report, as_json=as_json)
    if report.failed:
        raise SlidestatError(
            f"{report.failed:,} events were not acknowledged: {report.first_failure}.",
            "Look at the broker's log; the events sent before them are on the topic.",
        )


app.command()(init)
app.command()(doctor)
app.command()(run)
app.command()(replay)
app.command()(alertmanager)


@topology_app.command("show")
def topology_show(topology: TopologyArgument, as_json: OneObject = False) -> None:
    """Show a topology's topics, windows, statistics with their errors, and memory a key.

    Example: slidestat topology show flights
    """
    import msgspec

    from slidestat.cli.display.topology import show_topology
    from slidestat.cli.display.topology_json import topology_object
    from slidestat.declare.forms.files import load_topology

    declared = load_topology(topology)
    if as_json:
        print(msgspec.json.encode(topology_object(declared)).decode())
    else:
        show_topology(declared)


@app.command()
def schema(
    record: Annotated[
        str | None,
        typer.Argument(metavar="event|emission|dead-letter-headers|...", help="Which record's."),
    ] = None,
    form: Annotated[
        SchemaForm, typer.Option("--format", help="JSON Schema, or Avro's.")
    ] = SchemaForm.JSON,
) -> None:
    """Print the schema of a record on the wire; without one, list the records.

    Example: slidestat schema emission

    Example: slidestat schema emission --format avro
    """
    from slidestat.cli.display.schema_text import schema_lines

    for line in schema_lines(record, form):
        print(line)


@app.command()
def watch(
    topology: Annotated[
        str | None,
        typer.Argument(metavar=NAME_OR_FILE, help=f"{TOPOLOGY} Or give --topic."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="A topic of figures.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="GLOB", help='Only keys like this, such as "JF*".')
    ] = None,
    statistic: Annotated[
        str | None, typer.Option(metavar="NAME", help='Only this statistic, such as "count".')
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the table.")] = 20,
    once: Annotated[
        bool, typer.Option("--once", help="Show the newest of what is there, and end.")
    ] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Read the topic from its first record.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each record as JSON, one a line.")
    ] = False,
    alerts: Annotated[bool, typer.Option("--alerts", help="What alerts do, not figures.")] = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show figures as they come, the most recently updated first, or alerts, until Ctrl-C.

    Example: slidestat watch flights --key "JF*"

    Example: slidestat watch latency.toml --alerts
    """
    from slidestat.cli.display.watch import watch as show
    from slidestat.kafka.connection import require_topic
    from slidestat.kafka.emission_reader import EmissionReader

    if (topic is None) == (topology is None):
        raise SlidestatError(
            "It is not clear what to watch.", "Give a topology, or --topic, not both."
        )
    create_command = None
    if topology is not None:
        from slidestat.declare.forms.files import load_declaration
        from slidestat.declare.topology import Topology, require_emissions

        declared = load_declaration(topology)
        if isinstance(declared, Topology) and not alerts:
            require_emissions(declared, "`slidestat watch`")
        topic = declared.alert_topic if alerts else declared.output_topic
        if topic is None:
            raise SlidestatError(
                f"{declared.name} has no alerts.",
                "Declare them: [[alerts]] in TOML, alerts=[Alert(...)] in Python.",
            )
        verb = "topics create --topology" if isinstance(declared, Topology) else "run"
        create_command = f"slidestat {verb} {topology}"
    assert topic is not None  # noqa: S101  # The check above.
    partitions = require_topic(bootstrap, topic, create_command)
    if alerts:
        from slidestat.cli.display.alerts import watch_alerts
        from slidestat.kafka.alert_reader import AlertReader

        if statistic is not None:
            raise SlidestatError(
                "--statistic is of figures, and --alerts shows none.", "Leave one of them out."
            )
        changes = AlertReader(bootstrap, topic, range(partitions), key, from_beginning, once)
        watch_alerts(changes, rows, as_json=as_json)
        return
    reader = EmissionReader(
        bootstrap, topic, range(partitions), key, from_beginning, once, registry
    )
    show(reader, rows, statistic, as_json=as_json)


@app.command()
def query(
    topology: TopologyArgument,
    key: Annotated[str, typer.Argument(help="The key to ask for.")],
    window: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LENGTH",
            help='Any length up to the span, such as "5m" or "1000 events"; several if repeated.',
        ),
    ] = None,
    statistic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this statistic; several if repeated."),
    ] = None,
    quantile: Annotated[
        list[float] | None,
        typer.Option(metavar="SHARE", help="Any quantile, such as 0.99; several if repeated."),
    ] = None,
    rank: Annotated[
        list[float] | None,
        typer.Option(
            metavar="VALUE",
            help="How many events are at most this value, and how many are more, and no figure; "
            "several if repeated.",
        ),
    ] = None,
    item: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="How often this item came, of top items, and no other figure; several if "
            "repeated.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=TEXT",
            help="Only distinct items with this text in the field by which they are declared.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="A worker of the group; without it, one that runs on this machine."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="The data folder of a worker on this machine, if it was given one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The worker's answer as it is.")] = False,
) -> None:
    """Ask running workers for a key's figures as they are now, over any windows.

    Example: slidestat query flights JFK --window 7d --statistic count
    """
    from slidestat.admin.query import find_worker
    from slidestat.cli.display.query import query as show
    from slidestat.declare.forms.files import load_declaration

    asked = load_declaration(topology)
    show(
        url or find_worker(asked, data_dir),
        asked.name,
        key,
        window or [],
        statistic or [],
        quantile or [],
        where,
        rank or [],
        item or [],
        as_json=as_json,
    )


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
    """Send half a million real events through two workers, and check every figure.

    Example: slidestat demo
    """
    from slidestat.demo.run import run_demo

    run_demo(bootstrap=bootstrap)


def main() -> None:
    """Run the command line; a user's mistake ends in two lines and exit code 2."""
    try:
        app()
    except SlidestatError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.advice:
            print(f"what to do: {error.advice}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
