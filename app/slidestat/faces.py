"""Load the names of a public face at their first use.

numba alone takes most of a second to import, and a user of the synopses has no Kafka client: so a
face imports nothing until one of its names is asked for.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping

from slidestat.missing import advice_on


def loader(face: str, names_of: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` of the module `face`, whose names lie in these modules.

    It raises AttributeError for a name that is in none of them, and ImportError, with what to
    install, for one that needs a package which is not there.
    """
    module_of = {name: module for module, names in names_of.items() for name in names}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(module_of[name]), name)
        except ModuleNotFoundError as error:
            advice = advice_on(error)
            if not advice:
                raise
            raise ImportError(
                f"{face}.{name} needs {error.name}, which is not installed: {advice}"
            ) from error

    return load
