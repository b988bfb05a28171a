"""Nothing that is read can run: no pickle, no eval, no shell."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("app", "topologies") for path in (ROOT / folder).rglob("*.py"))
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "joblib"}
# Machine code of kernels is code: it comes with the package, or from this user's own cache folder.
# What a Spark job sends to its own workers is code, too: Spark pickles the operator with it.
CODE = {
    "app/slidestat/kernels/units.py",
    "app/slidestat/spark/streaming/operator.py",
    "app/slidestat/spark/streaming/processor.py",
}
CALLS = {"eval", "exec", "compile", "os.system", "os.popen", "yaml.load", "numpy.load", "np.load"}


def named(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported, and the functions that are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call):
            yield ast.unparse(node.func)
            yield from ("shell" for word in node.keywords if word.arg == "shell")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_reads_no_code(path: Path) -> None:
    """No module that turns bytes into objects of any class, no call that turns text into code."""
    found = set(named(ast.parse(path.read_text("utf-8"))))
    allowed = {"pickle"} if str(path.relative_to(ROOT)) in CODE else set()
    assert not found & (MODULES | CALLS | {"shell"}) - allowed


def test_the_files_are_there() -> None:
    """The check above has looked at something."""
    assert len(FILES) > 200
