"""The command `slidestat doctor`: what this machine and its brokers have of what is needed."""

from typing import Annotated

import typer

from app.cli_options import Bootstrap
from app.client.options import DEFAULT_BOOTSTRAP


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Check Python, codecs, compiled kernels, disk, Java, the brokers and what they allow.

    Ends with 1 if something is bad. Example: slidestat doctor --bootstrap kafka:9092
    """
    import msgspec

    from app.doctor.examination import examine, line_of
    from app.doctor.finding import Verdict

    bad = False
    for finding in examine(bootstrap):
        bad = bad or finding.verdict is Verdict.BAD
        print(msgspec.json.encode(finding).decode() if as_json else line_of(finding), flush=True)
    if bad:
        raise typer.Exit(1)
