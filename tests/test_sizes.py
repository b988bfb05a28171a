"""A function is read on one screen; kernels are exempt: they are compiled as they are written."""

import ast
from collections.abc import Iterator
from pathlib import Path

APP = Path(__file__).parents[1] / "app"
MOST_LINES = 70
KERNELS = {"kernel", "borrowing_kernel", "unlocked_kernel"}


def too_long(source: str, most: int = MOST_LINES) -> Iterator[str]:
    """Yield each function of a module that has more lines, by its name, but kernels."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1 if node.end_lineno else 0
            if lines > most and not KERNELS & set(map(ast.unparse, node.decorator_list)):
                yield f"{node.name}: {lines}"


def test_functions_are_short() -> None:
    """At most 70 lines with signature and docstring: beyond that it is two."""
    found = [
        f"{path.relative_to(APP)} {it}"
        for path in sorted(APP.rglob("*.py"))
        for it in too_long(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_long_function_is_found() -> None:
    """In a class too, and asynchronous ones; a kernel may be long."""
    long = "def f(\n    a: int,\n) -> None:\n    pass\n"
    inside = "class C:\n    async def f(self) -> None:\n        a = 1\n        b = 2\n"
    assert list(too_long(long, 3)) == ["f: 4"]
    assert list(too_long(inside, 2)) == ["f: 3"]
    assert list(too_long("@kernel\n" + long, 3)) == []
    assert list(too_long(long, 4)) == []
