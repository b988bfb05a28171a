"""The command `slidestat produce`: a file's events to a topic."""

from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.options import Bootstrap, OneObject, TimeUnitOption
from slidestat.errors import SlidestatError
from slidestat.options import (
    COMPRESSION,
    DEFAULT_BOOTSTRAP,
    KEY_FIELD,
    TIME_FIELD,
    TIME_UNIT,
    Compression,
)

_FileArgument = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, JSON lines (also .gz .zst .bz2 .xz) or Parquet; "
        "- for JSON lines on standard input."
    ),
]
_KeyOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help=f"Column of the keys; default: {KEY_FIELD}.")
]
_TimeOption = Annotated[str, typer.Option(metavar="COLUMN", help="Column of the event times.")]
_ValueOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of the values; default: value, but none with --with or --text.",
    ),
]
_MoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="COLUMN",
        help="Send this column too, under its name; numbers in CSV become numbers. Repeat it.",
    ),
]
_TextOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="As --with, but all as texts: zip codes, versions. Repeat it."
    ),
]
_RateOption = Annotated[
    float | None, typer.Option(min=0.001, help="Send at most this many events a second.")
]
_SkipBadOption = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that are no events, and count them.")
]
_RawOption = Annotated[
    bool, typer.Option("--raw", help="Send the lines of a JSON lines file as they are.")
]
_SpreadOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Send this key's events to all partitions in turn, for a topology that publishes "
        "the key; repeat it.",
    ),
]


def produce(
    file: _FileArgument,
    topic: Annotated[str, typer.Option(help="The topic to send to.")],
    key: _KeyOption = None,
    time: _TimeOption = TIME_FIELD,
    value: _ValueOption = None,
    more: _MoreOption = None,
    text: _TextOption = None,
    time_unit: TimeUnitOption = TIME_UNIT,
    limit: Annotated[int | None, typer.Option(min=1, help="Send at most this many events.")] = None,
    rate: _RateOption = None,
    compression: Annotated[Compression, typer.Option(help="Codec.")] = COMPRESSION,
    skip_bad: _SkipBadOption = False,
    raw: _RawOption = False,
    spread: _SpreadOption = None,
    as_json: OneObject = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Send a file's events to a topic.

    Example: slidestat produce flights.parquet --topic flights --key origin --time date
    --value delay --with destination
    """
    from slidestat.cli.display.lines import produce_bar, show_report
    from slidestat.kafka.producer import advice_on_times
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
        is_time = report.is_time_refused
        advice = advice_on_times(topic, bootstrap) if is_time else "Look at the broker's log."
        raise SlidestatError(
            f"{report.failed:,} events were not acknowledged: {report.first_failure}.",
            f"{advice} The events sent before them are on the topic.",
        )
