"""The commands `slidestat watch`, figures or alerts as they come, `slidestat query` and `top`,
figures of keys as they are now, or were, and `mcp`, which answers the same for assistants.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.operations import require_alert_topic
from slidestat.cli.options import (
    NAME_OR_FILE,
    TOPOLOGY,
    Bootstrap,
    Registry,
    TopologyArgument,
    as_typed,
)
from slidestat.errors import SlidestatError
from slidestat.options import DEFAULT_BOOTSTRAP

_TopologyArgument = Annotated[
    str | None, typer.Argument(metavar=NAME_OR_FILE, help=f"{TOPOLOGY} Or give --topic.")
]
_KeyPattern = Annotated[
    str | None, typer.Option(metavar="GLOB", help='Only keys that match, such as "JF*".')
]
_OneStatistic = Annotated[
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
    key: _KeyPattern = None,
    statistic: _OneStatistic = None,
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
    from slidestat.cli.display.watch import undeclared_note, watch as show
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
            if (note := undeclared_note(declared, statistic)) is not None:
                print(note, file=sys.stderr, flush=True)
        topic = require_alert_topic(declared) if alerts else declared.output_topic
        create_command = as_typed("run", topology)
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


_WindowOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LENGTH",
        help='Any length up to the span, such as "5m" or "1000 events"; several if repeated.',
    ),
]
_StatisticOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only this statistic; several if repeated.")
]
_QuantileOption = Annotated[
    list[float] | None,
    typer.Option(metavar="SHARE", help="Any quantile, such as 0.99; several if repeated."),
]
_RankOption = Annotated[
    list[float] | None,
    typer.Option(
        metavar="VALUE",
        help="Only how many events are at most this value, and how many are more; "
        "several if repeated.",
    ),
]
_ItemOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="Only how often this item came, of item_counts and top; several if repeated.",
    ),
]
_WhereOption = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD=TEXT",
        help="Only distinct items with this text in the field by which they are declared.",
    ),
]
_AgoOption = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTH",
        help='Of the windows that ended so long ago, such as "24h": with a window, at most the '
        "span.",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="A worker of the group; without it, one that runs on this machine."
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option(help="The --data-dir of a worker on this machine, if it has one.")
]
WorkersJson = Annotated[bool, typer.Option("--json", help="The worker's JSON, unchanged.")]


def query(
    topology: TopologyArgument,
    key: Annotated[str, typer.Argument(help="The key to ask for.")],
    window: _WindowOption = None,
    statistic: _StatisticOption = None,
    quantile: _QuantileOption = None,
    rank: _RankOption = None,
    item: _ItemOption = None,
    where: _WhereOption = None,
    ago: _AgoOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: WorkersJson = False,
) -> None:
    """Ask running workers for a key's figures over any windows, now or some time ago.

    Example: slidestat query flights JFK --window 7d --statistic count
    """
    from slidestat.admin.query import find_worker
    from slidestat.cli.display.query import query as show
    from slidestat.declare.forms.files import load_declaration

    asked = load_declaration(topology)
    show(
        find_worker(asked, data_dir) if url is None else url,
        asked.name,
        key,
        where,
        as_json=as_json,
        windows=window or [],
        statistics=statistic or [],
        quantiles=quantile or [],
        ranks=rank or [],
        items=item or [],
        ago=ago,
    )


def top(
    topology: TopologyArgument,
    by: Annotated[
        str | None,
        typer.Argument(
            metavar="FIGURE", help="A figure with its window, such as p99_5m, or a derived one."
        ),
    ] = None,
    largest: Annotated[
        int | None, typer.Option(metavar="N", help="How many keys, the largest first; default: 10.")
    ] = None,
    smallest: Annotated[
        int | None, typer.Option(metavar="N", help="How many keys, the smallest first.")
    ] = None,
    having: Annotated[
        str,
        typer.Option(metavar="CONDITION", help='Only keys for which it may hold: "count_5m >= 9".'),
    ] = "",
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: WorkersJson = False,
) -> None:
    """Ask running workers for the keys with the largest, or the smallest, values of a figure.

    Example: slidestat top flights count_1d --largest 5
    """
    from slidestat.admin.query import find_worker
    from slidestat.cli.display.query import ranking
    from slidestat.declare.forms.files import load_declaration

    asked = load_declaration(topology)
    if by is None:
        from slidestat.live.live_ranking import figures_to_rank_by

        raise SlidestatError(
            "It is not clear by which figure to rank the keys.",
            f"Name one of {', '.join(figures_to_rank_by(asked)) or 'a topology that ranks'}.",
        )
    ranking(
        find_worker(asked, data_dir) if url is None else url,
        asked.name,
        by,
        largest,
        smallest,
        having,
        as_json=as_json,
    )


def mcp(
    topology: Annotated[
        str | None, typer.Argument(metavar=NAME_OR_FILE, help=f"{TOPOLOGY} Or give --url.")
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Answer an assistant's questions from running workers, by the Model Context Protocol.

    It reads standard input and writes to standard output. It can change nothing.

    Example: slidestat mcp --url http://127.0.0.1:6066
    """
    from slidestat.admin.mcp_server import serve
    from slidestat.admin.query import find_worker
    from slidestat.declare.forms.files import load_declaration

    if (topology is None) == (url is None):
        raise SlidestatError("It is not clear whom to ask.", "Give a topology, or --url, not both.")
    serve(find_worker(load_declaration(topology or ""), data_dir) if url is None else url)
