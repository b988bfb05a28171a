"""Find a topology by name among those that ship, or in a Python or TOML file."""

import importlib.util
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, is_dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType

import slidestat
from slidestat.declare.declared import Declared
from slidestat.declare.forms.tables import referee_of, topology_of, with_schema
from slidestat.declare.referee import Referee
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError, near_name, shown

# A topology or a referee in a TOML file: its fields are the keys, each statistic is a table.
#
# name = "latency" source = "requests" span = "1h" every = "1m"
#
# [[statistics]] kind = "quantile" field = "took.ms" quantiles = [0.5, 0.99]
#
# The `of` of a referee is the name of a topology that ships, or a file, seen from the referee's
# own:
#
# of = "latency.toml" patience = "1m"

_OF = "of"


def declared_in_toml(file: Path, load: Callable[[str], Topology]) -> Declared:
    """Return the topology or the referee that a file declares; `load` finds a referee's topology.

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


# Find the declarations that ship: in the package from a wheel, else at the top of the checkout.

_CHECKOUT = Path(__file__).parents[4]


def shipped_topologies() -> Traversable:
    """Return the folder of the declarations that ship, `NAME.py` each."""
    inside = resources.files("slidestat") / "topologies"
    return inside if inside.is_dir() else _CHECKOUT / "topologies"


_VARIABLE = "topology"
_SUFFIXES = (".py", ".toml")


def list_topologies() -> list[str]:
    """Return the names of the topologies that ship."""
    files = (Path(entry.name) for entry in shipped_topologies().iterdir())
    return sorted(file.stem for file in files if file.suffix == ".py" and file.stem != "__init__")


def load_topology(name_or_path: str) -> Topology:
    """Return a shipped topology, or a file's; raises SlidestatError, also for a referee."""
    declared = load_declaration(name_or_path)
    if declared.counted is None:
        # A ranking has no figure to watch, ask for or draw.
        answers, jobs = "`watch`, `query`, ", "`audit` and `report`"
        if declared.answering.rankings:
            answers, jobs = "", "and `audit`"
        raise SlidestatError(
            f"{name_or_path!r} is a referee, which has no events of its own.",
            f"`slidestat run`, {answers}`dlq count` and `dlq show`, and `slidestat spark ingest`"
            f"{',' if answers else ''} {jobs} take one; name the topology that it is of.",
        )
    return declared.counted


def load_declaration(name_or_path: str) -> Declared:
    """Return the topology or the referee of a shipped name, or of a file, whose path ends in ".py"
    or ".toml".

    A Python file is run: give only one that you trust. Raises SlidestatError for an unknown name, a
    missing file, one that fails, and one that declares no topology.
    """
    if name_or_path.endswith(_SUFFIXES):
        file = Path(name_or_path)
        if not _is_file(name_or_path):
            raise SlidestatError(f"There is no file {file}.", "Check the path of the topology.")
        return declared_in_toml(file, load_topology) if file.suffix == ".toml" else _from_file(file)
    shipped = list_topologies()
    if name_or_path not in shipped:
        if _is_file(name_or_path):
            raise SlidestatError(
                f"{name_or_path} is no topology: the file of one ends in .py or .toml.",
                "Name the file of the topology; `slidestat init TOPIC` writes one for a topic.",
            )
        # A folder and "", which a variable that is not set gives, are no files: `with_suffix`
        # fails.
        stem = name_or_path.removesuffix(Path(name_or_path).suffix)
        files = [f"{stem}{suffix}" for suffix in _SUFFIXES]
        there = [file for file in files if _is_file(file)]
        guess = f"Did you mean {there[0]}? " if there else ""
        raise SlidestatError(
            f"There is no topology {name_or_path!r}.",
            f"{guess}Name one of {', '.join(shipped)}, or give the path of a .py or .toml file.",
        )
    with resources.as_file(shipped_topologies() / f"{name_or_path}.py") as file:
        return _from_file(file)


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError as error:  # A text of a topology in place of its name, or a folder of others.
        raise SlidestatError(
            f"There is no topology at {shown(path)}: {error.strerror}.",
            "Give the path of a .py or .toml file that this user can read.",
        ) from error


def _from_file(file: Path) -> Declared:
    variables = _run(file)
    topology = variables.get(_VARIABLE)
    if isinstance(topology, Topology | Referee):
        return topology
    others = [name for name, value in variables.items() if isinstance(value, Topology)]
    if len(others) > 1:
        raise SlidestatError(
            f"{file} defines the topologies {', '.join(others)}, and none is named `topology`.",
            "Keep one topology a file, in the variable `topology`.",
        )
    if others:
        raise SlidestatError(
            f"{file} defines the topology as `{others[0]}`.", "Rename the variable to `topology`."
        )
    raise SlidestatError(
        f"{file} defines no topology.",
        "Write `from slidestat import Topology` and `topology = Topology(…)` in it.",
    )


def _run(file: Path) -> dict[str, object]:
    spec = importlib.util.spec_from_file_location("slidestat_topology", file)
    if spec is None or spec.loader is None:
        raise SlidestatError(f"{file} is not a Python file.", "Give a .py file.")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and annotations in the file look their module up by name. A referee's file loads
    # that of its topology.
    loading = sys.modules.get(spec.name)
    sys.modules[spec.name] = module
    try:
        # The file's own prints must not mix with the command's output, such as JSON for scripts.
        with _importing_beside(file), redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except SlidestatError as error:
        raise SlidestatError(f"{file}: {error.message}", error.advice) from error
    except SyntaxError as error:
        raise SlidestatError(
            f"{file}, line {error.lineno}: {error.msg}.", "Fix the syntax there."
        ) from error
    except SystemExit as error:
        raise SlidestatError(
            f"{file}, line {_line_of(error, spec.origin)}: it ends the program (SystemExit:"
            f" {error}), and declares no topology.",
            "Remove that, or put it below `if __name__ == '__main__':`.",
        ) from error
    except Exception as error:  # The file is the user's: anything may come.
        raise SlidestatError(
            f"{file}, line {_line_of(error, spec.origin)}: {type(error).__name__}: {error}.",
            f"{_meant(error)}Fix the file; `python FILE` shows where it fails.",
        ) from error
    finally:
        del sys.modules[spec.name]
        if loading is not None:
            sys.modules[spec.name] = loading
    return vars(module)


@contextmanager
def _importing_beside(file: Path) -> Iterator[None]:
    """Let a file import the modules in its folder, as Python lets a script. They are its own: a
    file elsewhere imports those of its own folder, even of the same names.
    """
    folder = str(file.resolve().parent)
    before = set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - before:
            first = name.partition(".")[0]
            if first not in before and _lies_beside(folder, first, sys.modules[name]):
                del sys.modules[name]


def _lies_beside(folder: str, first: str, module: ModuleType) -> bool:
    # Extension modules may have none.
    path = Path(getattr(module, "__file__", None) or "")
    return path.is_relative_to(folder) and path.relative_to(folder).parts[0] in (
        first,
        f"{first}.py",
    )


_UNKNOWN_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def _meant(error: Exception) -> str:
    """Return a guess at a misspelled argument of one of our declarations, "" without one."""
    found = _UNKNOWN_ARGUMENT.match(str(error)) if isinstance(error, TypeError) else None
    if found is None:
        return ""
    declared = getattr(slidestat, found[1], None)
    names = [field.name for field in fields(declared)] if is_dataclass(declared) else []
    near = near_name(found[2], names)
    return "" if near is None else f"Did you mean {near}? "


def _line_of(error: BaseException, origin: str | None) -> int:
    """Return the last line of the file itself, not of what it called, that the error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 0 for f in reversed(frames) if f.filename == origin), 0)
