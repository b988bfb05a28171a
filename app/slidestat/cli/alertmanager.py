"""The command `slidestat alertmanager`: send alerts to an Alertmanager."""

from contextlib import suppress
from typing import Annotated

import typer

from slidestat.cli.options import Bootstrap, TopologyArgument
from slidestat.errors import SlidestatError
from slidestat.options import DEFAULT_BOOTSTRAP


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
    topic = declared.alert_topic
    if topic is None:
        raise SlidestatError(
            f"{declared.name} has no alerts.",
            "Declare them: [[alerts]] in TOML, alerts=[Alert(...)] in Python.",
        )

    def reader() -> AlertReader:
        partitions = require_topic(bootstrap, topic, f"slidestat run {topology}")
        return AlertReader(bootstrap, topic, range(partitions), from_beginning=True)

    # One that is no longer declared will never be over.
    names = {alert.name for alert in declared.alerts}
    relay = AlertRelay(url, reader, lambda line: print(line, flush=True), names)
    with suppress(KeyboardInterrupt):  # The normal end of sending.
        relay.run()
