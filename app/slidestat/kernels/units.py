"""Units of machine code: the kernels of one package, compiled by one process.

numba keeps machine code function by function. Functions that several processes have compiled then
meet in one that loads them, and two of them may have one name there (see `compile.py`). A unit is
made as a whole, by a process of its own: its functions are compiled for the signatures of the
package's vectors, linked into one module, and become one object file. Names in it begin with a
number of that process. So no name has two meanings, whichever process made a unit.

A unit is for one version of Python, numba and llvmlite, for one kind of processor, and for the
sources that it was made of: its key is a digest of all that. It comes with the package (a wheel
for this Python and this kind of processor has all units), or is made at the first need, under a
lock, and kept in the user's cache folder. Loading takes a few milliseconds, where numba's own cache
takes four for each function.

A kernel of another package, such as a user's own synopsis, is a unit of its own for each
combination of types, made by the process that first compiles it. A compiled function that calls a
kernel of another unit takes its intermediate code, so that no machine code needs another unit.
"""

import hashlib
import inspect
import itertools
import logging
import os
import pickle
import subprocess
import sys
import sysconfig
import time
import zlib
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
types: Any = numba.types
_nrt: Any = vars(runtime)["_nrt_python"]
_log = logging.getLogger(__name__)

SHIPPED = "kernel_units"
"""The folder of this distribution's package that has the units of a wheel."""
_NAME = f"{__package__}.units"
_OURS = _NAME.partition(".")[0]
_CORE = "slidestat.synopses.core"
_FORMAT = b"slidestat unit 2\n"
_OWN = "own"  # The folder within the cache folder for kernels of other packages.
_OVER_BLOCKS = ("blocks", "frequent", "merge", "quantiles")
_BUILD_S = 1_200.0
_LOCK_S = _BUILD_S + 60.0  # A process that waits for another's unit outlasts its making.
# These modes hold under any umask: users that share a folder wait for each other, and load each
# other's units.
_LOCK_MODE, _UNIT_MODE = 0o666, 0o644
_UNUSED_S = 30 * 24 * 3600.0
_TOUCHED_S = 24 * 3600.0
# Types of arguments whose names say all of them.
_PLAIN = (
    *(types.Number, types.Boolean, types.Buffer, types.NPDatetime, types.NPTimedelta),
    *(types.NoneType, types.UnicodeType, types.Record, types.Omitted),
)
# Python 3.14 keeps no place for a docstring that there is not, and has a flag of code with one.
_HAS_DOCSTRING: int = getattr(inspect, "CO_HAS_DOCSTRING", 0)
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
def _is_writable() -> bool:
    """Return whether the cache folder can be written; warn once where it cannot."""
    try:
        try_to_write()
    except OSError as error:
        _warn(
            f"Kernels are compiled by this process alone, as by each that starts: {cache_folder()}"
            f" cannot be written ({error.strerror}). Name a folder that this user may write in"
            f" {user_files.CACHE_VARIABLE}."
        )
        return False
    return True


@cache
def processor() -> tuple[str, str]:
    """Return the kind of processor that units are for, and its features, as LLVM names them.

    x86-64-v3 is what all x86 servers and notebooks of the last ten years have. numba's own settings
    come first.
    """
    if config.CPU_NAME is not None or config.CPU_FEATURES:
        name = config.CPU_NAME or llvm.get_host_cpu_name()
        return str(name), config.CPU_FEATURES or ""
    machine = llvm.get_process_triple().partition("-")[0]
    try:
        found = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know them everywhere.
        return llvm.get_host_cpu_name(), ""
    if machine == "x86_64":
        for name, features in (("x86-64-v3", _V3), ("x86-64-v2", _V2)):
            # NUMBA_ENABLE_AVX=0 is for processors that have it in vain.
            if all(found.get(feature) for feature in features) and (
                name == "x86-64-v2" or config.ENABLE_AVX
            ):
                return name, ""
    if machine in ("aarch64", "arm64"):
        return "generic", "+neon"
    return llvm.get_host_cpu_name(), found.flatten()


# The key.


def key_of(package: str) -> str:
    """Return the key of a package's unit. Cost: a millisecond or two; it imports its kernels."""

    def parts() -> Iterator[bytes]:
        seen: dict[object, int] = {}
        for name, kernel in kernels_of(package):
            yield f"{name} {sorted(_signatures(package, name, kernel))}".encode()
            yield from _parts(kernel, frozenset(), seen)

    return _digest(processor(), parts())[:24]


def place_of(kernel: Any, signature: Sequence[Any]) -> Path | None:
    """Return the file of the unit of a kernel of another package, for these types of arguments.

    None where something that it reaches has no key, such as a list or an object: its machine code
    is kept nowhere then. Cost: a millisecond or two.
    """
    target = cpu_target.target_context.codegen().magic_tuple(), np.__version__, tuple(signature)
    types_of_arguments = itertools.chain.from_iterable(map(_of_type, signature))
    try:
        key = _digest(target, itertools.chain(types_of_arguments, _parts(kernel, frozenset(), {})))
    except TypeError:
        return None
    return cache_folder() / _OWN / key[:32]


def _digest(target: tuple[Any, ...], parts: Iterator[bytes]) -> str:
    environment = (
        # The naming of extensions in C: the kind of Python, and of the C library.
        sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag,
        numba.__version__,
        version("llvmlite"),
        llvm.get_process_triple(),
        target,
        config.BOUNDSCHECK,
        config.USING_SVML,
        int(config.OPT),
    )
    digest = hashlib.sha256(_FORMAT + repr(environment).encode())
    for part in parts:
        digest.update(b"%d:%b" % (len(part), part))
    return digest.hexdigest()


def _parts(value: Any, names: frozenset[str], seen: dict[object, int]) -> Iterator[bytes]:
    """Yield what machine code has of `value`: code and constants, of callees as well.

    An object that was `seen` before is written as its number. Raises TypeError for a value of a
    kind that is not known here: machine code might change with it, and the key would not.
    """
    is_compiled = isinstance(value, Dispatcher)
    if is_compiled:
        yield from _options(value)
        value = value.py_func
    if isinstance(value, FunctionType) and (
        is_compiled or _is_ours(value.__module__) or _is_of_a_library(value.__module__)
    ):
        if value in seen:
            yield b"%d" % seen[value]
            return
        seen[value] = len(seen)
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
        if not _is_of_a_library(value.__name__) and (value, names) not in seen:
            seen[value, names] = len(seen)
            for name in sorted(names & vars(value).keys()):
                yield name.encode()
                yield from _parts(vars(value)[name], names, seen)
    elif isinstance(value, np.ndarray):
        kind = value.dtype.str if value.dtype.names is None else repr(value.dtype)
        yield repr((kind, value.shape)).encode()
        yield value.tobytes()
    elif isinstance(value, tuple):
        yield b"%d" % len(value)
        if type(value) is not tuple:  # Code has the names of its fields, and not their places.
            yield repr((type(value).__qualname__, getattr(value, "_fields", None))).encode()
        for part in value:
            yield from _parts(part, names, seen)
    elif isinstance(value, type | BuiltinFunctionType) and _is_of_a_library(str(value.__module__)):
        yield value.__qualname__.encode()
    elif isinstance(value, int | float | str | bytes | None | np.generic):
        yield repr(value).encode()
    else:
        raise TypeError(f"kernels use {value!r}: units.py has no key for a {type(value).__name__}")


def _options(kernel: Any) -> Iterator[bytes]:
    """Yield what a kernel was declared with: options, types of variables, types of arguments."""
    options = kernel.targetoptions.items()
    yield repr(sorted((n, sorted(o) if isinstance(o, set) else o) for n, o in options)).encode()
    if kernel.locals:
        yield repr(sorted(kernel.locals.items())).encode()
    if not kernel._can_compile:  # Its arguments are cast to the types that it was declared for.
        yield repr(sorted(map(str, kernel.nopython_signatures))).encode()


def _of_type(kind: Any) -> Iterator[bytes]:
    """Yield what the name of an argument's type leaves out: the fields of a named tuple.

    Raises TypeError for a type whose name may leave out more, such as that of a function.
    """
    if isinstance(kind, types.BaseTuple):
        if isinstance(kind, types.BaseNamedTuple):
            named = kind.instance_class
            yield repr((named.__module__, named.__qualname__, kind.fields)).encode()
        for part in kind:
            yield from _of_type(part)
    elif isinstance(kind, types.Optional):
        yield from _of_type(kind.type)
    elif not isinstance(kind, _PLAIN):
        raise TypeError(f"kernels take {kind}: units.py has no key for a {type(kind).__name__}")


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _OURS


def _is_of_a_library(module: str) -> bool:
    """Return whether a module is Python's or numba's, whose versions are in each key."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in ("numpy", "numba", "llvmlite")


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
    is_text = isinstance(first, str) and (
        bool(code.co_flags & _HAS_DOCSTRING) if _HAS_DOCSTRING else not code.co_name.startswith("<")
    )
    for constant in others if first is None or is_text else code.co_consts:
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

    def __init__(self, data: bytes, name: str) -> None:
        """Take a file; raises ValueError for one that is cut or altered, or another's."""
        body = pickle.loads(_body(data, name))  # noqa: S301 - its sum is right
        machine_code, self._packed_module, entries, symbols = body
        _let_find_the_runtime()
        self._entries: dict[Entry, bytes] = entries
        self._linked: Any = None
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
        # A kernel that is compiled here and calls it has a copy of it. numba keeps what it
        # compiles: by name alone, a process that has no such unit would not find it.
        library._get_module_for_linking = self._module
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

    def _module(self) -> Any:
        """Return the intermediate code of all kernels; the linker takes what is called."""
        if self._linked is None:
            self._linked = llvm.parse_bitcode(zlib.decompress(self._packed_module))
            for function in self._linked.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
        return self._linked


def _packed(name: str, body: bytes) -> bytes:
    return b"".join((_FORMAT, _sum(name, body), body))


def _sum(name: str, body: bytes) -> bytes:
    # The name is part of the sum: a file that was renamed or copied is for another processor or
    # version.
    return hashlib.sha256(name.encode() + b"\n" + body).digest()


def _body(data: bytes, name: str) -> bytes:
    """Return what a file has behind its sum; raises ValueError for one that is cut, altered or
    named otherwise than when it was made.
    """
    head, body = data[: len(_FORMAT) + 32], data[len(_FORMAT) + 32 :]
    if head != _FORMAT + _sum(name, body):
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
            return Unit(shipped.read_bytes(), name)
        except (OSError, ValueError) as error:
            _warn(f"The kernels that came with {package} cannot be used: {error}")
    path = cache_folder() / name
    try:
        return kept(path)
    except (OSError, ValueError):
        return _made(package, path)


def kept(path: Path) -> Unit:
    """Return a unit of the cache folder; once a day, take note that it is used."""
    unit = Unit(path.read_bytes(), path.name)
    with suppress(OSError):  # It may be another user's, or gone meanwhile.
        if path.stat().st_mtime < time.time() - _TOUCHED_S:
            path.touch()
    return unit


def folder_of(package: str) -> Path | Traversable:
    """Return where the unit of a package lies: beside the package, or in the cache folder."""
    shipped = files(_OURS).joinpath(SHIPPED)
    return shipped if shipped.joinpath(_file_of(package)).is_file() else cache_folder()


def ship_with_the_package() -> bool:
    """Return whether units for this Python and this processor came with the package."""
    return folder_of(_CORE) != cache_folder()


def _file_of(package: str) -> str:
    return f"{package}-{key_of(package)}"


def _made(package: str, path: Path) -> Unit | None:
    if not _is_writable() or not sys.executable:
        return None
    lock = path.with_name(f"{path.name}.lock")
    try:
        with FileLock(lock, timeout=_LOCK_S, mode=_LOCK_MODE):
            try:  # Another process may have made it meanwhile.
                unit = kept(path)
            except (OSError, ValueError):
                _build_in_a_process(path.parent, package, within_s=_BUILD_S)
                unit = kept(path)
                remove_unused(path.parent)
            lock.unlink(missing_ok=True)  # A process that makes a new one finds the unit.
        return unit
    except (OSError, ValueError, Timeout, subprocess.SubprocessError) as error:
        _warn(f"The kernels of {package} are compiled by this process alone: {error}")
        return None


def remove_unused(folder: Path) -> None:
    """Remove what is a month old: units that no process has loaded since, and locks and parts of
    files that killed processes left. A process that has loaded a file does not need it again, and
    one that misses a file makes it again.
    """
    oldest = time.time() - _UNUSED_S
    for path in (*folder.glob(f"{_OURS}.*"), *folder.glob(f"{_OWN}/*")):
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
    done = subprocess.run(  # noqa: S603 - this Python, on this module
        [*_python(), "-c", f"from {_NAME} import main; main()", str(folder), *packages],
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


def _python() -> Iterator[str]:
    yield sys.executable
    yield "-P"  # The folder that a user is in may have a random.py.
    if sys.flags.optimize:  # Code without asserts has another key.
        yield "-" + "O" * sys.flags.optimize


# Making one.


def is_building() -> bool:
    """Return whether this process makes units."""
    return _is_building


def build(packages: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each of these packages with the file of its unit.

    This process must not have compiled anything before. A function that several packages call is
    compiled once, and has the same name in all of their units: it is the same.
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
    return linked(_file_of(package), results)


def linked(name: str, results: dict[Entry, Any]) -> bytes:
    """Return the file of a unit of these results, which numba has compiled."""
    codegen = cpu_target.target_context.codegen()
    module = llvm.parse_assembly(str(codegen._create_empty_module(name)))
    for result in results.values():
        module.link_in(result.library._final_module, preserve=True)
    entries = {entry: dumps(_described(result)) for entry, result in results.items()}
    symbols = {
        symbol.name
        for group in (module.functions, module.global_variables)
        for symbol in group
        if not symbol.is_declaration
    }
    # The bitcode is taken first: making machine code alters the module.
    packed = zlib.compress(module.as_bitcode())
    body = dumps((codegen._tm.emit_object(module), packed, entries, symbols))
    return _packed(name, body)


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
            _body(data, name)
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
    with FileLock(lock, mode=_LOCK_MODE):
        missing = [one for one in packages() if not _is_in(folder, one)]
        # Structures over blocks call the same kernels: one process compiles them once.
        over_blocks = [one for one in missing if one.rpartition(".")[2] in _OVER_BLOCKS]
        others = [one for one in missing if one not in over_blocks]
        parts = [part for part in (over_blocks, others) if part]
        with ThreadPool(2) as pool:
            pool.map(lambda part: _build_in_a_process(folder, *part), parts)
        if folder != cache_folder():
            _remove_others(folder)
        elif missing:
            remove_unused(folder)
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
        path = Path(folder) / _file_of(package)
        write_whole(path, data)
        path.chmod(_UNIT_MODE)


if __name__ == "__main__":
    main()
