"""Load the names of a public face at their first use.

numba alone takes most of a second to import, and a user of the synopses has no Kafka client: so a
face imports nothing until one of its names is asked for. Its names are in its stub, `__init__.pyi`,
alone, as imports that type checkers and editors follow; "from MODULE import *" has those that the
package MODULE itself imports.
"""

import importlib
import sys
from collections.abc import Callable


def attach(face: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of the package `face`, as its stub has them.

    `__getattr__` raises AttributeError for a name that is not in the stub, and ImportError, with
    what to install, for one that needs a package which is not there.
    """
    package = vars(sys.modules[face])
    module_of = _module_of(face, face, "__init__.pyi")
    public = sorted(module_of)

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        try:
            found = getattr(importlib.import_module(module_of[name]), name)
        except ModuleNotFoundError as error:
            # Imported late: errors and redaction are a good part of what a face loads.
            from slidestat.extras import advice_on

            advice = advice_on(error)
            if not advice:
                raise
            raise ImportError(
                f"{face}.{name} needs {error.name}, which is not installed: {advice}"
            ) from error
        package[name] = found
        return found

    return public, load, lambda: public


def _module_of(face: str, package: str, file: str) -> dict[str, str]:
    """Return the module of each name, from lines such as "from module import A as A, B as B" of a
    file of `package`, which is `face` or lies in it.
    """
    known = vars(sys.modules[face])
    folder = "/".join((known["__path__"][0], *package.removeprefix(face).split(".")[1:]))
    # The loader reads packages in archives, too, such as those that Spark sends to its executors.
    text = known["__spec__"].loader.get_data(f"{folder}/{file}").decode()
    found = {}
    for statement in f"\n{text}".split("\nfrom ")[1:]:
        module, _, *names = statement.translate(_PUNCTUATION).split()
        if names == ["*"]:
            found.update(_module_of(face, module, "__init__.py"))
        found.update(dict.fromkeys(names[2::3], module))
    return found


_PUNCTUATION = str.maketrans("(),", "   ")
