"""How the kernels of this package are compiled: as all others, but without counting references.

numba counts each array argument at each call, by two atomic additions: in a kernel that takes 60 ns
a record and calls some helpers for each field that is most of the cost. What does not count cannot
make arrays either: those that a kernel needs are given to it.
"""

from collections.abc import Callable
from typing import TypeVar

from slidestat.synopses.core.compile import kernel

Function = TypeVar("Function", bound=Callable[..., object])


def uncounted(function: Function) -> Function:
    """Compile `function` at its first call; it must not make arrays, nor return one."""
    compiled = kernel(function)
    options = getattr(compiled, "targetoptions", None)
    if options is not None:  # It is compiled indeed.
        options["_nrt"] = False
    return compiled
