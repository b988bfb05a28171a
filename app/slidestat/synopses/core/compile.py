"""How kernels are compiled: by numba, once for each version of their sources, wherever these lie.

numba's on-disk cache looks at the file of the function it loads, not at the files of the functions
called by it: an edit (or an upgrade) of a callee alone would leave stale machine code in use. It
also keeps machine code for each path, so that a second checkout, a wheel or a test's copy of the
same sources would compile everything again. So a locator of ours tells numba the folder: it carries
a digest of all sources of this package, and the path of the sources is no part of it.

A kernel of another package lies in a folder that carries the digest of that package as well; it
calls kernels of its own package and of this one alone.

The package may lie in a zip or a wheel, as Spark's --py-files bring it: sources are read through
their loader. With NUMBA_DISABLE_JIT=1 a kernel is the plain Python function.
"""

import hashlib
import itertools
import secrets
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar, cast

import numba
from numba.core import types
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _CacheLocator
from platformdirs import user_cache_path

config: Any = numba.config  # its settings are made at run time, which a type checker cannot see
njit: Any = numba.njit  # the types that come with it lack options
unliteral: Any = types.unliteral

# numba names each function that it compiles by a counter of the process, from 1 on. Closures of two
# processes could have one name, and cached machine code then called the other's: np.sort's for
# np.argsort's. Counters that begin far apart make no such names (numba's issues 10128 and 10486).
FunctionIdentity._unique_ids = itertools.count(secrets.randbits(50))

Function = TypeVar("Function", bound=Callable[..., object])


def _sources(folder: Traversable) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_bytes()


@cache
def _digest_of(package: str) -> str:
    digest = hashlib.sha256()
    for source in _sources(files(package)):
        digest.update(source)
    return digest.hexdigest()[:16]


_SYNOPSES = __package__.rpartition(".")[0]
_BASE = config.CACHE_DIR or str(user_cache_path("slidestat"))
CACHE_FOLDER = Path(_BASE) / f"kernels-{_digest_of(_SYNOPSES)}"
"""Where compiled kernels of these sources are kept."""


@cache
def _is_writable() -> bool:
    try:
        CACHE_FOLDER.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=CACHE_FOLDER).close()
    except OSError:
        return False
    return True


class SourcesLocator(_CacheLocator):
    """Where the machine code of a function is kept: by its sources, not by their path."""

    def __init__(self, function: Callable[..., object]) -> None:
        package = function.__module__.rpartition(".")[0]
        folder = CACHE_FOLDER
        if package and not f"{package}.".startswith(f"{_SYNOPSES}."):
            folder /= _digest_of(package)
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
        """Return a text that tells functions of one name apart."""
        return self._place


def kernel(function: Function) -> Function:
    """Compile `function` at its first call, or load what an earlier process compiled.

    Where the folder cannot be written, each process compiles anew.

    Cost: compiling takes seconds, loading tenths of a second, both once in a process.
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


def _compiled(function: Function, *, counts_references: bool) -> Function:
    before = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = f"{__name__}.{SourcesLocator.__name__}"  # read while decorating
    try:
        # No other language calls them, so they need no C function around them. Without its own word
        # on references a callee is compiled as its first caller is.
        compiled = njit(cache=_is_writable(), no_cfunc_wrapper=True, _nrt=counts_references)(
            function
        )
    finally:
        config.CACHE_LOCATOR_CLASSES = before
    if not config.DISABLE_JIT:
        _share_among_constants(compiled)
    return cast(Function, compiled)


def _share_among_constants(compiled: Any) -> None:
    """Let calls from kernels with a constant, such as 0, use the machine code for any number.

    numba compiles a callee anew for each constant that it is called with: a quarter of all there
    was to compile. Where a callee is small, LLVM makes it one with its caller, constant and all.
    """
    template_of = compiled.get_call_template

    def get_call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template_of(
            tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()}
        )

    compiled.get_call_template = get_call_template
