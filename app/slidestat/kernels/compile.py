"""How kernels are compiled: by numba, ahead, as units of machine code (`units.py`).

numba's own cache on disk is not used for kernels of this distribution. It keeps function by
function what any process compiled, and the names in it begin with a counter of that process: what
two processes made could carry two functions of one name, and a process that loaded both called one
for the other (numba's issues 10128 and 10486). It also looks at the file of the function that it
loads, not at the functions called by it. So a kernel's machine code is that of its package's unit,
and is tried on the golden vectors of the kernel when a process loads it. What no unit has is
compiled by the process that calls it, for itself.

Kernels of other packages, such as a user's own synopses, use numba's cache, in a folder that
carries a digest of their package, or of the folder of a module without one, and of the packages
here that have what they call. Each process numbers its functions from a random start on, so that no
two of them give one name to two functions.

The package may lie in a zip or a wheel, as Spark's --py-files bring it: sources are read through
their loader. With NUMBA_DISABLE_JIT=1 a kernel is the plain Python function.
"""

import hashlib
import itertools
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import types
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache, _CacheLocator

from slidestat.kernels import units
from slidestat.kernels.units import KernelError, cache_folder, is_writable, unit_of
from slidestat.kernels.vectors import vectors_of

config: Any = numba.config  # its settings are made at run time, which a type checker cannot see
njit: Any = numba.njit  # the types that come with it lack options
unliteral: Any = types.unliteral
_log = logging.getLogger(__name__)

FunctionIdentity._unique_ids = itertools.count(secrets.randbits(64) << 32)

Function = TypeVar("Function", bound=Callable[..., object])

_OURS = __name__.partition(".")[0]
_CALLED = (__package__, f"{_OURS}.synopses")
"""The packages that have what a user's kernels call: their digest is in the place of each."""

compiled_here: list[str] = []
"""The kernels of this distribution that no unit had, as this process has compiled them."""


def _sources(folder: Traversable) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_bytes()


@cache
def _digest_of(package: str) -> str:
    return _digest(_sources(files(package)))


@cache
def _digest_beside(path: Path) -> str:
    """Return the digest of the modules of a folder that is no package."""
    return _digest(one.read_bytes() for one in sorted(path.parent.glob("*.py")))


def _digest(sources: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source)
    return digest.hexdigest()[:16]


def _has_sources(function: Callable[..., object]) -> bool:
    """Return whether the sources of a function can be read again: a notebook's cannot."""
    return "." in function.__module__ or Path(function.__code__.co_filename).is_file()


class SourcesLocator(_CacheLocator):
    """The place of the machine code of another package's function: by its sources."""

    def __init__(self, function: Callable[..., object]) -> None:
        package = function.__module__.rpartition(".")[0]
        file = Path(function.__code__.co_filename)
        digest = _digest_of(package) if package else _digest_beside(file)
        ours = _digest(_digest_of(name).encode() for name in _CALLED)
        folder = cache_folder() / ours / digest
        self._folder = str(folder / function.__module__)
        self._place = str(function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, function: Callable[..., object], _file: str) -> "SourcesLocator":
        """Return the locator of `function`, wherever its file lies."""
        return cls(function)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return self._folder

    def get_source_stamp(self) -> str:
        """Return the same always: the folder is that of these very sources."""
        return "by sources"

    def get_disambiguator(self) -> str:
        """Return a text that distinguishes functions of one name."""
        return self._place


class _UnitCache(NullCache):
    """A cache for numba: it asks for machine code of a kernel before it compiles one."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._package, _, module = function.__module__.rpartition(".")
        self._name = f"{module}.{function.__qualname__}"

    def load_overload(self, sig: Any, _target_context: Any) -> Any:
        """Return the kernel of the unit, once it does what its vectors say; None for another."""
        unit = unit_of(self._package)
        if unit is None:
            return None
        entry = self._name, tuple(map(str, sig))
        result = unit.result(entry)
        if result is not None:
            self._try(result.entry_point, entry[1])
        return result

    def save_overload(self, sig: Any, _data: Any) -> None:
        """Take note of a kernel that was compiled here, and is in no unit."""
        if units.is_building():
            return
        compiled_here.append(f"{self._package}.{self._name}{sig}")
        _log.info("Compiled by this process, as no unit has it: %s", compiled_here[-1])

    def _try(self, machine_code: Callable[..., Any], types_of_arguments: tuple[str, ...]) -> None:
        for vector in vectors_of(self._package)[self._name]:
            if vector.types == types_of_arguments and not vector.holds_for(machine_code):
                raise KernelError(
                    f"The machine code of {self._package}.{self._name} does not do what its source"
                    " does.",
                    f"Delete {cache_folder()} and start again; where a kernel was changed, run make"
                    " vectors. If it stays, NUMBA_DISABLE_JIT=1 runs the source itself, slowly:"
                    " please report it with the model of the processor.",
                )


def kernel(function: Function) -> Function:
    """Run `function` as machine code: that of its package's unit, or compiled at need.

    Cost: loading takes milliseconds, compiling seconds, both once in a process.
    """
    return _compiled(function, counts_references=True)


def borrowing_kernel(function: Function) -> Function:
    """Compile a `function` that borrows its arrays: it allocates none, and returns none.

    A kernel counts references to each array that it is given, up and down, by instructions that
    lock the memory: 25 ns a call, many times what a small function does. This one counts none. So
    it must return no array, nor call what returns one (but a view, by a slice): a test looks at
    each.
    """
    return _compiled(function, counts_references=False)


def ahead(*signature: Any) -> Callable[[Function], Function]:
    """Put a kernel into its package's unit for arguments that no vector can have: addresses."""

    def marked(kernel: Function) -> Function:
        if not config.DISABLE_JIT:
            kernel.ahead = signature  # type: ignore[attr-defined]
        return kernel

    return marked


def callback_kernel(*signature: Any) -> Callable[[Function], Function]:
    """Compile a function that C calls, at its `address_of`."""

    def compiled(function: Function) -> Function:
        made = _compiled(function, counts_references=True, no_cfunc_wrapper=False)
        return ahead(*signature)(made)

    return compiled


def address_of(callback: Any) -> int:
    """Return where the machine code of a `callback_kernel` lies. C may call it ever after."""
    callback.compile(callback.ahead)
    result = callback.overloads[callback.ahead]
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


def _compiled(
    function: Function, *, counts_references: bool, no_cfunc_wrapper: bool = True
) -> Function:
    is_ours = function.__module__.partition(".")[0] == _OURS
    before = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = f"{__name__}.{SourcesLocator.__name__}"  # read while decorating
    try:
        # No other language calls most of them, so they need no C function around them. Without its
        # own word on references a callee is compiled as its first caller is.
        compiled = njit(
            cache=not is_ours and _has_sources(function) and is_writable(),
            no_cfunc_wrapper=no_cfunc_wrapper,
            _nrt=counts_references,
        )(function)
    finally:
        config.CACHE_LOCATOR_CLASSES = before
    if not config.DISABLE_JIT:
        if is_ours:
            compiled._cache = _UnitCache(function)
        _share_among_constants(compiled)
    return cast(Function, compiled)


def _share_among_constants(compiled: Any) -> None:
    """Let calls from kernels with a constant, such as 0, use the machine code for any number.

    numba compiles a callee again for each constant that it is called with: a quarter of all there
    was to compile. Where a callee is small, LLVM makes it one with its caller, constant and all.
    """
    template_of = compiled.get_call_template

    def get_call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template_of(
            tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()}
        )

    compiled.get_call_template = get_call_template
