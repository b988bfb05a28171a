"""The command `slidestat spark JOB`: each job a thin cover of a module of app/analytics."""

from collections.abc import Callable

import typer

from app.cli_spark_history import backfill, rollup

app = typer.Typer(
    help="Jobs on Spark: topics as a lake of Parquet, an audit of every figure, a report.",
    no_args_is_help=True,
)

# A job is a function with typer's annotations; its name is the command's.
JOBS: tuple[Callable[..., None], ...] = (backfill, rollup)

for _job in JOBS:
    app.command()(_job)
