"""Mutation testing: put small faults into a room's code, and see whether its tests notice.

    make mutate ROOM=engine/checkpoints MUTANTS=60

A mutant has one other comparison, operator, number or condition, or lacks one statement. So many
are drawn, from as many functions as there are, and always the same ones of the same code. All tests
of the room run once, to learn which lines each reaches. Then each mutant is tried in a copy of the
checkout by those that reach its line, the quickest first, in a process forked from one that has the
libraries loaded; changed kernels run as plain Python. A mutant that no test notices has survived:
it is printed, and counts against the score. Some survivors change nothing that can be seen.
"""

import ast
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

_ROOT = Path(__file__).parents[1]
_PACKAGE = Path("app/slidestat")
_COPIED = ("app", "tests", "topologies", "schemas", "examples", "scripts", "pyproject.toml")
# The quick tests of a room, and of what imports it, that need no broker; of another room,
# tests/ROOM.
_TESTS = {
    "engine/checkpoints": [
        *("tests/engine/checkpoints", "tests/faust/test_checkpoint_turns.py"),
        "tests/faust/test_restore.py",
    ],
    "faust": ["tests/faust", "tests/engine/keys/test_shared_keys.py"],
    # Workers on simulated brokers test its producers; code that needs a broker is not tried.
    "kafka": [
        *("tests/kafka", "tests/faust/simulation/test_simulation.py", "tests/repartition"),
        "tests/security/test_security_settings.py",
    ],
    "synopses/core": [
        *("tests/synopses/core/test_wire.py", "tests/synopses/core/test_rounding.py"),
        *("tests/synopses/merge/test_merge_bundle.py", "tests/synopses/waves/test_wave_bytes.py"),
        "tests/synopses/exponential_histogram/test_exponential_histogram_limits.py",
    ],
}
# Tests of modules with kernels, as these are slow as plain Python.
_TESTS_OF_KERNELS = {
    "kafka": ["tests/kafka/test_fetches.py", "tests/kafka/test_partitioner.py"],
    "synopses/core": [
        *("tests/synopses/core/test_wire.py", "tests/synopses/core/test_rounding.py"),
        *("tests/synopses/waves/test_wave_bytes.py", "tests/synopses/merge/test_merge_bundle.py"),
        "tests/synopses/exponential_histogram/test_exponential_histogram_limits.py",
    ],
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
# The import of a module with kernels: they run as plain Python, or a mutant would be compiled.
_KERNEL = "kernels.compile import"
_SLOWER = 5
_LEAST_S = 30.0
# The most tests that try one mutant.
_MOST_TESTS = 60
_BASELINE_S = 1_800.0


class Mutant(NamedTuple):
    """A fault: its file and line, what it makes of what, and the whole source with it. A test that
    reaches it reaches one of its `lines`.
    """

    file: Path
    line: int
    lines: frozenset[int]
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
        case ast.BinOp(right=ast.Constant(value=None)):  # A type.
            return False
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


def places(file: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the places of a file that may be changed, each behind the name of its function."""
    tree = ast.parse(file.read_text("utf-8"))
    functions = [
        it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for place, node in enumerate(_sites(tree)):
        if _changed(deepcopy(node)):
            line = getattr(node, "lineno", 0)
            around = [it for it in functions if it.lineno <= line <= (it.end_lineno or 0)]
            name = max(around, key=lambda it: it.lineno).name if around else ""
            yield f"{file}:{name}", file, place


def drawn(found: Sequence[tuple[str, Path, int]], count: int) -> list[tuple[Path, int]]:
    """Draw places at random, one of each function before a second one of any."""
    random = Random(0)  # noqa: S311
    left: dict[str, list[tuple[Path, int]]] = {}
    for function, file, place in found:
        left.setdefault(function, []).append((file, place))
    turns = [random.sample(own, len(own)) for own in left.values()]
    random.shuffle(turns)
    in_turn = [
        own[turn] for turn in range(max(map(len, turns))) for own in turns if turn < len(own)
    ]
    return in_turn[:count]


def mutant(file: Path, place: int) -> Mutant:
    """Return the mutant of a place."""
    tree = ast.parse(file.read_text("utf-8"))
    node = next(it for at, it in enumerate(_sites(tree)) if at == place)
    before, line = ast.unparse(node).splitlines()[0], getattr(node, "lineno", 0)
    lines = _lines(tree, node)
    _changed(node)
    ast.fix_missing_locations(tree)
    change = f"{before}  ->  {ast.unparse(node).splitlines()[0]}"
    return Mutant(file, line, lines, change, ast.unparse(tree))


def _lines(tree: ast.Module, node: Any) -> frozenset[int]:
    """Return the lines of a node, and where its statement begins: not each line of one is told. Of
    a function's defaults that is where its body begins.
    """
    around = [
        it
        for it in ast.walk(tree)
        if isinstance(it, ast.stmt) and it.lineno <= node.lineno <= (it.end_lineno or 0)
    ]
    least = min(around, key=lambda it: (it.end_lineno or 0) - it.lineno)
    if isinstance(least, ast.FunctionDef | ast.AsyncFunctionDef):
        return frozenset(it.lineno for it in least.body)
    return frozenset({least.lineno, *range(node.lineno, node.end_lineno + 1)})


class _Reached:
    """A plugin of pytest that learns which tests reach a line, and how long each takes."""

    def __init__(self, room: Path) -> None:
        coverage = importlib.import_module("coverage")
        self._coverage = coverage.Coverage(data_file=None, source=[str(room)], config_file=False)
        self._seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)
        self._seconds[nodeid] = -time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._seconds[nodeid] += time.monotonic()
        self._coverage.switch_context("")

    def tests(self) -> dict[str, dict[int, list[str]]]:
        """Return the tests by file and line, the quickest first."""
        self._coverage.stop()
        data = self._coverage.get_data()
        return {
            file: {
                line: sorted(filter(None, tests), key=lambda it: self._seconds[it])
                for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }


def _run(copy: Path, tests: list[str], *, has_kernels: bool, reached: Path | None = None) -> int:
    """Run tests in this process, which was forked for them, and write down what they reach."""
    os.setsid()
    os.chdir(copy)
    sys.path[:0] = [str(copy / "app"), str(copy)]
    if has_kernels:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
        importlib.import_module("numba").config.reload_config()
    pytest = importlib.import_module("pytest")
    how = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not long"]
    how += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # Some are loaded already.
    if reached is None:
        return int(pytest.main([*how, *tests]))
    plugin = _Reached(copy / _PACKAGE)
    failed = int(pytest.main([*how, *tests], plugins=[plugin]))
    reached.write_text(json.dumps(plugin.tests()), "utf-8")
    return failed


def _passes(
    copy: Path,
    tests: list[str],
    within_s: float,
    *,
    has_kernels: bool,
    reached: Path | None = None,
) -> bool:
    """Run the tests in a forked process; return whether all pass in time."""
    child = os.fork()
    if not child:
        if reached is None:
            with Path(os.devnull).open("w") as nothing:
                for output in (1, 2):
                    os.dup2(nothing.fileno(), output)
        os._exit(_run(copy, tests, has_kernels=has_kernels, reached=reached))
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _reach(copy: Path, tests: list[str], *, has_kernels: bool) -> dict[str, dict[str, list[str]]]:
    """Return the tests that reach a line, by file and line; ends the program if one fails."""
    reached = copy / "reached.json"
    if not _passes(copy, tests, _BASELINE_S, has_kernels=has_kernels, reached=reached):
        sys.exit(f"these tests fail without any mutant: {' '.join(tests)}")
    found: dict[str, dict[str, list[str]]] = json.loads(reached.read_text("utf-8"))
    return found


def main(room: str, count: int) -> None:
    """Try `count` mutants of a room, and print the survivors and the score."""
    for name in _LIBRARIES:
        importlib.import_module(name)
    files = sorted((_ROOT / _PACKAGE / room).rglob("*.py"))
    found = [place for file in files for place in places(file)]
    mutants = [mutant(*it) for it in drawn(found, count)]
    tests = _TESTS.get(room, [f"tests/{room}"])
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        for name in _COPIED:
            given = _ROOT / name
            (shutil.copytree if given.is_dir() else shutil.copy)(given, copy / name)
        reach = {False: _reach(copy, tests, has_kernels=False)}
        if any(_KERNEL in source for *_, source in mutants):
            reach[True] = _reach(copy, _TESTS_OF_KERNELS.get(room, tests), has_kernels=True)
        print(f"{len(mutants)} of {len(found)} mutants", flush=True)
        survived = 0
        for number, (file, line, lines, change, source) in enumerate(mutants, 1):
            place = copy / file.relative_to(_ROOT)
            has_kernels = _KERNEL in source
            of_file = reach[has_kernels].get(str(place), {})
            # The quickest first, of each line.
            own = list(dict.fromkeys(it for at in sorted(lines) for it in of_file.get(str(at), [])))
            del own[_MOST_TESTS:]
            place.write_text(source, "utf-8")
            if not own or _passes(copy, own, _LEAST_S * _SLOWER, has_kernels=has_kernels):
                survived += 1
                why = f"survived {len(own)} tests" if own else "is reached by no test"
                print(f"{why}: {file.relative_to(_ROOT)}:{line}: {change}", flush=True)
            shutil.copy(file, place)
            print(f"{number - survived} of {number} were noticed", end="\r", flush=True)
    print(f"{room}: {len(mutants) - survived} of {len(mutants)} mutants were noticed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
