"""A topology or a referee in a TOML file: its fields are the keys, each statistic is a table.

name = "latency"
source = "requests"
span = "1h"
every = "1m"

[[statistics]]
kind = "quantile"
field = "took.ms"
quantiles = [0.5, 0.99]

The `of` of a referee is the name of a topology that ships, or a file, seen from the referee's own:

of = "latency.toml"
patience = "1m"
"""

import tomllib
from collections.abc import Callable
from pathlib import Path

from slidestat.declare.forms.tables import referee_of, topology_of, with_schema
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError

_OF = "of"


def declared_in_toml(file: Path, load: Callable[[str], Topology]) -> Topology | Referee:
    """Return the topology or the referee that a file declares; `load` finds the topology of a
    referee.

    Raises SlidestatError that begins with the file, and the line or the field that is at fault.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise SlidestatError(f"{file}: {error}.", "Fix the TOML there.") from error
    except UnicodeDecodeError as error:
        raise SlidestatError(f"{file} is not UTF-8 text.", "Save it as UTF-8.") from error
    except ValueError as error:  # An integer of thousands of digits is none that Python reads.
        raise SlidestatError(f"{file}: {error}.", "Fix the number there.") from error
    except RecursionError as error:
        raise SlidestatError(
            f"{file} is nested too deep.", "A topology has fields, and tables of statistics."
        ) from error
    except OSError as error:
        raise SlidestatError(
            f"{file} cannot be read: {error.strerror}.", "Check the file and its permissions."
        ) from error
    try:
        if _OF in table:
            return referee_of(table | {_OF: load(_seen_from(file, table[_OF]))})
        return topology_of(with_schema(table, file.parent))
    except SlidestatError as error:
        raise SlidestatError(f"{file}: {error.message}", error.advice) from error


def _seen_from(file: Path, name: object) -> str:
    if not isinstance(name, str):
        raise SlidestatError(
            f"{_OF} is {name!r}.", 'Give the topology\'s name or file: of = "latency.toml".'
        )
    beside = file.parent / name
    return str(beside) if beside.is_file() else name
