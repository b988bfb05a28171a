"""Kernels that count no references: they return no array, nor get one from what they call."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaError

import slidestat
from slidestat.kernels.compile import borrowing_kernel

BORROWING = ("borrowing_kernel", "unlocked_kernel")
DECORATORS = ("kernel", *BORROWING)
SCALARS = {"int", "bool", "float", "None", "tuple", "np", "uint64"}


def kernels() -> Iterator[tuple[str, ast.FunctionDef]]:
    """All kernels, each with how it is compiled."""
    for path in Path(slidestat.__path__[0]).rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Name) and decorator.id in DECORATORS:
                        yield decorator.id, node


KERNELS = list(kernels())


def returns_arrays(node: ast.FunctionDef) -> bool:
    """Whether its annotation has more than numbers."""
    assert node.returns is not None, node.name
    names = {part.id for part in ast.walk(node.returns) if isinstance(part, ast.Name)}
    # Types as texts are taken for arrays: nothing here needs them.
    has_text = any(
        isinstance(part, ast.Constant) and isinstance(part.value, str)
        for part in ast.walk(node.returns)
    )
    return has_text or not names <= SCALARS


def test_every_kernel_is_found() -> None:
    """They are decorated by a plain name, at the top of a module: what is looked for above."""
    for path in Path(slidestat.__path__[0]).rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        found = {node for node in tree.body if isinstance(node, ast.FunctionDef)}
        decorated = {
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            for decorator in node.decorator_list
            if ast.unparse(decorator).rpartition(".")[2] in DECORATORS
        }
        assert decorated <= found, path.name
        names = {ast.unparse(one) for node in decorated for one in node.decorator_list}
        assert not [name for name in names if name.endswith(tuple(f".{one}" for one in DECORATORS))]


def test_a_borrowing_kernel_returns_no_array() -> None:
    """Whoever is given an array that nobody counted would let it go once too often."""
    borrowing = [node for decorator, node in KERNELS if decorator in BORROWING]
    assert len(borrowing) > 200
    assert not [node.name for node in borrowing if returns_arrays(node)]


def test_a_borrowing_kernel_gets_no_array() -> None:
    """Nobody would let go of what it is given. (numba itself refuses whatever allocates.)"""
    giving = {node.name for _, node in KERNELS if returns_arrays(node)}
    calls = [
        (node.name, called)
        for decorator, node in KERNELS
        if decorator in BORROWING
        for part in ast.walk(node)
        if isinstance(part, ast.Call)
        and (called := ast.unparse(part.func).rpartition(".")[2]) in giving
    ]
    assert not calls


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python counts references always")
def test_numba_refuses_a_borrowing_kernel_that_allocates() -> None:
    """The option is numba's own, and not documented: this is what is relied upon."""

    @borrowing_kernel
    def makes_an_array(size: int) -> int:
        return len(np.empty(size))

    with pytest.raises(NumbaError, match="Only accept returning of array passed"):
        makes_an_array(3)
