"""What is public is in two lists, can be imported, and is loaded only when it is used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, UnionType

import pytest

import slidestat
import slidestat.client
import slidestat.faust
import slidestat.spark
import slidestat.synopses

FACES = [slidestat, slidestat.client, slidestat.faust, slidestat.synopses, slidestat.spark]


def imported(file: Path) -> dict[str, object]:
    """All that a file imports under its own name, and nothing else but a docstring; of "import *"
    what the package imports.
    """
    seen: dict[str, object] = {}
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Expr):
            continue
        assert isinstance(statement, ast.ImportFrom)
        module = import_module(str(statement.module))
        for alias in statement.names:
            if alias.name == "*":
                seen |= imported(Path(str(module.__file__)))
                continue
            assert alias.asname == alias.name not in seen
            seen[alias.name] = getattr(module, alias.name)
    return seen


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_every_public_name_is_there(face: ModuleType) -> None:
    """Each name of `__all__` is the one of its own module, documented, and `dir` shows it."""
    assert dir(face) == face.__all__
    for name in face.__all__:
        public = getattr(face, name)
        assert public.__doc__, name
        assert isinstance(public, UnionType) or public.__name__ == name


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_type_checkers_see_the_same_names(face: ModuleType) -> None:
    """The stub of a face imports what is loaded, from where it is loaded."""
    (folder,) = face.__path__
    seen = imported(Path(folder, "__init__.pyi"))
    assert sorted(seen) == face.__all__
    assert seen == {name: getattr(face, name) for name in face.__all__}


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_a_name_that_is_not_there_is_refused(face: ModuleType) -> None:
    """As any module does."""
    with pytest.raises(AttributeError, match="has no attribute 'Sums'"):
        _ = face.Sums


def test_the_faces_import_nothing_at_once() -> None:
    """Whoever imports the package does not wait for numba, Faust or Kafka."""
    code = "import sys, slidestat.client, slidestat.faust, slidestat.synopses; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"numba", "numpy", "faust", "confluent_kafka"} & set(done.stdout.split())
