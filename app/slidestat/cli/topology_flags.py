"""The flags of a topology as options of a command, made from the one list of them."""

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from slidestat.declare.forms.flag_list import TOPOLOGY_FLAGS, Flag

# As the command is given it: a text, a list of them for a flag that can be repeated, or True.
Given = str | list[str] | bool | None


def with_topology_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, which takes `**flags`, an option for each field of a topology."""
    own = list(inspect.signature(command).parameters.values())[:-1]
    signature = inspect.Signature([*own, *_options()])
    command.__signature__ = signature  # type: ignore[attr-defined]  # Typer reads it.
    return command


def _options() -> Iterator[inspect.Parameter]:
    for field, flag in TOPOLOGY_FLAGS.items():
        type_: Any = list[str] | None if flag.repeats else str | None
        if flag.is_switch:
            type_ = bool | None
        yield inspect.Parameter(
            field,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[type_, _option(flag)],
        )


def _option(flag: Flag) -> typer.models.OptionInfo:
    # In a panel of their own, apart from the options of the worker.
    option: typer.models.OptionInfo = typer.Option(
        flag.name, metavar=flag.metavar or None, help=flag.help, rich_help_panel="Instead of a file"
    )
    return option
