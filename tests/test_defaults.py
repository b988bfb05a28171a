"""Each default of an option or a declaration is written once, and moves where that is changed."""

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from slidestat.declare.forms.flag_list import TOPOLOGY_FLAGS
from slidestat.declare.topology import Topology
from slidestat.options import CHECKPOINT_INTERVAL_S

ROOT = Path(__file__).parents[1]
APP = ROOT / "app" / "slidestat"
DECLARED = ("declare/topology.py", "declare/referee.py")
# No default, but that nothing is given.
EMPTY = {"None", "False", "''", "()", "0"}
# The audit takes nothing from what it audits; the others only share their names with an option.
APART = {
    ("form", "cli/main.py"),
    ("emit", "spark/audit/declaration.py"),
    ("tolerance", "spark/audit/declaration.py"),
    ("tombstones", "spark/audit/declaration.py"),
    ("limit", "declare/statistics/top.py"),
    ("limit", "cli/operations.py"),
    *(
        ("partitions", path)
        for path in (
            "faust/pipeline.py",
            "spark/backfill/backfill.py",
            "spark/backfill/by_key.py",
            "spark/backfill/history.py",
            "testing/driver.py",
            "testing/driver.py",
        )
    ),
}


def defaults(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name and default of each parameter of a function, and of each field of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            placed = [*given.posonlyargs, *given.args][::-1]
            yield from zip((it.arg for it in placed), given.defaults[::-1], strict=False)
            for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
                if default is not None:
                    yield parameter.arg, default
        elif isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and field.value is not None:
                    yield ast.unparse(field.target), field.value


def is_constant(default: ast.expr) -> bool:
    """Return whether a default is the name of a constant."""
    return isinstance(default, ast.Name) and default.id.isupper()


def is_written_out(default: ast.expr) -> bool:
    """Return whether a default is a value, or a member of an enumeration."""
    if isinstance(default, ast.Attribute):
        return default.attr.isupper()
    try:
        ast.literal_eval(default)
    except ValueError:
        return False
    return True


def written_twice(sources: Mapping[str, str]) -> list[str]:
    """Return the options and declared fields whose default is written out though another function
    or class has one too; `sources` are those of modules by their paths.
    """
    places: dict[str, list[tuple[str, ast.expr]]] = {}
    for path, source in sources.items():
        for name, default in defaults(ast.parse(source)):
            # Seconds and milliseconds of a length are the same option.
            stem = re.sub("_m?s$", "", name)
            is_stated = is_constant(default) or is_written_out(default)
            if is_stated and ast.unparse(default) not in EMPTY and (stem, path) not in APART:
                places.setdefault(stem, []).append((path, default))
    return [
        f"{name}: {', '.join(path for path, _ in found)}"
        for name, found in sorted(places.items())
        if len(found) > 1
        and any(path.startswith("cli/") or path in DECLARED for path, _ in found)
        and any(is_written_out(default) for _, default in found)
    ]


def test_a_default_is_written_once() -> None:
    """An option, and the functions and settings behind it, name one constant."""
    sources = {
        str(path.relative_to(APP)): path.read_text(encoding="utf-8") for path in APP.rglob("*.py")
    }
    assert written_twice(sources) == []


def test_a_second_one_is_found() -> None:
    """Of the same value or of another, in other units, as a text, or of an enumeration."""
    run = "def run(interval: str = {}) -> None: ..."
    for first, second in (
        ("'30s'", "def start(interval_s: float = 30.0) -> None: ..."),
        ("'30s'", "class Settings:\n    interval_s: float = INTERVAL_S"),
        ("INTERVAL", "def start(*, interval_ms: int = 30_000) -> None: ..."),
        ("Interval.LONG", "async def start(a, interval=Interval.LONG) -> None: ..."),
    ):
        assert written_twice({"cli/run.py": run.format(first), "b.py": second}) != []
    for first, second in (
        ("INTERVAL", "def start(interval_s: float = INTERVAL_S) -> None: ..."),
        ("'30s'", "def start(interval_s: float, other=30.0) -> None: ..."),
        ("'30s'", "def start(interval_s: float | None = None) -> None: ..."),
    ):
        assert written_twice({"cli/run.py": run.format(first), "b.py": second}) == []


def test_what_stands_apart_is_there() -> None:
    """An exception that is not needed any more leaves the list."""
    for name, path in APART:
        source = (APP / path).read_text(encoding="utf-8")
        assert name in {found for found, _ in defaults(ast.parse(source))}


def test_the_help_of_flags_has_the_defaults_of_a_topology() -> None:
    """Their help is text, so that it is there at once; and most flags do without."""
    of_fields = {field.name: field.default for field in dataclasses.fields(Topology)}
    shown = {
        field: found[1]
        for field, flag in TOPOLOGY_FLAGS.items()
        if (found := re.search(r"default: ([a-z0-9][a-z0-9-]*)\.", flag.help))
    }
    assert {"time_format", "tombstones", "source_format", "output_format"} <= set(shown)
    assert shown == {field: of_fields[field] for field in shown}


def test_documents_have_the_interval_of_checkpoints() -> None:
    """The guide to deployment names it."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert f"`--checkpoint-interval`, by default {CHECKPOINT_INTERVAL_S:g} s" in page
