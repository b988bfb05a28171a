"""A topology in a TOML file: its fields are the keys, each statistic is a table.

name = "latency"
source = "requests"
span = "1h"
every = "1m"

[[statistics]]
kind = "quantile"
field = "took.ms"
quantiles = [0.5, 0.99]
"""

import tomllib
from pathlib import Path

from app.declared.tables import topology_of
from app.errors import SlidestatError
from app.streaming.topology import Topology


def topology_of_toml(file: Path) -> Topology:
    """The topology that a file declares; raises SlidestatError that begins with the file, and the
    line or the field that is at fault.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise SlidestatError(f"{file}: {error}.", "Mend the TOML there.") from error
    except UnicodeDecodeError as error:
        raise SlidestatError(f"{file} is not UTF-8 text.", "Save it as UTF-8.") from error
    except ValueError as error:  # An integer of thousands of digits is none that Python reads.
        raise SlidestatError(f"{file}: {error}.", "Mend the number there.") from error
    except RecursionError as error:
        raise SlidestatError(
            f"{file} is nested too deep.", "A topology has fields, and tables of statistics."
        ) from error
    except OSError as error:
        raise SlidestatError(
            f"{file} cannot be read: {error.strerror}.", "Check the file and its permissions."
        ) from error
    try:
        return topology_of(table)
    except SlidestatError as error:
        raise SlidestatError(f"{file}: {error.message}", error.advice) from error
