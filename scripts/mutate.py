"""Mutation testing: put small faults into a room's code, and see whether its tests notice.

    make mutate ROOM=engine/checkpoints MUTANTS=100

A mutant has one other comparison, operator, number or condition, or lacks one statement. So many
are drawn, always the same ones of the same code. Each is tried in a copy of the checkout by tests
of the room, in a process forked from one that has the libraries loaded; changed kernels run as
plain Python. A mutant that no test notices has survived: it is printed, and counts against the
score. Some survivors change nothing that can be seen.
"""

import ast
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

_ROOT = Path(__file__).parents[1]
_PACKAGE = Path("app/slidestat")
_COPIED = ("app", "tests", "topologies", "schemas", "examples", "scripts", "pyproject.toml")
# The tests of a room that are quick and need no broker; of another room, tests/ROOM.
_TESTS = {
    "engine/checkpoints": ["tests/engine/checkpoints", "tests/faust/test_checkpoint_turns.py"],
    # Its producers are tried by workers on simulated brokers; what needs a broker is not tried.
    "kafka": ["tests/kafka", "tests/faust/simulation"],
    "synopses/core": ["tests/synopses/waves/test_wave_bytes.py", "tests/synopses/merge"],
}
_LIBRARIES: tuple[str, ...] = (
    "aiokafka",
    "confluent_kafka",
    "faust",
    "hypothesis",
    "msgspec",
    "numba",
    "numpy",
)
_LIBRARIES += ("pyarrow", "pytest", "rocksdict", "sqlglot")
_OTHER: dict[type, Any] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Of a module with kernels: they run as plain Python, or a mutant would be compiled.
_KERNEL = "kernels.compile import"
_SLOWER = 5
_LEAST_S = 30.0


class Mutant(NamedTuple):
    """A fault: its file and line, what it makes of what, and the whole source with it."""

    file: Path
    line: int
    change: str
    source: str


def _sites(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that may be changed: of functions alone, without annotations and messages."""
    rest: list[tuple[ast.AST, bool]] = [(tree, False)]
    while rest:
        node, is_inside = rest.pop()
        if isinstance(node, ast.Raise | ast.arg | ast.Assert):
            continue
        if is_inside:
            yield node
        inside = is_inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            children = value if isinstance(value, list) else [value]
            rest += [(child, inside) for child in children if isinstance(child, ast.AST)]


def _changed(node: ast.AST) -> bool:
    """Change a node in place; return whether there was anything to change."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _OTHER:
            node.ops = [_OTHER[type(operator)]()]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in _OTHER:
            node.op = _OTHER[type(operator)]()
        case ast.AugAssign(op=operator) if type(operator) in _OTHER:
            node.op = _OTHER[type(operator)]()
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), operand)
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            node.func = ast.Name(_NAMES[name], ast.Load())
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.Expr(value=ast.Call() | ast.Await()):
            node.value = ast.Constant(None)
        case _:
            return False
    return True


def places(file: Path) -> Iterator[tuple[Path, int]]:
    """Yield the places of a file that may be changed."""
    for place, node in enumerate(_sites(ast.parse(file.read_text("utf-8")))):
        if _changed(deepcopy(node)):
            yield file, place


def mutant(file: Path, place: int) -> Mutant:
    """Return the mutant of a place."""
    tree = ast.parse(file.read_text("utf-8"))
    node = next(it for at, it in enumerate(_sites(tree)) if at == place)
    before, line = ast.unparse(node).splitlines()[0], getattr(node, "lineno", 0)
    _changed(node)
    ast.fix_missing_locations(tree)
    return Mutant(
        file, line, f"{before}  ->  {ast.unparse(node).splitlines()[0]}", ast.unparse(tree)
    )


def _passes(
    copy: Path,
    tests: list[str],
    within_s: float,
    *,
    has_kernels: bool = False,
    is_quiet: bool = True,
) -> bool:
    """Run the tests in a forked process; return whether all pass in time."""
    child = os.fork()
    if not child:
        os.setsid()
        with Path(os.devnull).open("w") as nothing:
            for output in (1, 2) if is_quiet else ():
                os.dup2(nothing.fileno(), output)
        os.chdir(copy)
        sys.path[:0] = [str(copy / "app"), str(copy)]
        if has_kernels:
            os.environ["NUMBA_DISABLE_JIT"] = "1"
            importlib.import_module("numba").config.reload_config()
        pytest = importlib.import_module("pytest")
        how = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not long"]
        how += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # Of what is loaded already.
        os._exit(bool(pytest.main([*how, *tests])))
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main(room: str, count: int) -> None:
    """Try `count` mutants of a room, and print the survivors and the score."""
    for name in _LIBRARIES:
        importlib.import_module(name)
    files = sorted((_ROOT / _PACKAGE / room).rglob("*.py"))
    found = [place for file in files for place in places(file)]
    drawn = [mutant(*it) for it in Random(0).sample(found, min(count, len(found)))]  # noqa: S311
    tests = _TESTS.get(room, [f"tests/{room}"])
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in _COPIED:
            given = _ROOT / name
            (shutil.copytree if given.is_dir() else shutil.copy)(given, copy / name)
        began = time.monotonic()
        if not _passes(copy, tests, 3_600, is_quiet=False):
            sys.exit(f"the tests of {room} fail without any mutant: {' '.join(tests)}")
        within_s = max(_LEAST_S, _SLOWER * (time.monotonic() - began))
        print(f"{len(drawn)} of {len(found)} mutants; the tests take {within_s / _SLOWER:.0f} s")
        survived = 0
        for file, line, change, source in drawn:
            place = copy / file.relative_to(_ROOT)
            place.write_text(source, "utf-8")
            if _passes(copy, tests, within_s, has_kernels=_KERNEL in source):
                survived += 1
                print(f"survived: {file.relative_to(_ROOT)}:{line}: {change}", flush=True)
            shutil.copy(file, place)
    print(f"{room}: {len(drawn) - survived} of {len(drawn)} mutants were noticed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
