"""What each extra brings is enough for what it is for, and what is missing is said."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.deploy.installed import PROJECT, dependencies
from tests.test_layers import MODULES

# What is imported of a distribution where the two names differ.
IMPORTED = {
    "faust-streaming": ("faust", "mode"),
    "confluent-kafka": ("confluent_kafka",),
    "prometheus-client": ("prometheus_client",),
    "python-json-logger": ("pythonjsonlogger",),
    "opentelemetry-proto": ("opentelemetry",),
}
# Imports as if what these extras bring were not installed.
WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""


def brought_by(extra: str) -> set[str]:
    """The packages that can be imported with an extra, without those of a worker."""
    names = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        found = re.match(r"[\w-]+", requirement)
        assert found, requirement
        if found[0] != "slidestat":
            names.update(IMPORTED.get(found[0], (found[0],)))
    return names


def run_without(
    missing: set[str], code: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """A program that runs where these packages cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=sorted(missing)) + code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | variables,
        timeout=120,
    )


def test_the_core_is_enough_for_synopses() -> None:
    """Without a worker's packages every synopsis is there, and counts."""
    code = """
import slidestat.synopses as synopses
for name in synopses.__all__:
    getattr(synopses, name)
count = synopses.ExponentialHistogram.create(synopses.CountParameters(epsilon=0.1, span=100))
count.insert([1, 2, 3])
print(count.query(100, 4).estimate)
"""
    run = run_without(brought_by("worker") | brought_by("local"), code)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "3.0\n"


@pytest.mark.parametrize(
    ("face", "name"), [("slidestat", "Topology"), ("slidestat.client", "Client")]
)
def test_a_public_name_says_which_extra_it_needs(face: str, name: str) -> None:
    """Not a trace of modules that the user has never heard of alone."""
    run = run_without(brought_by("worker"), f"from {face} import {name}\n")
    assert f"ImportError: {face}.{name} needs msgspec" in run.stderr
    assert "pip install 'slidestat[worker]'" in run.stderr


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("worker", ["--help"]),
        ("local", ["broker"]),
        ("spark", ["spark", "audit", "flights", "--lake", "nowhere"]),
    ],
)
def test_the_command_says_which_extra_it_needs(
    extra: str, arguments: list[str], tmp_path: Path
) -> None:
    """Two lines and exit code 2, whatever command is the first to miss a package. A broker whose
    jars are there, on a machine with a Java, misses none.
    """
    code = f"sys.argv = ['slidestat', *{arguments}]\nfrom slidestat.__main__ import main\nmain()\n"
    run = run_without(brought_by(extra), code, XDG_CACHE_HOME=str(tmp_path))
    assert run.returncode == 2, run.stderr
    assert f"slidestat[{extra}]" in run.stderr
    assert "Traceback" not in run.stderr


def test_every_package_has_an_upper_bound_where_its_privates_are_replaced() -> None:
    """Another release may have other privates."""
    wanted = PROJECT["optional-dependencies"]["worker"]
    for name in ("faust-streaming", "aiokafka"):
        (requirement,) = [text for text in wanted if text.startswith(name)]
        assert ",<" in requirement


# The modules that need more than a worker's packages, and the extras of which each is enough.
_FORMATS = "slidestat.engine.decoding.formats"
_EMISSIONS = "slidestat.engine.emissions"
NEEDS_MORE = {
    f"{_FORMATS}.avro_schema": ("avro",),
    f"{_EMISSIONS}.avro_codec": ("avro",),
    f"{_FORMATS}.proto_files": ("protobuf",),
    f"{_FORMATS}.protobuf": ("protobuf",),
    f"{_EMISSIONS}.protobuf_rows": ("protobuf",),
    "slidestat.engine.schema_registry": ("avro", "protobuf"),
    "slidestat.kafka.schema_registry": ("avro", "protobuf"),
}


def at_import(nodes: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that are carried out when a module is."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import(ast.iter_child_nodes(node))


@cache
def imports(module: str) -> frozenset[str]:
    """What a module of ours imports when it is imported itself: ours and others."""
    found: set[str] = set()
    for node in at_import([ast.parse(MODULES[module].read_text(encoding="utf-8"))]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def others_of(module: str) -> set[str]:
    """The packages of others that are imported when a module is, by whatever way."""
    reached, todo, others = set[str](), [module], set[str]()
    while todo:
        name = todo.pop()
        while name not in MODULES and "." in name:
            name = name.rpartition(".")[0]
        if name not in MODULES:
            others.add(name)
        elif name not in reached:
            reached.add(name)
            others |= {it.partition(".")[0] for it in imports(name) if not it.startswith("slid")}
            parents = [name.rpartition(".")[0]] if "." in name else []
            todo += [it for it in imports(name) if it.startswith("slidestat")] + parents
    return others - sys.stdlib_module_names


@cache
def brought(extra: str) -> set[str]:
    """The packages that can be imported with an extra alone."""
    there = set(dependencies(extra))
    return {
        name
        for name, distributions in packages_distributions().items()
        if there & {canonicalize_name(it) for it in distributions}
    }


def enough_for(module: str) -> tuple[str, ...]:
    """The extras each of which a module is made for."""
    if module.startswith("slidestat.synopses"):
        return ("",)
    if module.startswith("slidestat.spark."):
        return ("spark",)
    return NEEDS_MORE.get(module, ("worker",))


def test_modules_import_what_their_extra_brings() -> None:
    """And so does all that is imported with them: what belongs to another extra is imported where
    it is used.
    """
    lacking = {
        f"{module} with {extra or 'none'}": sorted(missing)
        for module in MODULES
        for extra in enough_for(module)
        if (missing := others_of(module) - brought(extra))
    }
    assert lacking == {}
    assert "faust" in others_of("slidestat.faust.pipeline")
    assert not others_of("slidestat") | others_of("slidestat.__main__")
