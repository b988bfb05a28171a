"""Units of machine code: the kernels of one package, compiled by one process.

numba keeps machine code function by function. What several processes have compiled then meets in
one that loads it, and two functions may have one name there (see `compile.py`). A unit is made
as a whole, by a process of its own: its functions are compiled for the signatures of the package's
vectors, linked into one module, and become one object file. Names in it begin with a number of that
process. So no name has two meanings, whichever process made a unit.

A unit is for one version of Python, numba and llvmlite, for one kind of processor, and for the
sources that it was made of: its key is a digest of all that. It comes with the package (a wheel
for this Python and this kind of processor has all units), or is made at the first need, under a
lock, and kept in the user's cache folder. Loading takes a few milliseconds, where numba's own cache
takes four for each function.
"""

import hashlib
import itertools
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from multiprocessing.pool import ThreadPool
from pathlib import Path
from tempfile import TemporaryFile
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from filelock import FileLock, Timeout
from numba.core import compiler, runtime, serialize
from numba.core.bytecode import FunctionIdentity
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from slidestat import user_files
from slidestat.errors import SlidestatError
from slidestat.kernels.vectors import FILE_NAME, kernels_of, vectors_of
from slidestat.user_files import write_whole

# A type checker sees less of them than there is.
config: Any = numba.config
llvm: Any = llvmlite.binding
CompileResult: Any = compiler.CompileResult
dumps: Any = serialize.dumps
typeof: Any = numba.typeof
_nrt: Any = vars(runtime)["_nrt_python"]
_log = logging.getLogger(__name__)

SHIPPED = "kernel_units"
"""The folder of this distribution's package that has the units of a wheel."""
_NAME = f"{__package__}.units"
_OURS = _NAME.partition(".")[0]
_CORE = "slidestat.synopses.core"
_FORMAT = b"slidestat unit 1\n"
_OVER_BLOCKS = ("blocks", "frequent", "merge", "quantiles")
_BUILD_S = 1_200.0
_LOCK_S = _BUILD_S + 60.0  # A process that waits for another's unit outlasts its making.
_UNUSED_S = 30 * 24 * 3600.0
_TOUCHED_S = 24 * 3600.0
_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")

_is_building = False

Entry = tuple[str, tuple[str, ...]]  # a kernel's name in its package, its arguments' types


class KernelError(SlidestatError):
    """Machine code that does not do what its source does."""


def cache_folder() -> Path:
    """Return the folder that has what this user's processes compile: within numba's own, where
    NUMBA_CACHE_DIR names one.
    """
    return Path(config.CACHE_DIR or user_files.cache_folder()) / "kernels"


def try_to_write() -> None:
    """Write a file into the cache folder, and remove it; raises OSError where it cannot be."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    TemporaryFile(dir=cache_folder()).close()


@cache
def is_writable() -> bool:
    """Return whether the cache folder can be written."""
    try:
        try_to_write()
    except OSError:
        return False
    return True


@cache
def processor() -> tuple[str, str]:
    """Return the kind of processor that units are for, and its features, as LLVM names them.

    x86-64-v3 is what all x86 servers and notebooks of the last ten years have. numba's own settings
    come first.
    """
    if config.CPU_NAME is not None:
        return config.CPU_NAME, config.CPU_FEATURES or ""
    machine = llvm.get_process_triple().partition("-")[0]
    try:
        found = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know them everywhere.
        return llvm.get_host_cpu_name(), ""
    if machine == "x86_64":
        for name, features in (("x86-64-v3", _V3), ("x86-64-v2", _V2)):
            if all(found.get(feature) for feature in features):
                return name, ""
    if machine in ("aarch64", "arm64"):
        return "generic", "+neon"
    return llvm.get_host_cpu_name(), found.flatten()


# The key.


def key_of(package: str) -> str:
    """Return the key of a package's unit. Cost: a millisecond or two; it imports its kernels."""
    digest = hashlib.sha256(_FORMAT)
    environment = (
        sys.implementation.cache_tag,
        numba.__version__,
        version("llvmlite"),
        llvm.get_process_triple(),
        processor(),
        config.BOUNDSCHECK,
        config.USING_SVML,
        int(config.OPT),
    )
    digest.update(repr(environment).encode())
    seen: dict[int, int] = {}
    for name, kernel in kernels_of(package):
        digest.update(f"{name} {sorted(_signatures(package, name, kernel))}".encode())
        for part in _parts(kernel, frozenset(), seen):
            digest.update(b"%d:%b" % (len(part), part))
    return digest.hexdigest()[:24]


def _parts(value: Any, names: frozenset[str], seen: dict[int, int]) -> Iterator[bytes]:
    """Yield what machine code has of `value`: code and constants, of callees as well.

    A function that was `seen` before is its number. Raises TypeError for a value of a kind that is
    not known here: machine code might change with it, and the key would not.
    """
    if isinstance(value, Dispatcher):
        yield repr(sorted(value.targetoptions.items())).encode()
        value = value.py_func
    if isinstance(value, FunctionType):
        if id(value) in seen:
            yield b"%d" % seen[id(value)]
            return
        seen[id(value)] = len(seen)
        # Machine code is found again by the module's name, too.
        yield f"{value.__module__}.{value.__qualname__}".encode()
        used = frozenset(_names(value.__code__))
        yield from _code(value.__code__)
        yield from _parts(value.__defaults__, used, seen)
        for cell in value.__closure__ or ():
            yield from _parts(cell.cell_contents, used, seen)
        for name in sorted(used & value.__globals__.keys()):
            yield name.encode()
            yield from _parts(value.__globals__[name], used, seen)
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
        if _is_ours(value.__name__):
            for name in sorted(names & vars(value).keys()):
                yield name.encode()
                yield from _parts(vars(value)[name], names, seen)
    elif isinstance(value, np.ndarray):
        yield repr((value.dtype.str, value.shape)).encode()
        yield value.tobytes()
    elif isinstance(value, tuple):
        yield b"%d" % len(value)
        for part in value:
            yield from _parts(part, names, seen)
    elif isinstance(value, type | BuiltinFunctionType) and not _is_ours(value.__module__):
        yield value.__qualname__.encode()
    elif isinstance(value, int | float | str | bytes | None | np.generic):
        yield repr(value).encode()
    else:
        raise TypeError(f"kernels use {value!r}: units.py has no key for a {type(value).__name__}")


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _OURS


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    # A docstring is the first constant. Up to Python 3.13 None is in its place where there is none,
    # but not in code within a function, such as a comprehension's.
    first, *others = code.co_consts or (None,)
    for constant in others if first is None or isinstance(first, str) else code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant))).encode()
        else:
            yield repr(constant).encode()


def _signatures(package: str, name: str, kernel: Any) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """Return the types of arguments that a kernel is compiled for, by their names."""
    tried = (tuple(map(typeof, one.arguments)) for one in vectors_of(package)[name])
    found = [getattr(kernel, "ahead", ()), *tried]
    return {tuple(map(str, signature)): signature for signature in found if signature}


# Units in use.


class Unit:
    """The machine code of a package, as this process has it."""

    def __init__(self, data: bytes) -> None:
        """Take a file; raises ValueError for one that is cut or altered."""
        machine_code, entries, symbols = pickle.loads(_body(data))  # noqa: S301 - its sum is right
        _let_find_the_runtime()
        self._entries: dict[Entry, bytes] = entries
        self._code = cpu_target.target_context.codegen()
        engine = self._code._engine
        engine._ee.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
        engine.finalize_object()
        engine._defined_symbols |= symbols

    def result(self, entry: Entry) -> Any:
        """Return the kernel for these types, ready to be called; None where the unit has none."""
        stored = self._entries.get(entry)
        if stored is None:
            return None
        descriptor, environment, signature, environments = pickle.loads(stored)  # noqa: S301
        library = self._code.create_library(descriptor.unique_name)
        # Who calls it from a kernel that is compiled here finds it by its name: nothing is linked.
        library._shared_module = llvm.parse_assembly(
            str(self._code._create_empty_module(descriptor.unique_name))
        )
        library._finalized = True
        context = cpu_target.target_context
        for one in environments:
            self._code.set_env(one.env_name, one)
        return CompileResult(
            typing_context=context.typing_context,
            target_context=context,
            entry_point=context.get_executable(library, descriptor, environment),
            typing_error=None,
            type_annotation="",
            signature=signature,
            objectmode=False,
            lifted=(),
            fndesc=descriptor,
            library=library,
            call_helper=None,
            environment=environment,
            metadata=None,
            reload_init=(),
            referenced_envs=environments,
        )


def _body(data: bytes) -> bytes:
    """Return what a file has behind its sum; raises ValueError for one that is cut or altered."""
    head, body = data[: len(_FORMAT) + 32], data[len(_FORMAT) + 32 :]
    if head != _FORMAT + hashlib.sha256(body).digest():
        raise ValueError("no unit, or one that is damaged")
    return body


@cache
def _let_find_the_runtime() -> None:
    """Make numba's runtime known by name, as numba does before it compiles."""
    for name, address in _nrt.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


@cache
def unit_of(package: str) -> Unit | None:
    """Return the unit of a package: one that came with it, one that is kept, or a new one.

    None where the package has no vectors, or where none can be made: kernels are then compiled in
    this process alone.
    """
    if _is_building or not vectors_of(package):
        return None
    name = _file_of(package)
    shipped = files(_OURS).joinpath(SHIPPED, name)
    if shipped.is_file():
        try:
            return Unit(shipped.read_bytes())
        except (OSError, ValueError) as error:
            _warn(f"The kernels that came with {package} cannot be used: {error}")
    path = cache_folder() / name
    try:
        return _kept(path)
    except (OSError, ValueError):
        return _made(package, path)


def _kept(path: Path) -> Unit:
    """Return a unit of the cache folder; once a day, take note that it is used."""
    unit = Unit(path.read_bytes())
    with suppress(OSError):  # It may be another user's, or gone meanwhile.
        if path.stat().st_mtime < time.time() - _TOUCHED_S:
            path.touch()
    return unit


def ship_with_the_package() -> bool:
    """Return whether units for this Python and this processor came with the package."""
    return files(_OURS).joinpath(SHIPPED, _file_of(_CORE)).is_file()


def _file_of(package: str) -> str:
    return f"{package}-{key_of(package)}"


def _made(package: str, path: Path) -> Unit | None:
    if not is_writable() or not sys.executable:
        return None
    lock = path.with_name(f"{path.name}.lock")
    try:
        with FileLock(lock, timeout=_LOCK_S):
            try:  # Another process may have made it meanwhile.
                unit = _kept(path)
            except (OSError, ValueError):
                _build_in_a_process(path.parent, package, within_s=_BUILD_S)
                unit = _kept(path)
                _remove_unused(path.parent)
            lock.unlink(missing_ok=True)  # A process that makes a new one finds the unit.
        return unit
    except (OSError, ValueError, Timeout, subprocess.SubprocessError) as error:
        _warn(f"The kernels of {package} are compiled by this process alone: {error}")
        return None


def _remove_unused(folder: Path) -> None:
    """Remove what is a month old: units that no process has loaded since, locks and parts of files
    that killed processes left, and what numba keeps of users' kernels. A process that has loaded a
    file does not need it again, and one that misses a file makes it anew.
    """
    oldest = time.time() - _UNUSED_S
    for path in (*folder.glob(f"{_OURS}.*"), *folder.glob("*/*/*/*.nb[ic]")):
        with suppress(OSError):  # Another process tidies up at the same time.
            if path.stat().st_mtime < oldest:
                path.unlink()


def _warn(text: str) -> None:
    _log.warning(text, extra={"text": text})  # A terminal shows the text of a record alone.


def _build_in_a_process(folder: Path, *packages: str, within_s: float | None = None) -> None:
    name, features = processor()
    environment = os.environ | {
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": features,
        # Imports pass over what is no text.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if isinstance(path, str)),
    }
    names = ", ".join(packages)
    _log.info("Compiling the kernels of %s, once for this version of slidestat", names)
    started = time.monotonic()
    # -P: the folder that a user is in may have a random.py.
    done = subprocess.run(  # noqa: S603 - this Python, on this module
        [sys.executable, "-P", "-c", f"from {_NAME} import main; main()", str(folder), *packages],
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=within_s,
    )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        error = OSError(f"the process that should compile them ended: {reason}")
        error.add_note(done.stderr)
        raise error
    _log.info("Compiled the kernels of %s in %.0f s", names, time.monotonic() - started)


# Making one.


def is_building() -> bool:
    """Return whether this process makes units."""
    return _is_building


def build(packages: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each of these packages with the file of its unit.

    This process must not have compiled anything before. What several packages call is compiled
    once, and has the same name in all of their units: it is the same.
    """
    global _is_building
    _is_building = True
    # No other process has names of these numbers: it makes other units.
    digest = hashlib.sha256("".join(map(_file_of, packages)).encode()).hexdigest()
    FunctionIdentity._unique_ids = itertools.count(int(digest[:24], 16) << 24)
    for package in packages:
        yield package, _built(package)


def _built(package: str) -> bytes:
    results: dict[Entry, Any] = {}
    for name, kernel in kernels_of(package):
        for named, signature in _signatures(package, name, kernel).items():
            kernel.compile(signature)
            results[name, named] = kernel.overloads[signature]
    codegen = cpu_target.target_context.codegen()
    module = llvm.parse_assembly(str(codegen._create_empty_module(package)))
    for result in results.values():
        module.link_in(result.library._final_module, preserve=True)
    entries = {entry: dumps(_described(result)) for entry, result in results.items()}
    symbols = {
        symbol.name
        for group in (module.functions, module.global_variables)
        for symbol in group
        if not symbol.is_declaration
    }
    body = dumps((codegen._tm.emit_object(module), entries, symbols))
    return b"".join((_FORMAT, hashlib.sha256(body).digest(), body))


def _described(result: Any) -> tuple[Any, ...]:
    result.fndesc.typemap = result.fndesc.calltypes = None  # for the compiler alone
    environments = tuple(result._find_referenced_environments())
    return result.fndesc, result.environment, result.signature, environments


def packages() -> list[str]:
    """Return all packages of this distribution that have kernels."""
    return sorted(_packages(files(_OURS), _OURS))


def _packages(folder: Traversable, name: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _packages(entry, f"{name}.{entry.name}")
        elif entry.name == FILE_NAME:
            yield name


def _is_in(folder: Path, package: str) -> bool:
    """Return whether a folder has a package's unit, if need be by a copy of the user's."""
    name = _file_of(package)
    for path in (folder / name, cache_folder() / name):
        try:
            data = path.read_bytes()
            _body(data)
        except (OSError, ValueError):
            continue
        if path.parent != folder:
            write_whole(folder / name, data)
        return True
    return False


def build_all(folder: Path) -> None:
    """Make the units that `folder` has not yet, by two processes at once."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f"{folder.name}.lock")
    with FileLock(lock):
        missing = [one for one in packages() if not _is_in(folder, one)]
        # What is over blocks calls the same kernels: one process compiles them once.
        over_blocks = [one for one in missing if one.rpartition(".")[2] in _OVER_BLOCKS]
        others = [one for one in missing if one not in over_blocks]
        parts = [part for part in (over_blocks, others) if part]
        with ThreadPool(2) as pool:
            pool.map(lambda part: _build_in_a_process(folder, *part), parts)
        if folder != cache_folder():
            _remove_others(folder)
        elif missing:
            _remove_unused(folder)
    lock.unlink(missing_ok=True)


def _remove_others(folder: Path) -> None:
    """Remove units of other sources: a wheel takes the whole folder."""
    for package in packages():
        for path in folder.glob(f"{package}-*"):
            if path.name != _file_of(package):
                path.unlink()


def main() -> None:
    """Make the units of packages: the arguments are a folder and their names. Without names, make
    all that are missing there; without a folder, in this user's.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder, *names = sys.argv[1:] or [str(cache_folder())]
    if not names:
        build_all(Path(folder))
        return
    for package, data in build(names):
        write_whole(Path(folder) / _file_of(package), data)


if __name__ == "__main__":
    main()
