"""`slidestat spark stream`: a cover of `slidestat.spark.streaming`."""

from typing import Annotated

import typer

from slidestat.cli.options import (
    Bootstrap,
    EveryOption,
    LakeOption,
    MasterOption,
    TopologyArgument,
)
from slidestat.options import DEFAULT_BOOTSTRAP, TIME_UNIT, StreamSource


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
    time_unit: Annotated[
        str, typer.Option(help="What times that are whole numbers count: s, ms, us or ns.")
    ] = TIME_UNIT,
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
    from slidestat.declare.lengths import duration_ms
    from slidestat.options import Tables
    from slidestat.spark.lake.session import session_of_lake

    declared = load_topology(topology)
    require_emissions(declared, "a lake")
    every_ms = None if every is None else duration_ms(every, "--every")
    tables = Tables.DELTA if source is StreamSource.DELTA else None
    with session_of_lake("stream", lake, declared.name, master, tables) as (spark, place):
        from slidestat.spark.streaming.job import StreamIntoLake, origin

        rows = origin(spark, declared, source, path, bootstrap)
        job = StreamIntoLake(spark, declared, rows, place, partitions, time_unit)
        for dataset, count in job.run(every_ms).items():
            print(f"{dataset}: {count:,} records")
