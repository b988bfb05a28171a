"""Commands that count history: once more what the source still has, or first what files have."""

from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.options import Bootstrap, OneObject, Registry, TopologyArgument
from slidestat.errors import SlidestatError
from slidestat.options import DEFAULT_BOOTSTRAP, EARLIEST, LATEST, TIME_UNIT, TimeUnit

_BeginOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar=f"{EARLIEST}|TIME|OFFSET",
        help="Emit the windows that end after this time, or after the record at this offset.",
    ),
]
_EndOption = Annotated[
    str, typer.Option("--to", metavar=f"{LATEST}|TIME|OFFSET", help="Read records before this.")
]
_IntoOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Write NAME-statistics and so on, and leave the live group alone; without it, the"
        " group's own state is emptied and its output written again.",
    ),
]
_DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and end.")]
_DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the tables; by default one that no worker uses."),
]


def replay(
    topology: TopologyArgument,
    begin: _BeginOption = EARLIEST,
    end: _EndOption = LATEST,
    into: _IntoOption = None,
    dry_run: _DryRunOption = False,
    as_json: OneObject = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data_dir: _DataDirOption = None,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Reprocess history: the same records give the same output, under the same keys.

    Example: slidestat replay flights --dry-run --json

    Example: slidestat replay latency.toml --from 2026-05-01T12:00:00Z --into latency-again
    """
    if as_json and not dry_run:
        raise SlidestatError(
            "--json is given without --dry-run.", "Only the plan is printed as JSON: give both."
        )
    from slidestat.admin.replay_plan import plan_replay
    from slidestat.admin.state_reset import require_no_workers, reset_state
    from slidestat.admin.worker_topics import prepare_topics, remarks_on_times
    from slidestat.cli.display.lines import plan_json, plan_lines, result_lines
    from slidestat.cli.start_worker import prepared_worker, start_worker
    from slidestat.declare.forms.files import load_topology
    from slidestat.log import logging_to_stderr

    declared = load_topology(topology)
    plan = plan_replay(bootstrap, declared, begin, end, into)
    if as_json:
        print(plan_json(plan))
    else:
        for line in plan_lines(plan):
            print(line)
        for remark in remarks_on_times(bootstrap, plan.topology):
            print(f"beware      {remark.message}\n            {remark.advice}")
    require_no_workers(bootstrap, plan.topology, "replay beside them with --into")
    if as_json:
        return
    if dry_run:
        print("Nothing was done: this is a dry run.")
        return
    if not yes:
        try:
            typer.confirm("Go on?", abort=True)
        except typer.Abort:
            raise SlidestatError(
                "Nothing was done.", "Answer y, or give --yes where nobody can be asked."
            ) from None
    prepare_topics(bootstrap, plan.topology)
    keys = reset_state(bootstrap, plan.topology, {p.partition: p.start for p in plan.partitions})
    print(f"The state is empty, {keys:,} keys are forgotten; the replay begins.", flush=True)
    if plan.records:
        with logging_to_stderr():
            start_worker(
                prepared_worker(
                    [plan.topology], bootstrap, data_dir, registry, extent=plan.extent, anyway=True
                )
            )
    for line in result_lines(plan, topology):
        print(line)


_FilesOption = Annotated[
    list[str],
    typer.Option(
        metavar="PATH", help="A file, a folder or a pattern; repeat it. Formats as for `produce`."
    ),
]
_CutOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME|OFFSET",
        help="A time: rows are events, those before it are counted, and the topic goes on from it."
        " An offset: rows are records of the topic, and it goes on from there; without it, where"
        " they end.",
    ),
]
_TimeUnitOption = Annotated[
    TimeUnit, typer.Option(help="What integer times count since 1970-01-01T00:00:00Z.")
]


def seed(
    topology: TopologyArgument,
    files: _FilesOption,
    until: _CutOption = None,
    key: Annotated[str | None, typer.Option(help="Column of the key.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the event time.")] = None,
    value: Annotated[str | None, typer.Option(help="Column of the value.")] = None,
    time_unit: _TimeUnitOption = TIME_UNIT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Begin a topology with the history in files: workers go on with the topic, with full windows.

    Example: slidestat seed orders.toml --files history/ --until 2026-05-01T00:00:00Z

    Example: slidestat seed orders.toml --files "archive/*.parquet"
    """
    from slidestat.admin.seed import seed as begin
    from slidestat.cli.display.seed import report_lines
    from slidestat.declare.forms.files import load_topology
    from slidestat.produce.file_records import named_columns

    declared = load_topology(topology)
    report = begin(
        bootstrap, declared, files, until, named_columns(declared, key, time, value), time_unit
    )
    for line in report_lines(report, topology):
        print(line)
