"""The values that a declaration is given: of the right kind, or refused with what to write."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeGuard

from slidestat.errors import SlidestatError, shown


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list or a tuple; a text is none."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def require_list(name: str, value: object, advice: str) -> Sequence[Any]:
    """Return the value if it is a list; otherwise raise SlidestatError."""
    if is_list(value):
        return value
    raise SlidestatError(f"{name} is {value!r}, which is not a list.", advice)


def check_named(kind: type, given: object, most: int, example: str) -> None:
    """Raise SlidestatError unless these are objects of a kind with different names, `most` at the
    most; `example` is one as it is written.
    """
    one = kind.__name__.lower()
    if not isinstance(given, Sequence) or not all(isinstance(it, kind) for it in given):
        raise SlidestatError(
            f"{one}s is {given!r}, which is not a list of {one}s.",
            f"Write them as [{example}], also a single one as a list.",
        )
    names = [it.name for it in given]
    if len(set(names)) != len(names) or len(names) > most:
        raise SlidestatError(
            f"{one}s has {names}.", f"Give each {one} its own name, and {most} at the most."
        )


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raise SlidestatError unless a value is one of those that are known."""
    choices = tuple(known)  # The value may be anything, also unhashable.
    if value not in choices:
        listed = ", ".join(f'"{it}"' for it in choices)
        raise SlidestatError(f"{name} is {value!r}.", f"Give one of {listed}.")


def check_whole(kind: str, name: str, value: object, least: int, most: int) -> None:
    """Raise SlidestatError unless a parameter of a statistic is a whole number in these limits."""
    if type(value) is not int or not least <= value <= most:
        raise SlidestatError(
            f"the {name} of {kind} is {value!r}.", f"Give a whole number from {least} to {most:,}."
        )


def check_seed(kind: str, seed: object, bits: int) -> None:
    """Raise SlidestatError for a seed that is not a whole number of so many bits."""
    if type(seed) is not int or not 0 <= seed < 2**bits:
        raise SlidestatError(
            f"the seed of {kind} is {seed!r}.", f"Give a whole number, 0 to 2^{bits} - 1."
        )


def check_values(declaration: Any) -> None:
    """Raise SlidestatError for a whole number of so many digits that no message can show it, and
    for a text that no record can have: with half a character, as bytes of a shell in no UTF-8 are.
    """
    for field in fields(declaration):
        value = getattr(declaration, field.name)
        try:
            repr(value)
        except ValueError:
            raise SlidestatError(
                f"{field.name} has a whole number of thousands of digits.", "Give another one."
            ) from None
        for text in value if is_list(value) else [value]:
            try:
                _ = isinstance(text, str) and text.encode()
            except UnicodeEncodeError:
                raise SlidestatError(
                    f"{field.name} has {shown(text)}, which is no Unicode text.",
                    "Give texts as records have them, in UTF-8.",
                ) from None
