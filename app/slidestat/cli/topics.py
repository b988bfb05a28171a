"""The commands `slidestat topics`."""

from typing import Annotated

import typer

from slidestat.cli.options import Bootstrap, ObjectALine, TopologyOption
from slidestat.errors import SlidestatError
from slidestat.options import DEFAULT_BOOTSTRAP, FOREVER, PARTITIONS

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
