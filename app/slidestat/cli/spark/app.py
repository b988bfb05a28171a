"""The command `slidestat spark JOB`: each job a thin cover of a module of `slidestat.spark`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.options import (
    Bootstrap,
    EveryOption,
    LakeOption,
    MasterOption,
    Registry,
    TopologyArgument,
)
from slidestat.cli.spark.history import backfill, rollup
from slidestat.cli.spark.streaming import stream
from slidestat.options import AUDITED_SHARE, DEFAULT_BOOTSTRAP, RECORDS_PER_BATCH, Tables

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
            help="What a new lake is kept in: Parquet files alone, the default, or Delta tables.",
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
    from slidestat.declare.lengths import duration_ms
    from slidestat.engine.emissions.output_codec import avro_codec
    from slidestat.spark.lake.session import session_of_lake

    declared = load_declaration(topology)
    require_emissions(declared, "a lake")
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
    from slidestat.declare.forms.files import load_declaration
    from slidestat.declare.topology import require_times
    from slidestat.spark.session import spark_session

    declared = load_declaration(topology)
    require_times(declared.answering, "a report")
    with spark_session("report", master) as spark:
        from slidestat.spark.lake.lake import Lake
        from slidestat.spark.report.page import report_data, write_page

        file = output or Path(f"{declared.name}-report.html")
        write_page(report_data(spark, Lake(lake, declared.name), key or []), file)
    print(f"{file}: open it in a browser")


# A job is a function with typer's annotations; its name is the command's.
JOBS: tuple[Callable[..., None], ...] = (
    ingest,
    compact,
    audit,
    report,
    backfill,
    rollup,
    stream,
)

for _job in JOBS:
    app.command()(_job)
