"""Write the golden vectors of kernels again: `python -m scripts.vectors` (`make vectors`).

Tests are run, and what they call kernels with is kept in a folder: some calls of each kernel and
each combination of types. Then plain Python, without the compiler, runs the kept calls of each
kernel, the smallest first; those that reach lines which no call before them reached become its
vectors. See slidestat/synopses/kernels/vectors.py.

`python -m scripts.vectors FOLDER` chooses again among the calls that are in a folder.
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
    f"tests/{room}" for room in ["golden", "testing", "engine", "declare", "audit", "laws"]
)
_KEPT = {1, 2, 3, 10, 30, 100, 300, 1_000}
_MOST_BYTES = 200_000
_MOST_S = 1.0
_MOST_VECTORS = 8
_OURS = "slidestat."


# Recording: this module is pytest's plugin then.


def pytest_configure() -> None:
    """Keep calls of kernels from now on."""
    if _FOLDER in os.environ:
        _record(Path(os.environ[_FOLDER]))


def _record(folder: Path) -> None:
    from numba._dispatcher import Dispatcher
    from numba.core.registry import CPUDispatcher

    from slidestat.synopses.kernels.vectors import Vector, Vectors

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


def _choose(folder: Path) -> None:
    from slidestat.synopses.kernels.vectors import FILE_NAME, Vectors

    calls: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        for name, (vector,) in Vectors.from_bytes(path.read_bytes()).items():
            calls[name].append(vector.arguments)
    packages: dict[str, Vectors] = defaultdict(Vectors)
    for name, ones in sorted(calls.items()):
        module, _, function = name.rpartition(".")
        package, _, file = module.rpartition(".")
        chosen = list(_chosen(getattr(import_module(module), function), ones))
        packages[package][f"{file}.{function}"] = chosen
        print(f"{name}: {len(chosen)} of {len(ones)} calls", flush=True)
    # Kernels that take addresses have no vectors, and are compiled ahead all the same.
    for name in ("librdkafka._produce", "librdkafka._take_report"):
        packages["slidestat.kafka"][name] = []
    for package, vectors in packages.items():
        data = vectors.to_bytes()
        Path(str(files(package).joinpath(FILE_NAME))).write_bytes(data)
        print(f"{package}: {len(data):,} bytes")


def _chosen(function: Any, calls: list[tuple[Any, ...]]) -> Iterator[Any]:
    from slidestat.synopses.kernels.vectors import Vector, copied

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

    from slidestat.synopses.kernels.vectors import copied

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

    from slidestat.synopses.kernels.vectors import Partial, same

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


def _run_python(*arguments: str, variables: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", *arguments], env=os.environ | variables, check=True)  # noqa: S603


def main() -> None:
    """Record and choose, or choose among the calls of a folder."""
    if os.environ.get("NUMBA_DISABLE_JIT"):
        _choose(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = sys.argv[1] if sys.argv[1:] else made
        if not sys.argv[1:]:
            _run_python(
                "pytest", "-q", "-n", "2", "-p", _NAME, *_TESTS, variables={_FOLDER: folder}
            )
        _run_python(_NAME, folder, variables={"NUMBA_DISABLE_JIT": "1"})


if __name__ == "__main__":
    main()
