"""Format the output of `slidestat topics`."""

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from slidestat.admin.topics import TopicOutcome, TopicRow


def show_topics(rows: Sequence[TopicRow], *, as_json: bool) -> None:
    """Print a table of topics, or one JSON object a line with the fields of TopicRow."""
    if as_json:
        for row in rows:
            print(msgspec.json.encode(row).decode())
        return
    if not rows:
        print("There are no topics.")
        return
    table = Table("topic")
    for heading in ("partitions", "records, at most", "retention", "cleanup"):
        table.add_column(heading, justify="left" if heading == "cleanup" else "right")
    for row in rows:
        table.add_row(
            row.name, f"{row.partitions}", f"{row.records:,}", row.retention, row.cleanup_policy
        )
    Console(highlight=False, markup=False).print(table)


def show_outcomes(outcomes: Sequence[TopicOutcome], *, as_json: bool) -> None:
    """Print a sentence for each topic asked for, or one JSON object a line with TopicOutcome's
    fields.
    """
    for outcome in outcomes:
        print(msgspec.json.encode(outcome).decode() if as_json else outcome)
