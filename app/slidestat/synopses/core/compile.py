"""How kernels are compiled: by numba, once for each version of this package's sources.

numba's on-disk cache looks at the file of the function it loads, not at the files of the functions
called by it: an edit (or an upgrade) of a callee alone would leave stale machine code in use. So
the cache folder carries a digest of all sources of the package.

The package may lie in a zip or a wheel, as Spark's --py-files bring it: its sources are then read
through their loader, and a locator of ours tells numba the folder, as numba's own want files.

With NUMBA_DISABLE_JIT=1 a kernel is the plain Python function.
"""

import hashlib
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import _CacheLocator
from platformdirs import user_cache_path

config: Any = numba.config  # its settings are made at run time, which a type checker cannot see

Function = TypeVar("Function", bound=Callable[..., object])


def _sources(folder: Traversable) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield entry.read_bytes()


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in _sources(files(__package__.rpartition(".")[0])):
        digest.update(source)
    return digest.hexdigest()[:16]


_BASE = config.CACHE_DIR or str(user_cache_path("slidestat"))
CACHE_FOLDER = Path(_BASE) / f"kernels-{_sources_digest()}"
"""Where compiled kernels of these sources are kept."""
_IS_IN_ARCHIVE = not Path(__file__).exists()


class ArchiveLocator(_CacheLocator):
    """Where the machine code of a function is kept whose file is inside an archive."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._folder = str(CACHE_FOLDER / function.__module__)
        self._place = str(function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, function: Callable[..., object], _file: str) -> "ArchiveLocator | None":
        """A locator, or None where the folder cannot be written."""
        locator = cls(function)
        try:
            locator.ensure_cache_path()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        return locator

    def get_cache_path(self) -> str:
        """The folder."""
        return self._folder

    def get_source_stamp(self) -> str:
        """The same always: the folder is that of these very sources."""
        return str(CACHE_FOLDER)

    def get_disambiguator(self) -> str:
        """Return a text that tells functions of one name apart."""
        return self._place


def kernel(function: Function) -> Function:
    """Compile `function` at its first call, or load what an earlier process compiled.

    Cost: compiling takes seconds, loading tenths of a second, both once in a process.
    """
    before = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES
    config.CACHE_DIR = str(CACHE_FOLDER)  # read while decorating, not later
    if _IS_IN_ARCHIVE:
        config.CACHE_LOCATOR_CLASSES = f"{__name__}.{ArchiveLocator.__name__}"
    try:
        return cast(Function, numba.njit(cache=True)(function))
    finally:
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before
