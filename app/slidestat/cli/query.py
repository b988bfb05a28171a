"""The command `slidestat query`: the figures of a key as they are now, or were."""

from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.options import TopologyArgument

_WindowOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LENGTH",
        help='Any length up to the span, such as "5m" or "1000 events"; several if repeated.',
    ),
]
_StatisticOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only this statistic; several if repeated."),
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
        help="Only how often this item of top items came; several if repeated.",
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
    typer.Option(help="A worker of the group; without it, one that runs on this machine."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="The --data-dir of a worker on this machine, if it has one."),
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
    """Ask running workers for a key's figures over any windows, as they are now or were some time
    ago.

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
        ago,
        as_json=as_json,
    )


def top(
    topology: TopologyArgument,
    by: Annotated[
        str, typer.Argument(help="A figure with its window, such as p99_5m, or a derived one.")
    ],
    largest: Annotated[
        int | None, typer.Option(metavar="N", help="How many keys, the largest first; 10.")
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
    ranking(
        url or find_worker(asked, data_dir),
        asked.name,
        by,
        largest,
        smallest,
        having,
        as_json=as_json,
    )
