"""Write the golden vectors of kernels again: `python -m scripts.vectors` (`make vectors`).

A sample of the tests is run (tests/sampled.py), and what they call kernels with is kept in a
folder: some calls of each kernel and each combination of types. Then plain Python, without the
compiler, runs the kept calls of each kernel, the smallest first; those that reach lines which no
call before them reached become its vectors. See slidestat/kernels/vectors.py.

`python -m scripts.vectors TEST...` runs these tests alone, and keeps all vectors that there are: it
adds those of kernels and types that have none. `python -m scripts.vectors --rename OLD NEW` runs no
test: it puts the vectors of a module or package that was moved where its new name wants them.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

_NAME = "scripts.vectors"
_FOLDER = "SLIDESTAT_KERNEL_CALLS"
_TESTS = tuple(
    f"tests/{room}"
    for room in (
        *("golden", "testing", "engine", "declare", "audit", "synopses"),
        *("faust", "kafka", "live", "referee"),
    )
)
_KEPT = {1, 2, 3, 10, 30, 100, 300, 1_000}
_MOST_BYTES = 200_000
_MOST_S = 1.0
_MOST_VECTORS = 8
_OURS = "slidestat."
_ROOT = Path(str(files("slidestat")))


# Recording: this module is pytest's plugin then.


def pytest_configure() -> None:
    """Keep calls of kernels from now on."""
    if _FOLDER in os.environ:
        _record(Path(os.environ[_FOLDER]))


def _record(folder: Path) -> None:
    from numba._dispatcher import Dispatcher
    from numba.core.registry import CPUDispatcher

    from slidestat.kernels.vectors import Vector, Vectors

    counts: dict[tuple[str, ...], int] = defaultdict(int)

    def call(kernel: Any, *arguments: Any) -> Any:
        function = kernel.py_func
        name = f"{function.__module__}.{function.__qualname__}"
        if name.startswith(_OURS):
            of_it = name, *Vector(arguments, None, ()).types
            counts[of_it] += 1
            if counts[of_it] in _KEPT and _size(arguments) < _MOST_BYTES:
                try:
                    data = Vectors({name: [Vector(arguments, None, ())]}).to_bytes()
                    (folder / hashlib.sha256(data).hexdigest()[:24]).write_bytes(data)
                except TypeError:
                    pass  # addresses and functions: no vector has them
        return Dispatcher.__call__(kernel, *arguments)

    setattr(CPUDispatcher, "__call__", call)  # noqa: B010 - a method, for a type checker


def _size(value: Any) -> int:
    return sum(map(_size, value)) if isinstance(value, tuple) else getattr(value, "nbytes", 8)


# Choosing, without the compiler.


def _choose(folder: Path, adds: bool) -> None:
    from slidestat.kernels import units
    from slidestat.kernels.vectors import FILE_NAME, Vector, Vectors, vectors_of

    calls: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        for name, (vector,) in Vectors.from_bytes(path.read_bytes()).items():
            calls[name].append(vector.arguments)
    packages: dict[str, Vectors] = defaultdict(Vectors)
    if adds:
        for package in units.packages():
            there = vectors_of(package).items()
            packages[package] = Vectors((name, list(ones)) for name, ones in there)
    for name, ones in sorted(calls.items()):
        module, _, function = name.rpartition(".")
        package, _, file = module.rpartition(".")
        kept = packages[package].setdefault(f"{file}.{function}", [])
        known = {one.types for one in kept}
        ones = [one for one in ones if Vector(one, None, ()).types not in known]
        chosen = list(_chosen(getattr(import_module(module), function), ones))
        kept += chosen
        if ones:
            print(f"{name}: {len(chosen)} of {len(ones)} calls", flush=True)
    # Kernels that take addresses have no vectors, and are compiled ahead all the same.
    for name in ("column_producer._produce", "column_producer._take_report"):
        packages["slidestat.kafka"][name] = []
    for package, vectors in packages.items():
        data, path = vectors.to_bytes(), Path(str(files(package).joinpath(FILE_NAME)))
        if not path.is_file() or data != path.read_bytes():
            path.write_bytes(data)
            print(f"{package}: {len(data):,} bytes")


def _chosen(function: Any, calls: list[tuple[Any, ...]]) -> Iterator[Any]:
    from slidestat.kernels.vectors import Vector, copied

    reached: set[tuple[Any, ...]] = set()
    count: dict[tuple[str, ...], int] = defaultdict(int)
    for arguments in sorted(calls, key=_size):
        of_it = Vector(arguments, None, ()).types
        if count[of_it] >= _MOST_VECTORS:
            continue
        after = copied(arguments)
        started = time.monotonic()
        result, lines = _run(function, after)
        if time.monotonic() - started > _MOST_S and count[of_it]:
            continue
        new = {(of_it, *line) for line in lines} - reached
        if new:
            reached |= new
            count[of_it] += 1
            yield Vector(arguments, *_filled(function, arguments, (result, after)))


def _filled(function: Any, arguments: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what the call gives, without what it left of arrays as the memory had it."""
    import numpy as np

    from slidestat.kernels.vectors import copied

    plain = np.empty
    for byte in (0x00, 0x55, 0xFF):

        def empty(*given: Any, byte: int = byte, **named: Any) -> Any:
            made = plain(*given, **named)
            made.reshape(-1).view(np.uint8).fill(byte)
            return made

        setattr(np, "empty", empty)  # noqa: B010 - final, for a type checker
        try:
            after = copied(arguments)
            again = function(*after), after
        finally:
            setattr(np, "empty", plain)  # noqa: B010
        given = _agreed(given, again)
    return given


def _agreed(one: Any, other: Any) -> Any:
    """Return one value without what differs in another run of the same call."""
    import numpy as np

    from slidestat.kernels.vectors import Partial, same

    if isinstance(one, tuple):
        parts = [_agreed(*pair) for pair in zip(one, other, strict=True)]
        return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)
    if isinstance(one, Partial):
        more = _agreed(one.array, other)
        filled = one.filled & (more.filled if isinstance(more, Partial) else True)
        return Partial(np.where(filled, one.array, 0).astype(one.array.dtype), filled)
    if not isinstance(one, np.ndarray) or same(one, other):
        return one
    if one.shape != other.shape:
        raise ValueError("the size of an array depends on memory that was never written")
    alike = [same(*pair) for pair in zip(one.ravel(), other.ravel(), strict=True)]
    filled = np.array(alike).reshape(one.shape)
    return Partial(np.where(filled, one, 0).astype(one.dtype), filled)


def _run(function: Any, arguments: tuple[Any, ...]) -> tuple[Any, set[tuple[str, int]]]:
    """Return what the call gives, and which lines it reaches."""
    lines: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        return function(*arguments), lines
    finally:
        sys.settrace(None)


# Renaming.


def _rename(old: str, new: str) -> None:
    """Give each vector of the module or package `old` its place in `new`."""
    from slidestat.kernels import vectors

    def renamed(name: str) -> str:
        return new + name[len(old) :] if f"{name}.".startswith(f"{old}.") else name

    # Arguments may be of classes of a moved module.
    setattr(vectors, "import_module", lambda name: import_module(renamed(name)))  # noqa: B010
    found: dict[str, vectors.Vectors] = defaultdict(vectors.Vectors)
    before: dict[Path, bytes] = {}
    for path in sorted(_ROOT.rglob(vectors.FILE_NAME)):
        package = ".".join(path.parent.relative_to(_ROOT.parent).parts)
        before[path] = path.read_bytes()
        for name, ones in vectors.Vectors.from_bytes(before[path]).items():
            place, module, function = renamed(f"{package}.{name}").rsplit(".", 2)
            found[place][f"{module}.{function}"] = list(ones)
    after = {
        _ROOT.parent.joinpath(*package.split("."), vectors.FILE_NAME): ones.to_bytes()
        for package, ones in found.items()
    }
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            path.unlink() if path not in after else path.write_bytes(after[path])
            print(path.relative_to(_ROOT.parent))


def _run_python(*arguments: str, variables: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", *arguments], env=os.environ | variables, check=True)  # noqa: S603


def main() -> None:
    """Record and choose, or rename."""
    match sys.argv[1:]:
        case ["--rename", old, new]:
            _rename(old, new)
        case ["--choose", folder, *adds]:
            _choose(Path(folder), bool(adds))
        case tests:
            with tempfile.TemporaryDirectory() as folder:
                plugins = "-p", _NAME, "-p", "tests.sampled"
                _run_python(
                    *("pytest", "-q", "-n", "2", "-m", "not long", *plugins, *(tests or _TESTS)),
                    variables={_FOLDER: folder},
                )
                adds = ["--adds"] if tests else []
                _run_python(_NAME, "--choose", folder, *adds, variables={"NUMBA_DISABLE_JIT": "1"})


if __name__ == "__main__":
    main()
