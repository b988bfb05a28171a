"""What is typed behind a benchmark's name, where it has no options of its own; for any Python."""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

# Each system of `systems` has them first.
OF_A_SYSTEM = ("bootstrap", "topic", "group", "progress_file", "data_dir", "partitions")


def typed(description: str | None, *names: str, **numbers: int) -> list[Any]:
    """Return the values typed, in order; --help prints the description instead, and ends the run.

    A name is a word, one with --before it a switch, one with ... behind it any number of words. Of
    numbers, which may be 50_000 or 1e9, the last may be left out: their defaults are given.
    """
    module = getattr(sys.modules["__main__"].__spec__, "name", "").removesuffix(".__main__")
    parser = ArgumentParser(
        f"python -m {module}",
        description=description,
        formatter_class=RawDescriptionHelpFormatter,
    )
    for name in names:
        if name.startswith("--"):
            parser.add_argument(name, action="store_true")
        elif name.endswith("..."):
            parser.add_argument(name.removesuffix("..."), nargs="*")
        else:
            parser.add_argument(name)
    for name, default in numbers.items():
        parser.add_argument(
            name, nargs="?", type=whole_number, default=default, help=f"{default:,} by default"
        )
    return list(vars(parser.parse_args()).values())


def whole_number(text: str) -> int:
    """Read a whole number."""
    return int(float(text))
