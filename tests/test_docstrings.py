"""Docstrings say what a function does, or what a class is."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "app" / "slidestat"
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize(
    "room", sorted({path.parent for path in SOURCES.rglob("*.py")}), ids=lambda room: room.name
)
def test_none_is_a_riddle(room: Path) -> None:
    """A docstring that begins with "What" leaves the reader to find the verb."""
    riddles = [
        f"{path.name}: {text.splitlines()[0]}"
        for path in sorted(room.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node) or "")
        if text.startswith("What ")
    ]
    assert riddles == []
