"""Modules that need optional packages."""

from importlib import import_module
from types import ModuleType

from slidestat.errors import SlidestatError


def module_of_extra(name: str, what: str, extra: str) -> ModuleType:
    """Import a module that needs the packages of an extra; raises SlidestatError without them, with
    the message that `what` needs them.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise SlidestatError(
            f"{what} needs packages that are not installed ({error.name}).",
            f"Install them with `pip install 'slidestat[{extra}]'`.",
        ) from error
