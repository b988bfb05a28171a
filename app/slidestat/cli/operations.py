"""The commands `slidestat topics`, `doctor`, `alertmanager`, `dlq`, and those that count history:
`replay`, once more what the source still has, and `seed`, first what files have.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slidestat.cli.options import (
    NAME_OR_FILE,
    Bootstrap,
    KeyColumn,
    ObjectALine,
    OneObject,
    Registry,
    TimeColumn,
    TimeUnitOption,
    TopologyArgument,
    TopologyOption,
    ValueColumn,
    as_typed,
)
from slidestat.errors import SlidestatError, unknown
from slidestat.log import TIME_FORM
from slidestat.options import DEFAULT_BOOTSTRAP, EARLIEST, FOREVER, LATEST, PARTITIONS, TIME_UNIT

if TYPE_CHECKING:
    from slidestat.declare.declared import Declared

topics_app = typer.Typer(help="Create topics, and list them.", no_args_is_help=True)


@topics_app.command("create")
def topics_create(
    name: Annotated[str | None, typer.Argument(help="A topic; or give --topology.")] = None,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions.")] = PARTITIONS,
    topology: TopologyOption = None,
    retention: Annotated[
        str,
        typer.Option(
            metavar=f"{FOREVER}|7d",
            help="How long the broker keeps records. It goes by their event times: "
            "under a week's retention, last year's events are deleted before they are read, and "
            "what is counted of them soon after it is written.",
        ),
    ] = FOREVER,
    as_json: ObjectALine = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic, or the four topics of a topology; those that exist are left as they are.

    Example: slidestat topics create --topology flights --partitions 4
    """
    from slidestat.admin.topics import create_topic, create_topology_topics, retention_config
    from slidestat.cli.display.lines import show_outcomes

    if (name is None) == (topology is None):
        raise SlidestatError(
            "It is not clear which topic to create.", "Give one name, or --topology, not both."
        )
    if topology is not None:
        from slidestat.declare.forms.files import load_topology

        outcomes = create_topology_topics(bootstrap, load_topology(topology), partitions, retention)
    else:
        assert name is not None  # noqa: S101  # The check above.
        outcomes = [create_topic(bootstrap, name, partitions, retention_config(retention))]
    show_outcomes(outcomes, as_json=as_json)


@topics_app.command("list")
def topics_list(
    as_json: ObjectALine = False,
    internal: Annotated[bool, typer.Option("--all", help="Kafka's own topics too.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the topics: partitions, records, retention, cleanup policy.

    Example: slidestat topics list --json
    """
    from slidestat.admin.topics import list_topics
    from slidestat.cli.display.lines import show_topics

    show_topics(list_topics(bootstrap, internal=internal), as_json=as_json)


def doctor(
    topology: Annotated[
        str | None,
        typer.Argument(
            metavar=f"[{NAME_OR_FILE}]",
            help="Check also what its workers need to be allowed, and whether records of its source"
            " have the fields that it reads.",
        ),
    ] = None,
    as_json: ObjectALine = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Check Python, codecs, compiled kernels, disk, Java, the brokers and what they allow.

    Ends with exit code 1 if something is bad.

    Example: slidestat doctor requests.toml
    """
    import msgspec

    from slidestat.declare.forms.files import load_declaration
    from slidestat.doctor.examination import examine, line_of
    from slidestat.doctor.finding import Verdict

    declared = None if topology is None else load_declaration(topology)
    bad = False
    for finding in examine(bootstrap, declared, registry):
        bad = bad or finding.verdict is Verdict.BAD
        print(msgspec.json.encode(finding).decode() if as_json else line_of(finding), flush=True)
    if bad:
        raise typer.Exit(1)


def alertmanager(
    topology: TopologyArgument,
    url: Annotated[
        list[str],
        typer.Option(
            metavar="URL",
            help="An Alertmanager, such as http://127.0.0.1:9093; repeat it for each of several.",
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Send the alerts of a topology that fire to one or several Alertmanagers, until Ctrl-C.

    Credentials are in ALERTMANAGER_USERNAME and ALERTMANAGER_PASSWORD, or in ALERTMANAGER_TOKEN.
    A secret may be in a file that ALERTMANAGER_PASSWORD_FILE or ALERTMANAGER_TOKEN_FILE names.
    ALERTMANAGER_CA_FILE names the certificates of a private authority.

    Example: slidestat alertmanager latency.toml --url http://127.0.0.1:9093
    """
    from slidestat.admin.alertmanager import AlertRelay
    from slidestat.declare.forms.files import load_declaration
    from slidestat.kafka.connection import require_topic
    from slidestat.kafka.read.topic_reader import AlertReader

    declared = load_declaration(topology)
    topic = require_alert_topic(declared)

    def reader() -> AlertReader:
        partitions = require_topic(bootstrap, topic, as_typed("run", topology))
        return AlertReader(bootstrap, topic, range(partitions), from_beginning=True)

    # An alert that is no longer declared never ends.
    names = {alert.name for alert in declared.alerts}

    def say(line: str) -> None:
        print(time.strftime(TIME_FORM), line, flush=True)

    relay = AlertRelay(url, reader, say, names)
    with suppress(KeyboardInterrupt):  # The normal end of sending.
        relay.run()


def require_alert_topic(declared: "Declared") -> str:
    """Return the topic of a declaration's alerts; raises SlidestatError where it has none."""
    if declared.alert_topic is None:
        raise SlidestatError(
            f"{declared.name} has no alerts.",
            "Declare them: [[alerts]] in TOML, alerts=[Alert(...)] in Python.",
        )
    return declared.alert_topic


dlq_app = typer.Typer(
    help="Look at dead letters and late records, and send corrected ones again.",
    no_args_is_help=True,
)

Late = Annotated[bool, typer.Option("--late", help="The late records, not the dead letters.")]
Reason = Annotated[
    str | None, typer.Option(metavar="REASON", help="Only letters with this reason.")
]


@dlq_app.command("count")
def count(
    topology: TopologyArgument,
    late: Late = False,
    as_json: ObjectALine = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Count the open letters by reason.

    Example: slidestat dlq count flights
    """
    from slidestat.admin.letters import open_letters
    from slidestat.cli.display.lines import count_lines

    topic = _topic(topology, late, bootstrap)
    for line in count_lines(topic, open_letters(bootstrap, topic), as_json=as_json):
        print(line)


@dlq_app.command("show")
def show(
    topology: TopologyArgument,
    reason: Reason = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show to a person.")] = 20,
    late: Late = False,
    as_json: ObjectALine = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show open letters: where each was, why it was set aside, its key and value.

    Example: slidestat dlq show flights --reason wrong-type

    Example: slidestat dlq show flights --json > letters.jsonl
    """
    from slidestat.admin.letters import open_letters
    from slidestat.cli.display.lines import letter_lines
    from slidestat.schemas import dead_letter

    if reason is not None and reason not in set(dead_letter.Reason):
        raise unknown(f"There is no reason {reason!r}.", reason, dead_letter.Reason)
    letters = open_letters(bootstrap, _topic(topology, late, bootstrap), reason)
    for line in letter_lines(letters, limit, as_json=as_json):
        print(line)


@dlq_app.command("send")
def send(
    topology: TopologyArgument,
    file: Annotated[
        str,
        typer.Argument(
            help="Lines as `dlq show --json` gives them, corrected; - for standard input."
        ),
    ],
    late: Late = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Send corrected letters to the topology's source, each once, and close them.

    Example: slidestat dlq send flights letters.jsonl
    """
    from slidestat.admin.letters import read_letters, send_again
    from slidestat.cli.display.lines import sent_lines
    from slidestat.declare.forms.files import load_topology

    declared = load_topology(topology)
    letters = read_letters(_read(file), file)
    sent = send_again(bootstrap, declared, _topic(topology, late, bootstrap), letters)
    for line in sent_lines(sent, declared.sources_text):
        print(line)


def _topic(name: str, late: bool, bootstrap: str) -> str:
    """Return the topic of the letters of a topology or a referee; its first worker creates it."""
    from slidestat.declare.forms.files import load_declaration
    from slidestat.kafka.connection import require_topic

    declared = load_declaration(name)
    topic = declared.late_topic if late else declared.dead_letter_topic
    require_topic(bootstrap, topic, as_typed("run", name))
    return topic


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise SlidestatError(
            f"{file} cannot be read: {error.strerror}.", "Give a file of corrected letters."
        ) from error


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
    Path | None, typer.Option(help="Folder of the tables; by default one that no worker uses.")
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
    from slidestat.cli.start_worker import prepared_worker, require_startable, start_worker
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
    if plan.records:
        require_startable(plan.topology, bootstrap, data_dir, registry)
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


def seed(
    topology: TopologyArgument,
    files: _FilesOption,
    until: _CutOption = None,
    key: KeyColumn = None,
    time: TimeColumn = None,
    value: ValueColumn = None,
    time_unit: TimeUnitOption = TIME_UNIT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Begin a topology with the history in files: workers go on with the topic, with full windows.

    Example: slidestat seed orders.toml --files history/ --until 2026-05-01T00:00:00Z

    Example: slidestat seed orders.toml --files "archive/*.parquet"
    """
    from slidestat.admin.seed import seed as begin
    from slidestat.cli.display.lines import report_lines
    from slidestat.declare.forms.files import load_topology
    from slidestat.produce.file_records import named_columns

    declared = load_topology(topology)
    report = begin(
        bootstrap, declared, files, until, named_columns(declared, key, time, value), time_unit
    )
    for line in report_lines(report, topology):
        print(line)
