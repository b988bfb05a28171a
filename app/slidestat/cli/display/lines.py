"""Format what `slidestat dlq`, `replay`, `init`, `schema`, `topics` and `produce` print."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Column, Table

from slidestat.cli.display.watch import full_width
from slidestat.cli.options import as_typed
from slidestat.errors import SlidestatError, unknown
from slidestat.schemas.avro import emission_schema
from slidestat.schemas.emission import Emission
from slidestat.schemas.event import EARLIEST_TIME_MS, remark_on_seconds
from slidestat.schemas.publish import PUBLISHED, json_schema
from slidestat.text import counted, iso_time, plain_detail, rfc3339, timestamp_text

if TYPE_CHECKING:
    from slidestat.admin.letters import Letter, Sent
    from slidestat.admin.replay_plan import ReplayPlan
    from slidestat.admin.seed import SeedReport
    from slidestat.admin.topics import TopicOutcome, TopicRow
    from slidestat.declare.topology import Topology
    from slidestat.infer.proposal import Proposal
    from slidestat.infer.proposed_fields import Guess
    from slidestat.infer.sampling import Sample
    from slidestat.produce.produce import OnProgress, ProduceReport
    from slidestat.produce.readers import Reader

_SHOWN_CHARACTERS = 200
_UNDER_REASON = " " * 14
# The message of msgspec for a number of milliseconds that was long ago.
_IS_TOO_EARLY = f">= {EARLIEST_TIME_MS}"


def count_lines(topic: str, letters: Iterable["Letter"], *, as_json: bool) -> Iterator[str]:
    """Yield how many letters have each reason, the most frequent first, with the newest detail."""
    counts: Counter[str] = Counter()
    newest: dict[str, Letter] = {}
    for letter in letters:
        counts[letter.reason] += 1
        newest[letter.reason] = letter
    if as_json:
        yield from (
            msgspec.json.encode({"reason": reason, "letters": count}).decode()
            for reason, count in counts.most_common()
        )
        return
    yield f"{topic}: {counts.total():,} open letters"
    for reason, count in counts.most_common():
        one = newest[reason]
        yield f"  {count:>10,}  {reason:<16}  such as: {plain_detail(one.detail)}"
        yield f"{_UNDER_REASON}of the record: {_shown(one.value, one.value_base64)}"
        if _IS_TOO_EARLY in one.detail:
            yield f'{_UNDER_REASON}Are these seconds? Then declare time_format = "s".'


def letter_lines(letters: Iterable["Letter"], limit: int, *, as_json: bool) -> Iterator[str]:
    """Yield the letters one by one: for a person, or whole, as lines of JSON."""
    if as_json:
        yield from (msgspec.json.encode(letter).decode() for letter in letters)
        return
    shown = 0
    for letter in letters:
        if shown == limit:
            yield "... and more; --limit shows them, --json gives all, to be corrected."
            return
        shown += 1
        yield (
            f"{letter.topic}/{letter.partition}/{letter.offset}  {letter.reason}:"
            f" {plain_detail(letter.detail)}  ({timestamp_text(max(letter.timestamp_ms, 0))})"
        )
        key = _shown(letter.key, letter.key_base64)
        value = _shown(letter.value, letter.value_base64)
        yield f"    key    {key}{_cut(letter.original_key_bytes)}"
        yield f"    value  {value}{_cut(letter.original_value_bytes)}"
        for header in letter.headers:
            yield f"    header {header.name} = {_shown(header.value, header.value_base64)}"
        if letter.original_header_count is not None:
            yield f"    (the first of {letter.original_header_count:,} headers)"
    if not shown:
        yield "No open letters."


def sent_lines(sent: "Sent", source: str) -> Iterator[str]:
    """Yield the lines about which corrected letters were sent."""
    yield f"{sent.sent:,} records sent to {source}, {sent.closed_before:,} had been sent before."
    if sent.unchanged:
        yield (
            f"{sent.unchanged:,} of them are as they were: they come back as letters, unless what"
            " refused them has changed, such as the declaration."
        )
    if sent.unknown:
        yield (
            f"{sent.unknown:,} of them are no letters of this topic: those of late records are"
            " closed with --late, those of dead letters without it."
        )
    if sent.sent:
        yield (
            "Those older than the watermark of their partition are late: for those, lengthen the"
            " lateness and replay."
        )


def _cut(original_bytes: int | None) -> str:
    return "" if original_bytes is None else f" (the beginning of {original_bytes:,} bytes)"


def _shown(text: str | None, encoded: str | None) -> str:
    if encoded is not None:
        return f"(no text, base64) {encoded[:_SHOWN_CHARACTERS]}"
    if text is None:
        return "(none)"
    # Escaped where something could act on the terminal.
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:_SHOWN_CHARACTERS])
    more = len(text) - _SHOWN_CHARACTERS
    return f"{shown} ... {more:,} characters more" if more > 0 else shown


def plan_lines(plan: "ReplayPlan") -> Iterator[str]:
    """Yield the plan in a few lines."""
    topology = plan.topology
    yield (
        f"reads       up to {plan.records:,} records of {topology.events_topic},"
        f" {len(plan.partitions)} partitions"
    )
    if plan.moved_from:
        yield f"            which were moved from {', '.join(plan.moved_from)}"
    for p in plan.partitions:
        since = _since(p.silent_until)
        yield f"            partition {p.partition}: offsets {p.start:,} to {p.end:,}{since}"
    yield f"writes      {', '.join(_written(topology))}"
    if plan.in_place:
        yield (
            f"sets back   the offsets of the group {topology.application_id} and its states in"
            f" {topology.changelog_topic}"
        )
        yield (
            "            states are then of these records alone, without what a seed counted from"
            " files"
        )
        yield (
            "            what it has written stays; what is written again has the same keys, so"
            " that compaction or an upsert leaves the new"
        )
    else:
        yield (
            f"keeps       offsets and states of its own, of the group {topology.application_id};"
            " the live group goes on"
        )
    for p in plan.partitions:
        if p.newest_ms is not None:
            yield (
                f"beware      no record of partition {p.partition} has a timestamp from then on:"
                f" its last one has {p.newest_ms} ms"
                f"{remark_on_seconds(p.newest_ms) or f', {iso_time(p.newest_ms)}'}"
            )
        if p.waiting:
            yield (
                f"beware      {p.waiting:,} records of partition {p.partition} wait behind a"
                " transaction that its producer has not ended: they are not replayed"
            )
    lost = [p for p in plan.partitions if p.oldest > 0 and p.start == p.oldest]
    if lost:
        positions = ", ".join(f"{p.oldest:,} of partition {p.partition}" for p in lost)
        yield (
            f"beware      the broker has deleted the records before {positions}: windows that reach"
            " back there count only what is left"
        )


def plan_json(plan: "ReplayPlan") -> str:
    """Return the plan as one JSON object, with the fields of PartitionPlan for each partition."""
    topology = plan.topology
    return msgspec.json.encode(
        {
            "source": topology.events_topic,
            **({"moved_from": plan.moved_from} if plan.moved_from else {}),
            "group": topology.application_id,
            "in_place": plan.in_place,
            "records": plan.records,
            "writes": _written(topology),
            "partitions": plan.partitions,
        }
    ).decode()


def result_lines(plan: "ReplayPlan", declared: str) -> Iterator[str]:
    """Yield the result, and the next steps."""
    topology = plan.topology
    yield f"Replayed: {topology.output_topic} is complete up to there."
    if plan.in_place:
        yield f"To go on from there: {as_typed('run', declared)}"
    elif plan.moved_from:
        yield (
            "To keep it up to date beside the live group, which goes on moving the records, run"
            f" the topology with group = {topology.group_name!r}, output = {topology.output!r} and"
            f" source = {topology.source!r}, without repartition."
        )
    else:
        yield (
            f"To keep it up to date beside the live group, run the topology with"
            f" group = {topology.group_name!r} and output = {topology.output!r};"
            " to put it in the other's place, stop both and run it without that output."
        )


def _written(topology: "Topology") -> list[str]:
    alerts = [] if topology.alert_topic is None else [topology.alert_topic]
    return [topology.output_topic, topology.late_topic, topology.dead_letter_topic, *alerts]


def _since(silent_until: int | None) -> str:
    if silent_until is None:
        return ""
    return f", emits windows that end after {rfc3339(silent_until)}"


def sample_lines(sample: "Sample", proposal: "Proposal") -> Iterator[str]:
    """Yield lines about the topic, the guesses and their reasons, and the warnings."""
    rate = sample.records_per_second
    pace = ""
    if rate is not None:
        about = f"about {rate:,.0f}" if rate >= 1 else "less than 1"
        pace = f", which came at {about} a second"
    records, partitions = (
        counted(count, noun)
        for count, noun in ((sample.topic_records, "record"), (sample.partitions, "partition"))
    )
    yield f"topic       {sample.topic}: {records} in {partitions}{pace}"
    yield f"looked at   {len(sample.records):,}, from the first to the newest"
    for what, guess in (
        ("key", proposal.key),
        ("time", proposal.time),
        ("value", proposal.value),
        ("distinct", proposal.distinct),
        ("top", proposal.top),
        ("lateness", proposal.lateness),
    ):
        if guess is not None:
            yield f"{what:<11} {_guessed(guess)}: {guess.reason}"
    yield f"windows     {', '.join(proposal.windows.lengths)}: {proposal.windows.reason}"
    several = proposal.keys_seen > proposal.sampled / 4
    yield f"keys        {'more than ' if several else ''}{proposal.keys_seen:,} in the sample"
    for warning in proposal.warnings:
        yield f"beware      {warning}"


def _guessed(guess: "Guess") -> str:
    return guess.value if isinstance(guess.value, str) else ".".join(guess.value)


_NAMED = {
    name if version == 1 else f"{name}.v{version}": (version, struct)
    for name, versions in PUBLISHED.items()
    for version, struct in versions.items()
}


def schema_lines(record: str | None, form: str) -> list[str]:
    """Return the schema of a record, "json" or "avro", or without one a line for each record that
    has one. A record's second version is NAME.v2.

    Raises SlidestatError for another record.
    """
    if record is None:
        return [
            f"{name}: {(struct.__doc__ or '').partition(chr(10))[0]}"
            for name, (_, struct) in _NAMED.items()
        ]
    if record not in _NAMED:
        raise unknown(f"There is no schema of {record!r}.", record, _NAMED)
    version, struct = _NAMED[record]
    if form == "avro":
        if not issubclass(struct, Emission):
            raise SlidestatError(
                f"A record of the kind {record} is JSON, not Avro.", "Only emissions may be Avro."
            )
        return [emission_schema(struct)]
    return [json.dumps(json_schema(struct, version), indent=2)]


def show_topics(rows: Sequence["TopicRow"], *, as_json: bool) -> None:
    """Print a table of topics, or one JSON object a line with the fields of TopicRow."""
    if as_json:
        for row in rows:
            print(msgspec.json.encode(row).decode())
        return
    if not rows:
        print("There are no topics.")
        return
    table = Table(Column("topic", overflow="fold"))
    for heading in ("partitions", "records, at most", "retention", "cleanup"):
        table.add_column(heading, justify="left" if heading == "cleanup" else "right")
    for row in rows:
        table.add_row(
            row.name, f"{row.partitions}", f"{row.records:,}", row.retention, row.cleanup_policy
        )
    print_whole(Console(highlight=False, markup=False), table)


def print_whole(console: Console, table: Table, least: int = 0) -> None:
    """Print a table that needs `least` columns to be read; in a pipe, which has no width, each row
    on one line, where grep finds the longest name.
    """
    if console.is_terminal:
        console.width = max(console.width, least)
        console.print(table)
        return
    console.width = full_width(console, table)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def show_outcomes(outcomes: Sequence["TopicOutcome"], *, as_json: bool) -> None:
    """Print a sentence for each topic asked for, or a TopicOutcome a line as JSON."""
    for outcome in outcomes:
        print(msgspec.json.encode(outcome).decode() if as_json else outcome)


@contextmanager
def produce_bar(label: str) -> Iterator["OnProgress"]:
    """Show a progress bar on standard error, for `produce_file`'s `on_progress`; terminals only."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task(label, total=None, events=0)

        def show(reader: "Reader", events: int) -> None:
            progress.update(task, completed=reader.done, total=reader.total or None, events=events)

        yield show


def show_report(report: "ProduceReport", *, as_json: bool) -> None:
    """Print the report on standard output: as text, or ProduceReport as one JSON object."""
    for line in [msgspec.json.encode(report).decode()] if as_json else _lines(report):
        print(line)


def _lines(report: "ProduceReport") -> list[str]:
    """Return the report as text: what was left out, if anything, and what was sent."""
    lines = []
    if report.skipped:
        lines.append(
            f"{counted(report.skipped, 'bad row')} left out, the first: {report.first_skipped}"
        )
    lines.append(
        f"{counted(report.sent, 'event')} sent to {report.topic} in {report.seconds:.1f} s "
        f"({report.events_per_s:,.0f} events/s)"
    )
    if report.negative:
        # It is not known here which statistics will read the values.
        lines.append(
            f"{counted(report.negative, 'value')} below 0: a topology with a sum of them sets such"
            " events aside, on its topic of dead letters"
        )
    if report.non_numbers:
        lines.append(
            f"{counted(report.non_numbers, 'value')} no number, the first in"
            f" {report.first_non_number}: a topology with a statistic of numbers sets such events"
            " aside, on its topic of dead letters"
        )
    if report.valueless:
        lines.append(
            f"{counted(report.valueless, 'event')} without a value: no statistic of it counts such"
        )
    if report.zoneless:
        lines.append(f"{counted(report.zoneless, 'time')} without a time zone: taken for UTC")
    if report.unkeyed:
        lines.append(
            f"{counted(report.unkeyed, 'line')} went without a key, to any partition: --key PATH"
            " says where it is"
        )
    return lines


def report_lines(report: "SeedReport", declared: str) -> Iterator[str]:
    """Yield the result in a few lines, and the next step."""
    yield f"read        {report.read:,} rows; {report.left:,} from --until on are left to the topic"
    for it in report.partitions:
        counters = it.counters
        newest = "" if it.newest_ms is None else f", the newest of {iso_time(it.newest_ms)}"
        refused = counters.dead + counters.late
        yield (
            f"partition {it.partition}: {counters.counted:,} counted{newest};"
            f" {refused:,} refused, {counters.passed_over:,} passed over;"
            f" goes on at offset {it.next_offset:,}"
        )
        for reason, detail in it.refused.items():
            yield f"            refused as {reason}, such as: {plain_detail(detail)}"
        if it.firing:
            yield f"            alerts that fire, and were written: {len(it.firing):,}"
    yield f"Seeded. To go on with the topic: {as_typed('run', declared)}"
