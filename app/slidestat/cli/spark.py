"""The command `slidestat spark JOB`: each job a thin cover of a module of `slidestat.spark`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slidestat.cli.options import (
    Bootstrap,
    EveryOption,
    KeyColumn,
    LakeOption,
    MasterOption,
    Registry,
    TimeColumn,
    TimeUnitOption,
    TopologyArgument,
    ValueColumn,
)
from slidestat.options import (
    AUDITED_SHARE,
    DEFAULT_BOOTSTRAP,
    HISTORY_FORMAT,
    KEYS_GROUPED_BY,
    PARTITIONS,
    RECORDS_PER_BATCH,
    TIME_UNIT,
    StreamSource,
    Tables,
)

if TYPE_CHECKING:
    from slidestat.spark.backfill.backfill import Filled


def stream(
    topology: TopologyArgument,
    lake: LakeOption,
    source: Annotated[
        StreamSource,
        typer.Option("--from", help="The topology's topic, a Delta table, or a folder of files."),
    ] = StreamSource.KAFKA,
    path: Annotated[
        str | None, typer.Option(metavar="DIR|URL", help="Of the table or the files.")
    ] = None,
    time_unit: TimeUnitOption = TIME_UNIT,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="How many partitions keys are spread over; not for kafka."),
    ] = None,
    every: EveryOption = None,
    master: MasterOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Compute a topology's statistics on Structured Streaming, as a worker would, into a lake.

    Each batch once, however often this is interrupted and run again: states are in Spark's
    checkpoint, in the lake.

    Example: slidestat spark stream flights --lake lake --from delta --path flights
    """
    from slidestat.declare.declared import require_emissions
    from slidestat.declare.forms.files import load_topology
    from slidestat.declare.times.lengths import duration_ms
    from slidestat.spark.lake.session import session_of_lake

    declared = load_topology(topology)
    require_emissions(declared, "a lake")
    every_ms = None if every is None else duration_ms(every, "--every")
    tables = Tables.DELTA if source is StreamSource.DELTA else None
    with session_of_lake("stream", lake, declared.name, master, tables) as (spark, place):
        from slidestat.spark.streaming.job import StreamIntoLake, origin

        rows = origin(spark, declared, source, path, bootstrap, time_unit)
        job = StreamIntoLake(spark, declared, rows, place, partitions, time_unit)
        for dataset, count in job.run(every_ms).items():
            print(f"{dataset}: {count:,} records")


_FilesOption = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|URL", help="Files of events; without it, the topology's source topic."
    ),
]
_FileFormatOption = Annotated[
    str, typer.Option("--format", help="Of the files: parquet, csv or json.")
]
_PartitionsOption = Annotated[
    int, typer.Option(min=1, help="How many partitions the topic would have had.")
]
_SynopsesOption = Annotated[
    str | None,
    typer.Option(
        metavar="1d",
        help="Keep each key's synopses at this interval, for rollups of all of history; default:"
        " that of the topology's `synopses`, else at the end of history alone.",
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
    key: KeyColumn = None,
    time: TimeColumn = None,
    value: ValueColumn = None,
    time_unit: TimeUnitOption = TIME_UNIT,
    partitions: _PartitionsOption = PARTITIONS,
    synopses: _SynopsesOption = None,
    split_hot_keys: _SplitHotKeysOption = False,
    master: MasterOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Compute a topology's statistics, alerts and synopses of history, as a worker would have.

    Of a referee, its answers or rankings.

    Example: slidestat spark backfill flights --lake lake --files flights.parquet --key origin
    --time date --value delay --synopses 1d
    """
    from dataclasses import replace

    from slidestat.declare.forms.files import load_declaration
    from slidestat.declare.topology import Topology, require_json, require_times
    from slidestat.errors import SlidestatError
    from slidestat.produce.file_records import named_columns
    from slidestat.spark.backfill.backfill import of_history
    from slidestat.spark.backfill.history import Files, read_files, read_topic
    from slidestat.spark.backfill.stretches import require_stretches
    from slidestat.spark.kafka import topic_state
    from slidestat.spark.session import spark_session

    declared = load_declaration(topology)
    require_times(declared.answering, "a backfill")
    require_json(declared.answering, "a backfill")
    # Errors are raised before Spark starts, where possible.
    if synopses is not None:
        if not isinstance(declared, Topology):
            raise SlidestatError(
                f"{declared.name} is a referee, which keeps no synopses of keys.",
                "Leave --synopses out, or give the topology that it is of.",
            )
        # Rankings are left to their referee.
        declared = replace(declared, synopses=synopses, rankings=())
    counting = of_history(declared)
    if split_hot_keys:
        require_stretches(counting)
    named = named_columns(counting, key, time, value)
    where = None
    if files is None:
        partitions = len(topic_state(bootstrap, counting.events_topic).end)
    else:
        where = Files(files, file_format, named, time_unit, partitions)
    with spark_session("backfill", master) as spark:
        from slidestat.spark.backfill.backfill import fill_lake
        from slidestat.spark.lake.lake import Lake

        if where is None:
            history = read_topic(spark, counting, bootstrap)
        else:
            history = read_files(spark, counting, where)
        place = Lake(lake, declared.name)
        filled = fill_lake(declared, history, place, partitions, split_hot_keys=split_hot_keys)
        _print_filled(filled, split_hot_keys=split_hot_keys)
        if declared.answering.rankings and declared.counted is not None:
            print("rankings: none, they are written by a backfill of a referee of this topology")


def _print_filled(filled: "Filled", *, split_hot_keys: bool) -> None:
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
    from slidestat.declare.forms.files import load_topology
    from slidestat.declare.times.lengths import duration_ms
    from slidestat.declare.topology import require_times
    from slidestat.errors import SlidestatError
    from slidestat.spark.lake.session import session_of_lake
    from slidestat.spark.rollup.rollup import Rollup, left_out, require_interval_of, roll_up

    declared = load_topology(topology)
    require_times(declared, "a rollup")
    if declared.span_length.of_events:
        raise SlidestatError(
            f"{declared.name} has a span of {declared.span!r}, and a rollup goes by times.",
            'Give it a topology of the same events with a span such as "1h".',
        )
    job = Rollup(declared.span_length.length, declared.every_ms, duration_ms(by, "--by"), group)
    with session_of_lake("rollup", lake, declared.name, master) as (spark, place):
        from slidestat.spark.lake.lake import Dataset
        from slidestat.spark.rollup.rollup import show, write

        records = place.read(spark, Dataset.SYNOPSES)
        if changed := require_interval_of(place, records, job.by_ms):
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


app = typer.Typer(
    help="Jobs on Spark: topics as a lake of Parquet, an audit of every figure, a report.",
    no_args_is_help=True,
)

AllowLoss = Annotated[
    bool,
    typer.Option(
        "--allow-loss", help="Go on without the records that the broker has deleted already."
    ),
]


def ingest(
    topology: TopologyArgument,
    lake: LakeOption,
    every: EveryOption = None,
    records_per_batch: Annotated[
        int, typer.Option(min=1, help="At most so many records a batch.")
    ] = RECORDS_PER_BATCH,
    allow_loss: AllowLoss = False,
    tables: Annotated[
        Tables | None,
        typer.Option(
            help="What a new lake is kept in: Parquet files alone, the default, or Delta tables."
        ),
    ] = None,
    master: MasterOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    schema_registry: Registry = "",
) -> None:
    """Bring a topology's statistics, letters and synopses from their topics into Parquet files.

    Each record once, however often this is interrupted and run again. Of a referee, its answers,
    and its parties' synopses and letters.

    Example: slidestat spark ingest flights --lake lake
    """
    from slidestat.declare.declared import require_emissions
    from slidestat.declare.forms.files import load_declaration
    from slidestat.declare.times.lengths import duration_ms
    from slidestat.engine.emissions.output_codec import avro_codec
    from slidestat.spark.lake.session import session_of_lake

    declared = load_declaration(topology)
    require_emissions(declared, "a lake", or_rankings=True)
    every_ms = None if every is None else duration_ms(every, "--every")
    is_avro = declared.output_format == "avro"
    if is_avro:  # Missing requirements are reported before Spark starts.
        avro_codec(declared.output_topic, schema_registry)
    with session_of_lake("ingest", lake, declared.name, master, tables) as (spark, place):
        from slidestat.spark.lake.declarations import keep_declaration
        from slidestat.spark.lake.ingest import Ingest
        from slidestat.spark.lake.session import lake_topics

        keep_declaration(spark, place, declared)
        job = Ingest(
            spark,
            bootstrap,
            place,
            lake_topics(declared),
            records_per_batch,
            allow_loss,
            registry=schema_registry if is_avro else "",
            tables=tables,
        )
        if every_ms is not None:
            job.follow(every_ms)
            return
        for found in job.take_what_is_there():
            broken = f", {found.unreadable:,} of them unreadable" if found.unreadable else ""
            print(f"{found.topic}: {found.records:,} records{broken}")


def compact(topology: TopologyArgument, lake: LakeOption, master: MasterOption = None) -> None:
    """Merge the small files of a lake into large ones, each record staying there once.

    Example: slidestat spark compact flights --lake lake
    """
    from slidestat.declare.forms.files import load_declaration
    from slidestat.spark.lake.session import session_of_lake

    declared = load_declaration(topology)
    with session_of_lake("compact", lake, declared.name, master) as (spark, place):
        from slidestat.spark.lake.compaction import Compaction

        done = Compaction(spark, place).run()
    for found in done:
        print(
            f"{found.dataset}: {found.files_before:,} files of {found.dates:,} dates are now"
            f" {found.files_after:,}"
        )
    if not done:
        print("nothing to merge: each date has as few files as its size asks for")


def audit(
    topology: TopologyArgument,
    lake: LakeOption,
    allow_loss: AllowLoss = False,
    master: MasterOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    sample: Annotated[
        float,
        typer.Option(
            metavar="0.01",
            help="Recompute the figures of this share of the keys, chosen by a hash.",
        ),
    ] = AUDITED_SHARE,
    since_last: Annotated[
        bool,
        typer.Option(
            "--since-last",
            help="Audit what has come since the last audit; the report is of both together.",
        ),
    ] = False,
) -> None:
    """Recompute every window of a lake's figures from the raw topic, and compare each one.

    Ends with exit code 1 if a promise is broken: a figure outside its bounds or more off than it
    says, one that is missing, a record that was neither counted nor refused. Each emission is
    checked against the declaration that it was computed by, which ingests keep in the lake. Of a
    referee, final answers are checked against the events of all of their parties.

    Example: slidestat spark audit flights --lake lake
    """
    from slidestat.declare.forms.files import load_declaration
    from slidestat.declare.forms.resolved import require_audited, resolved
    from slidestat.spark.lake.session import session_of_lake

    declared = load_declaration(topology)
    require_audited(declared)
    with session_of_lake("audit", lake, declared.name, master) as (spark, place):
        from slidestat.spark.audit.audit import Audit
        from slidestat.spark.audit.report import show

        report = Audit(
            *(spark, bootstrap, place, resolved(declared), allow_loss),
            sample=sample,
            since_last=since_last,
        ).run()
    show(report)
    if not report.is_clean:
        raise typer.Exit(1)


def report(
    topology: TopologyArgument,
    lake: LakeOption,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="Show this key over time; repeat it; default: the busiest."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Default: NAME-report.html.")
    ] = None,
    master: MasterOption = None,
) -> None:
    """Write one HTML page of what the last audit of a lake found; it needs no other file.

    Example: slidestat spark report flights --lake lake --key ATL --key ORD
    """
    from slidestat.declare.declared import require_emissions
    from slidestat.declare.forms.files import load_declaration
    from slidestat.declare.topology import require_times
    from slidestat.spark.session import spark_session

    declared = load_declaration(topology)
    require_times(declared.answering, "a report")
    require_emissions(declared, "a report")
    with spark_session("report", master) as spark:
        from slidestat.spark.lake.lake import Lake
        from slidestat.spark.report.page import report_data, write_page

        file = output or Path(f"{declared.name}-report.html")
        write_page(report_data(spark, Lake(lake, declared.name), key or []), file)
    print(f"{file}: open it in a browser")


# A job is a function with typer's annotations; its name is the command's.
JOBS: tuple[Callable[..., None], ...] = (ingest, compact, audit, report, backfill, rollup, stream)

for _job in JOBS:
    app.command()(_job)
