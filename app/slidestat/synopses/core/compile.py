"""How kernels are compiled: by numba, once for each version of this package's sources.

numba's on-disk cache looks at the file of the function it loads, not at the files of the functions
called by it: an edit (or an upgrade) of a callee alone would leave stale machine code in use. So
the cache folder carries a digest of all sources of the package.

With NUMBA_DISABLE_JIT=1 a kernel is the plain Python function.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from platformdirs import user_cache_path

config: Any = numba.config  # its settings are made at run time, which a type checker cannot see

Function = TypeVar("Function", bound=Callable[..., object])


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


_BASE = config.CACHE_DIR or str(user_cache_path("slidestat"))
CACHE_FOLDER = Path(_BASE) / f"kernels-{_sources_digest()}"
"""Where compiled kernels of these sources are kept."""


def kernel(function: Function) -> Function:
    """Compile `function` at its first call, or load what an earlier process compiled.

    Cost: compiling takes seconds, loading tenths of a second, both once in a process.
    """
    before = config.CACHE_DIR
    config.CACHE_DIR = str(CACHE_FOLDER)  # read while decorating, not later
    try:
        return cast(Function, numba.njit(cache=True)(function))
    finally:
        config.CACHE_DIR = before
