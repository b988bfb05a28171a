"""`slidestat` as its extra `worker` brings it: without pandas and SciPy, which other packages here
need, and which pyarrow and numba import where they are, for half a second of every start.
"""

import runpy
import sys
from importlib.abc import MetaPathFinder


class Absent(MetaPathFinder):
    """Finds that these packages are not installed."""

    def find_spec(self, name: str, _path: object, _target: object = None) -> None:
        """Raise ModuleNotFoundError for one of them."""
        if name in ("pandas", "scipy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent())
    runpy.run_module("slidestat", run_name="__main__", alter_sys=True)
