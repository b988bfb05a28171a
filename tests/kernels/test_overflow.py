"""No kernel has a number with a sign that wraps: numba tells LLVM that there is none, and LLVM
drops what would matter only then, here or in its next release.

All kernels are compiled once more, with a check behind each such addition, subtraction and product
that ends the process, and run on their vectors.
"""

import subprocess
import sys

import pytest

from slidestat.kernels.units import packages

pytestmark = pytest.mark.long

_RUN = """
import sys

from llvmlite import ir

CHECKED = {"add": "sadd", "sub": "ssub", "mul": "smul"}


def checked(plain, kind):
    def operation(self, one, other, name="", flags=()):
        # numba's own loops count by one, and take the block before for the one that counts.
        if "nsw" not in flags or getattr(other, "constant", None) == 1:
            return plain(self, one, other, name, flags)
        found = getattr(self, kind + "_with_overflow")(one, other)
        with self.if_then(self.extract_value(found, 1), likely=False):
            trap = ir.FunctionType(ir.VoidType(), [])
            self.call(self.module.declare_intrinsic("llvm.trap", (), trap), [])
        return self.extract_value(found, 0)

    return operation


for plain, kind in CHECKED.items():
    setattr(ir.IRBuilder, plain, checked(getattr(ir.IRBuilder, plain), kind))

from slidestat.kernels import compile
from slidestat.kernels.vectors import kernels_of, vectors_of

compile.unit_of = lambda package: None
for name, kernel in kernels_of(sys.argv[1]):
    print(name, flush=True)
    assert all(vector.holds_for(kernel) for vector in vectors_of(sys.argv[1])[name])
"""


@pytest.mark.parametrize("package", packages())
def test_no_number_of_a_kernel_wraps(package: str) -> None:
    """Neither does it make other results."""
    command = [sys.executable, "-c", _RUN, package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]}: {done.stderr[-300:]}"
