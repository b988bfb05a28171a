"""The commands `slidestat dlq`: what was set aside, by reason, and corrected records sent again."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from slidestat.cli.options import Bootstrap, TopologyArgument
from slidestat.errors import SlidestatError, unknown
from slidestat.options import DEFAULT_BOOTSTRAP

dlq_app = typer.Typer(
    help="Look at dead letters and late records, and send corrected ones again.",
    no_args_is_help=True,
)

Late = Annotated[bool, typer.Option("--late", help="The late records, not the dead letters.")]
Reason = Annotated[
    str | None, typer.Option(metavar="REASON", help="Only letters with this reason.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@dlq_app.command("count")
def count(
    topology: TopologyArgument,
    late: Late = False,
    as_json: Json = False,
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
    as_json: Json = False,
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
    require_topic(bootstrap, topic, f"slidestat run {name}")
    return topic


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise SlidestatError(
            f"{file} cannot be read: {error.strerror}.", "Give a file of corrected letters."
        ) from error
