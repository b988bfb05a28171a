"""The command `slidestat doctor`: what this machine and its brokers have of what is needed."""

from typing import Annotated

import typer

from slidestat.cli.options import NAME_OR_FILE, Bootstrap, Registry
from slidestat.options import DEFAULT_BOOTSTRAP


def doctor(
    topology: Annotated[
        str | None,
        typer.Argument(
            metavar=f"[{NAME_OR_FILE}]",
            help="Check also what its workers need to be allowed, and whether records of its source"
            " have the fields that it reads.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    registry: Registry = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Check Python, codecs, compiled kernels, disk, Java, the brokers and what they allow.

    Ends with 1 if something is bad. Example: slidestat doctor requests.toml
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
