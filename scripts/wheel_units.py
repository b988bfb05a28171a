"""A wheel with the machine code of all kernels: `make wheel`.

With SLIDESTAT_KERNELS=1, hatchling's build hook compiles them for this Python and this kind of
processor, and the wheel is for these alone. Without it a wheel is for any, and kernels are compiled
where they are needed. What compiles them must be installed: the project with the extra `worker`.
"""

import os
import platform
import subprocess
import sys
import sysconfig
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelUnits(BuildHookInterface[Any]):
    """Hatchling's hook that adds the units of kernels to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the units and have them packed."""
        if version != "standard" or os.environ.get("SLIDESTAT_KERNELS") != "1":
            return
        folder = Path(self.root, "dist", f"units-{_tag()}")
        variables = os.environ | {"PYTHONPATH": str(Path(self.root, "app"))}
        command = [sys.executable, "-m", "slidestat.kernels.units", str(folder)]
        subprocess.run(command, env=variables, check=True)  # noqa: S603 - this Python
        build_data["force_include"][str(folder)] = "slidestat/kernel_units"
        build_data["pure_python"] = False
        build_data["tag"] = _tag()
        # With other versions none of them could be used, and a first start would compile.
        compilers = ("numba", "llvmlite")
        build_data["dependencies"] += [f"{name}=={version_of(name)}" for name in compilers]


def _tag() -> str:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if sys.platform == "linux":
        # Units call numba alone, which is for these systems.
        system = f"manylinux_2_27_{platform.machine()}"
    return f"{python}-{python}-{system}"
