"""The command `slidestat produce`: a file's events to a topic."""

from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.options import Bootstrap, OneObject
from slidestat.errors import SlidestatError
from slidestat.options import (
    COMPRESSION,
    DEFAULT_BOOTSTRAP,
    KEY_FIELD,
    TIME_FIELD,
    TIME_UNIT,
    Compression,
    TimeUnit,
)


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
        str | None,
        typer.Option(metavar="COLUMN", help=f"Column of the keys; default: {KEY_FIELD}."),
    ] = None,
    time: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the event times.")
    ] = TIME_FIELD,
    value: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the values; `value`, or none beside --with or --text."
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="COLUMN",
            help="Send this column too, under its name; of CSV what writes a number is one. Repeat"
            " it.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="As --with, all as texts: zip codes, versions. Repeat it."
        ),
    ] = None,
    time_unit: Annotated[
        TimeUnit, typer.Option(help="What integer times count since 1970-01-01T00:00:00Z.")
    ] = TIME_UNIT,
    limit: Annotated[int | None, typer.Option(min=1, help="Send at most this many events.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Send at most this many events a second.")
    ] = None,
    compression: Annotated[Compression, typer.Option(help="Codec.")] = COMPRESSION,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out rows that are no events, and count them.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Send the lines of a JSON lines file as they are.")
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

    column = KEY_FIELD if key is None else key
    columns = Columns(column, time, value, time_unit, tuple(more or ()), tuple(text or ()))
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
