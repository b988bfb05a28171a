"""`slidestat spark backfill` and `slidestat spark rollup`: covers of `slidestat.spark`."""

from typing import TYPE_CHECKING, Annotated

import typer

from slidestat.cli.options import Bootstrap, LakeOption, MasterOption, TopologyArgument
from slidestat.options import (
    DEFAULT_BOOTSTRAP,
    HISTORY_FORMAT,
    KEYS_GROUPED_BY,
    PARTITIONS,
    TIME_UNIT,
)

if TYPE_CHECKING:
    from slidestat.declare.topology import Topology


def timed_topology(name: str, what: str) -> "Topology":
    """Return the topology of that name or file, for a job that goes by times; raises SlidestatError
    for one of a sequence.
    """
    from slidestat.declare.forms.files import load_topology
    from slidestat.declare.topology import require_times

    topology = load_topology(name)
    require_times(topology, what)
    return topology


_FilesOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|URL", help="Files of events; without it, the topology's source topic."
    ),
]
_FileFormatOption = Annotated[
    str, typer.Option("--format", help="Of the files: parquet, csv or json.")
]
_TimeUnitOption = Annotated[
    str, typer.Option(help="What times that are whole numbers count: s, ms, us or ns.")
]
_PartitionsOption = Annotated[
    int, typer.Option(min=1, help="How many partitions the topic would have had.")
]
_SynopsesOption = Annotated[
    str | None,
    typer.Option(
        metavar="1d",
        help="Keep each key's synopses at this interval, for rollups of all of history; without"
        " it, at its end alone.",
    ),
]
_SplitHotKeysOption = Annotated[
    bool,
    typer.Option(
        "--split-hot-keys",
        help="Split the history of keys that one task would be waited for by time: the same"
        " promises, other bytes.",
    ),
]


def backfill(
    topology: TopologyArgument,
    lake: LakeOption,
    files: _FilesOption = None,
    file_format: _FileFormatOption = HISTORY_FORMAT,
    key: Annotated[str | None, typer.Option(help="Column of the key.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the event time.")] = None,
    value: Annotated[str | None, typer.Option(help="Column of the value.")] = None,
    time_unit: _TimeUnitOption = TIME_UNIT,
    partitions: _PartitionsOption = PARTITIONS,
    synopses: _SynopsesOption = None,
    split_hot_keys: _SplitHotKeysOption = False,
    master: MasterOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Compute a topology's statistics and synopses of history, as a worker would have.

    Example: slidestat spark backfill flights --lake lake --files flights.parquet --key origin
    --time date --value delay --synopses 1d
    """
    from slidestat.declare.lengths import duration_ms
    from slidestat.declare.topology import require_json
    from slidestat.produce.file_records import named_columns
    from slidestat.spark.backfill.history import Files, read_files, read_topic
    from slidestat.spark.backfill.interval_synopses import require_interval
    from slidestat.spark.backfill.stretches import require_stretches
    from slidestat.spark.kafka import topic_state
    from slidestat.spark.session import spark_session

    declared = timed_topology(topology, "a backfill")
    require_json(declared, "a backfill")
    synopses_ms = None
    # Errors are raised before Spark starts, where possible.
    if synopses is not None:
        synopses_ms = duration_ms(synopses, "--synopses")
        require_interval(declared, synopses_ms, synopses)
    if split_hot_keys:
        require_stretches(declared)
    named = named_columns(declared, key, time, value)
    where = None
    if files is None:
        partitions = len(topic_state(bootstrap, declared.events_topic).end)
    else:
        where = Files(files, file_format, named, time_unit, partitions)
    with spark_session("backfill", master) as spark:
        from slidestat.spark.backfill.backfill import fill_lake
        from slidestat.spark.lake.lake import Lake

        if where is None:
            history = read_topic(spark, declared, bootstrap)
        else:
            history = read_files(spark, declared, where)
        place = Lake(lake, declared.name)
        filled = fill_lake(
            declared, history, place, partitions, synopses_ms, split_hot_keys=split_hot_keys
        )
        for dataset, count in filled.counts.items():
            print(f"{dataset}: {count:,} records")
        for reason, count in filled.refusals.counts.items():
            print(f"refused as {reason}: {count:,}")
        for name, count in filled.split.items():
            print(f"split by time: {name} in {count:,} stretches")
        if split_hot_keys and not filled.split:
            print("split by time: no key, none is hot over more than two spans")


def rollup(
    topology: TopologyArgument,
    lake: LakeOption,
    by: Annotated[str, typer.Option(metavar="1d", help="Length of the windows.")],
    group: Annotated[
        str,
        typer.Option(
            metavar="SQL",
            help='Which keys are one: an expression over `key`, such as "substr(key, 1, 1)"; '
            "\"'all'\" for all of them.",
        ),
    ] = KEYS_GROUPED_BY,
    into: Annotated[
        str | None, typer.Option(metavar="DIR|URL", help="Write Parquet there; else a table here.")
    ] = None,
    fail_on_foreign: Annotated[
        bool,
        typer.Option(
            "--fail-on-foreign", help="End at bytes that are no synopsis; else leave out and count."
        ),
    ] = False,
    master: MasterOption = None,
) -> None:
    """Merge the synopses of a lake: hours into days, keys into groups, partitions into the whole.

    Example: slidestat spark rollup flights --lake lake --by 1d --group "'all'"
    """
    from slidestat.declare.lengths import duration_ms
    from slidestat.spark.lake.session import session_of_lake
    from slidestat.spark.rollup.rollup import Rollup, left_out, require_interval_of, roll_up

    declared = timed_topology(topology, "a rollup")
    job = Rollup(declared.span_length.length, declared.every_ms, duration_ms(by, "--by"), group)
    with session_of_lake("rollup", lake, declared.name, master) as (spark, place):
        from slidestat.spark.lake.lake import Dataset
        from slidestat.spark.rollup.rollup import show, write

        records = place.read(spark, Dataset.SYNOPSES)
        if changed := require_interval_of(place, spark, job.by_ms):
            print(changed)
        if names := left_out(declared):
            print(f"Left out: {', '.join(names)}; their synopses have no summary of a window.")
        found, foreign = roll_up(records, job, fail_on_foreign)
        if into is None:
            show(found)
        else:
            write(found, into)
        if foreign.count:
            print(f"{foreign.count:,} values of the synopsis column are no synopses: left out.")
