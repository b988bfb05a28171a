"""Arguments and options that several commands have, and commands as one types them."""

import shlex
from typing import Annotated

import typer

from slidestat.options import BOOTSTRAP_VARIABLE, REGISTRY_VARIABLE, TimeUnit

NAME_OR_FILE = "NAME|FILE.py|FILE.toml"
TOPOLOGY = "A topology that ships, or a file that has one."

Bootstrap = Annotated[
    str,
    typer.Option(
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT",
        help="Kafka brokers, several with commas between them.",
    ),
]
Registry = Annotated[
    str,
    typer.Option(
        "--schema-registry",
        envvar=REGISTRY_VARIABLE,
        metavar="URL",
        help="Schema registry, for what is in Avro.",
    ),
]
ObjectALine = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
OneObject = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
TopologyOption = Annotated[
    str | None, typer.Option("--topology", metavar=NAME_OR_FILE, help=TOPOLOGY)
]
TopologyArgument = Annotated[str, typer.Argument(metavar=NAME_OR_FILE, help=TOPOLOGY)]
TimeUnitOption = Annotated[
    TimeUnit, typer.Option(help="What integer times count since 1970-01-01T00:00:00Z.")
]
# For files whose rows are events of a topology; columns have the names of its fields by default.
KeyColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the key.")]
TimeColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the event time.")]
ValueColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the value.")]
LakeOption = Annotated[
    str, typer.Option("--lake", metavar="DIR|URL", help="Where the Parquet files are kept.")
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Where Spark runs; this machine, all cores, by default."
    ),
]
EveryOption = Annotated[
    str | None,
    typer.Option(
        metavar="1m",
        help="Go on until Ctrl-C, with a batch at this interval; without it, take what is "
        "there and end.",
    ),
]


def as_typed(*words: str) -> str:
    """Return the command with these words as a shell takes it, whatever a file's name has in it."""
    return shlex.join(["slidestat", *words])
