"""How kernels are compiled: by numba, ahead, as units of machine code (`units.py`).

numba's own cache on disk is not used for kernels of this distribution. It keeps function by
function what any process compiled, and the names in it begin with a counter of that process: what
two processes made could carry two functions of one name, and a process that loaded both called one
for the other (numba's issues 10128 and 10486). It also looks at the file of the function that it
loads, not at the functions called by it. So a kernel's machine code is that of its package's unit,
and is tried on the golden vectors of the kernel when a process loads it. A kernel that is in no
unit is compiled by the process that calls it, for itself.

A kernel of another package, such as a user's own synopsis, is kept as a unit of its own by the
process that compiles it, under a digest of all that it reaches. Each process, forked ones too,
numbers its functions from a random start on, so that no two give one name to two functions.

The package may lie in a zip or a wheel, as Spark's --py-files bring it: sources are read through
their loader. With NUMBA_DISABLE_JIT=1 a kernel is the plain Python function.
"""

import itertools
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
from numba.core import types
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache

from slidestat.kernels import units
from slidestat.kernels.units import KernelError, kept, linked, place_of, unit_of
from slidestat.kernels.vectors import vectors_of
from slidestat.user_files import write_whole

config: Any = numba.config  # its settings are made at run time, which a type checker cannot see
njit: Any = numba.njit  # the types that come with it lack options
unliteral: Any = types.unliteral
_log = logging.getLogger(__name__)


def _number_anew() -> None:
    """Begin the numbers of functions at random; a forked process would have those of its parent."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(64) << 32)


_number_anew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_anew)

Function = TypeVar("Function", bound=Callable[..., object])

_OURS = __name__.partition(".")[0]

compiled_here: list[str] = []
"""The kernels of this distribution that no unit had, as this process has compiled them."""


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
                raise wrong_code(self._package, self._name)


def wrong_code(package: str, name: str) -> KernelError:
    """Return the error of a kernel whose machine code differs from what Python did."""
    return KernelError(
        f"The machine code of {package}.{name} does not do what its source does.",
        f"Delete {units.folder_of(package)} and start again; where a kernel was changed, run make"
        " vectors. If it stays, NUMBA_DISABLE_JIT=1 runs the source itself, slowly: please report"
        " it with the model of the processor.",
    )


class _OwnCache(NullCache):
    """A cache for numba of another package's kernel: each of its signatures is a unit."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._name = kernel.py_func.__qualname__

    def load_overload(self, sig: Any, _target_context: Any) -> Any:
        """Return the kernel as a process has kept it; None where none has."""
        path = place_of(self._kernel, sig)
        if path is None:
            return None
        # The module may be one that nobody can import, such as the file of a topology.
        with suppress(OSError, ValueError, ImportError, AttributeError):
            return kept(path).result((self._name, tuple(map(str, sig))))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel that was compiled here, unless it holds addresses of this process, or needs
        the threads that numba starts for what is parallel.
        """
        path = place_of(self._kernel, sig)
        of_process = data.library.has_dynamic_globals or data.reload_init
        if path is None or data.objectmode or data.lifted or of_process:
            return
        with suppress(OSError):  # It is compiled again by the next process.
            write_whole(path, linked(path.name, {(self._name, tuple(map(str, sig))): data}))
            units.remove_unused(units.cache_folder())


def kernel(function: Function) -> Function:
    """Run `function` as machine code: that of its package's unit, or compiled at need.

    Cost: loading takes milliseconds, compiling seconds, both once in a process.
    """
    return _compiled(function, counts_references=True)


def borrowing_kernel(function: Function) -> Function:
    """Compile a `function` that borrows its arrays: it allocates none, and returns none. Each
    kernel that calls it has a copy of it.

    A kernel counts references to each array that it is given, up and down, by instructions that
    lock the memory: 25 ns a call, many times what a small function does. This one counts none. So
    it must return no array, nor call what returns one (but a view, by a slice): a test looks at
    each. A call would also put seven words an array on the stack: 10 ns and more, where LLVM makes
    no copy by itself.
    """
    return _compiled(function, counts_references=False)


def unlocked_kernel(function: Function) -> Function:
    """Compile a `function` that borrows its arrays, and lets other threads run Python meanwhile.

    For what takes milliseconds: to have Python's lock again, a call waits for whoever has it.
    """
    return _compiled(function, counts_references=False, keeps_lock=False)


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
    function: Function,
    *,
    counts_references: bool,
    keeps_lock: bool = True,
    no_cfunc_wrapper: bool = True,
) -> Function:
    # No other language calls most of them, so they need no C function around them. Without its own
    # word on references and copies a callee is compiled as its first caller is.
    compiled = njit(
        no_cfunc_wrapper=no_cfunc_wrapper,
        _nrt=counts_references,
        nogil=not keeps_lock,
        forceinline=not counts_references and keeps_lock,
    )(function)
    if not config.DISABLE_JIT:
        is_ours = function.__module__.partition(".")[0] == _OURS
        compiled._cache = _UnitCache(function) if is_ours else _OwnCache(compiled)
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
