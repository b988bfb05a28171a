"""The rooms of the package stand in layers: a module imports only from rooms below its own."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "app"
# From the top down; rooms of one line do not import each other.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"demo", "doctor"},
    {"admin"},
    {"client"},
    {"infer"},
    {"web", "spark"},
    {"faust", "frames"},
    {"testing"},
    {"referee"},
    {"live"},
    {"produce", "repartition"},
    {"kafka", "text"},
    {"engine"},
    {"declare"},
    {"synopses"},
    {"addresses", "log", "local"},
    {"faces"},
    {"extras", "kernels", "options", "pauses", "schemas"},
    {"errors", "user_files"},
    {"redaction"},
)
LAYER_OF = {room: layer for layer, rooms in enumerate(LAYERS) for room in rooms}
# A module that one other alone imports is part of that one's idea, or stands for too little.
MOST_WITH_ONE_IMPORTER = 79
MOST_IMPORTS = 0.08
# Public faces name what they load at its first use.
FACES = {f"slidestat{face}" for face in ("", ".client", ".faust", ".spark", ".synopses")}
# Not ours to import in the engine and below: they must run without a broker.
PURE = ("engine", "declare", "synopses", "kernels", "schemas")
# They are loaded where Avro or Protobuf is asked for alone: the schemas go to a registry.
WITH_A_REGISTRY = {
    f"slidestat.engine.emissions.{name}" for name in ("avro_codec", "protobuf_rows")
} | {"slidestat.engine.schema_registry"}
BROKERS = {"faust", "mode", "aiokafka", "confluent_kafka", "rocksdict", "aiohttp", "pyspark"}


def modules() -> dict[str, Path]:
    """The path of each module of the package, by its name."""
    found = {}
    for path in sorted((SOURCE / "slidestat").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """What a file imports, in functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = modules()


@cache
def arrows() -> dict[str, set[str]]:
    """What each module imports of the package. Parsed by the first test that asks: every process of
    pytest collects this file.
    """
    return {
        name: {
            name_of
            for target in imported(path)
            for name_of in [target if target in MODULES else target.rpartition(".")[0]]
            if name_of in MODULES and name_of != name
        }
        for name, path in MODULES.items()
        if name not in FACES
    }


def room(module: str) -> str:
    """The room that a module lies in: the first part of its name below the package's."""
    return module.split(".")[1]


def test_every_room_has_a_layer() -> None:
    """A new folder takes its place in the list above, and an old one leaves it."""
    assert {room(name) for name in MODULES if name != "slidestat"} == set(LAYER_OF)


def test_arrows_point_down() -> None:
    """No module imports from a room beside or above its own."""
    up = [
        f"{name} -> {target}"
        for name, targets in arrows().items()
        for target in sorted(targets - FACES)
        if room(name) != room(target) and LAYER_OF[room(name)] >= LAYER_OF[room(target)]
    ]
    assert up == []


def test_no_module_is_in_a_circle() -> None:
    """Not within a room either, nor for type checkers alone."""
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_the_engine_knows_no_broker() -> None:
    """What is pure imports no client of Kafka, no database, no web server and no Spark."""
    found = [
        f"{name} imports {target}"
        for name, path in MODULES.items()
        if name not in FACES | WITH_A_REGISTRY and room(name) in PURE
        for target in imported(path)
        if target.split(".")[0] in BROKERS
    ]
    assert found == []


def test_what_all_synopses_share_imports_no_family() -> None:
    """The core knows none of them: nothing of it changes for a new one."""
    core = "slidestat.synopses.core"
    found = [
        f"{name} imports {target}"
        for name, targets in arrows().items()
        if f"{name}.".startswith(f"{core}.")
        for target in sorted(targets)
        if room(target) == "synopses" and not f"{target}.".startswith(f"{core}.")
    ]
    assert found == []


def test_rooms_are_small() -> None:
    """At most fifteen modules a folder: beyond that it is two."""
    sizes: dict[Path, int] = {}
    for path in MODULES.values():
        sizes[path.parent] = sizes.get(path.parent, 0) + (path.name != "__init__.py")
    assert [str(folder) for folder, size in sizes.items() if size > 15] == []


def test_the_command_line_loads_no_numbers_before_a_command_runs() -> None:
    """Its help must be there at once: what a command needs is imported inside it."""
    code = (
        "import sys, slidestat.cli.main; print(*{'numpy', 'pyarrow', 'pyspark'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_few_modules_have_one_importer() -> None:
    """A module that is split off for one other is two places for one idea."""
    importers: dict[str, list[str]] = {name: [] for name in MODULES if name != "slidestat"}
    for name, targets in arrows().items():
        for target in targets - {"slidestat"}:
            importers[target].append(name)
    lone = [name for name, known in importers.items() if len(known) == 1]
    assert len(lone) <= MOST_WITH_ONE_IMPORTER, sorted(lone)


def test_few_lines_are_imports() -> None:
    """A long list of names says that a module is imported, or that two modules are one."""
    lines = imports = 0
    for path in MODULES.values():
        source = path.read_text(encoding="utf-8")
        lines += len(source.splitlines())
        imports += sum(
            (node.end_lineno or node.lineno) - node.lineno + 1
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Import | ast.ImportFrom)
        )
    assert imports <= MOST_IMPORTS * lines
