"""The command `slidestat watch`: figures or alerts as they come."""

from typing import Annotated

import typer

from slidestat.cli.operations import require_alert_topic
from slidestat.cli.options import NAME_OR_FILE, TOPOLOGY, Bootstrap, Registry
from slidestat.errors import SlidestatError
from slidestat.options import DEFAULT_BOOTSTRAP

_TopologyArgument = Annotated[
    str | None,
    typer.Argument(metavar=NAME_OR_FILE, help=f"{TOPOLOGY} Or give --topic."),
]
_KeyOption = Annotated[
    str | None, typer.Option(metavar="GLOB", help='Only keys that match, such as "JF*".')
]
_StatisticOption = Annotated[
    str | None, typer.Option(metavar="NAME", help='Only this statistic, such as "count".')
]
_OnceOption = Annotated[
    bool, typer.Option("--once", help="Show the newest records that are there, and end.")
]
_FromBeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="Read the topic from its first record.")
]
_AsJsonOption = Annotated[bool, typer.Option("--json", help="Each record as JSON, one a line.")]
_AlertsOption = Annotated[bool, typer.Option("--alerts", help="Changes of alerts, not figures.")]


def watch(
    topology: _TopologyArgument = None,
    topic: Annotated[str | None, typer.Option(help="A topic of figures.")] = None,
    key: _KeyOption = None,
    statistic: _StatisticOption = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the table.")] = 20,
    once: _OnceOption = False,
    from_beginning: _FromBeginningOption = False,
    as_json: _AsJsonOption = False,
    alerts: _AlertsOption = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show figures as they come, the most recently updated first, or alerts, until Ctrl-C.

    Example: slidestat watch flights --key "JF*"

    Example: slidestat watch latency.toml --alerts
    """
    from slidestat.cli.display.watch import watch as show
    from slidestat.kafka.connection import require_topic
    from slidestat.kafka.read.topic_reader import EmissionReader

    if (topic is None) == (topology is None):
        raise SlidestatError(
            "It is not clear what to watch.", "Give a topology, or --topic, not both."
        )
    create_command = None
    if topology is not None:
        from slidestat.declare.declared import require_emissions
        from slidestat.declare.forms.files import load_declaration

        declared = load_declaration(topology)
        if not alerts:
            require_emissions(declared, "`slidestat watch`")
        topic = require_alert_topic(declared) if alerts else declared.output_topic
        verb = "topics create --topology" if declared.counted is not None else "run"
        create_command = f"slidestat {verb} {topology}"
    assert topic is not None  # noqa: S101  # The check above.
    partitions = require_topic(bootstrap, topic, create_command)
    if alerts:
        from slidestat.cli.display.watch import watch_alerts
        from slidestat.kafka.read.topic_reader import AlertReader

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
