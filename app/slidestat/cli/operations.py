"""The commands `slidestat topics`, `slidestat doctor` and `slidestat alertmanager`."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from slidestat.cli.options import (
    NAME_OR_FILE,
    Bootstrap,
    ObjectALine,
    Registry,
    TopologyArgument,
    TopologyOption,
)
from slidestat.errors import SlidestatError
from slidestat.options import DEFAULT_BOOTSTRAP, FOREVER, PARTITIONS

if TYPE_CHECKING:
    from slidestat.declare.declared import Declared

topics_app = typer.Typer(help="Create topics, and list them.", no_args_is_help=True)


@topics_app.command("create")
def topics_create(
    name: Annotated[str | None, typer.Argument(help="A topic; or give --topology.")] = None,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions.")] = PARTITIONS,
    topology: TopologyOption = None,
    retention: Annotated[
        str,
        typer.Option(
            metavar=f"{FOREVER}|7d",
            help="How long the broker keeps records. It goes by their event times: "
            "under a week's retention, last year's events are deleted before they are read, and "
            "what is counted of them soon after it is written.",
        ),
    ] = FOREVER,
    as_json: ObjectALine = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic, or the four topics of a topology; those that exist are left as they are.

    Example: slidestat topics create --topology flights --partitions 4
    """
    from slidestat.admin.topics import create_topic, create_topology_topics, retention_config
    from slidestat.cli.display.lines import show_outcomes

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
    from slidestat.cli.display.lines import show_topics

    show_topics(list_topics(bootstrap, internal=internal), as_json=as_json)


def doctor(
    topology: Annotated[
        str | None,
        typer.Argument(
            metavar=f"[{NAME_OR_FILE}]",
            help="Check also what its workers need to be allowed, and whether records of its source"
            " have the fields that it reads.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Check Python, codecs, compiled kernels, disk, Java, the brokers and what they allow.

    Ends with 1 if something is bad. Example: slidestat doctor requests.toml
    """
    import msgspec

    from slidestat.declare.forms.files import load_declaration
    from slidestat.doctor.examination import examine, line_of
    from slidestat.doctor.finding import Verdict

    declared = None if topology is None else load_declaration(topology)
    bad = False
    for finding in examine(bootstrap, declared, registry):
        bad = bad or finding.verdict is Verdict.BAD
        print(msgspec.json.encode(finding).decode() if as_json else line_of(finding), flush=True)
    if bad:
        raise typer.Exit(1)


def alertmanager(
    topology: TopologyArgument,
    url: Annotated[
        str, typer.Option(metavar="URL", help="The Alertmanager, such as http://127.0.0.1:9093.")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Tell an Alertmanager which alerts of a topology fire, until Ctrl-C.

    Example: slidestat alertmanager latency.toml --url http://127.0.0.1:9093
    """
    from slidestat.admin.alertmanager import AlertRelay
    from slidestat.declare.forms.files import load_declaration
    from slidestat.kafka.connection import require_topic
    from slidestat.kafka.read.topic_reader import AlertReader

    declared = load_declaration(topology)
    topic = require_alert_topic(declared)

    def reader() -> AlertReader:
        partitions = require_topic(bootstrap, topic, f"slidestat run {topology}")
        return AlertReader(bootstrap, topic, range(partitions), from_beginning=True)

    # One that is no longer declared will never be over.
    names = {alert.name for alert in declared.alerts}
    relay = AlertRelay(url, reader, lambda line: print(line, flush=True), names)
    with suppress(KeyboardInterrupt):  # The normal end of sending.
        relay.run()


def require_alert_topic(declared: "Declared") -> str:
    """Return the topic of a declaration's alerts; raises SlidestatError where it has none."""
    if declared.alert_topic is None:
        raise SlidestatError(
            f"{declared.name} has no alerts.",
            "Declare them: [[alerts]] in TOML, alerts=[Alert(...)] in Python.",
        )
    return declared.alert_topic
