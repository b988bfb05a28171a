"""An expression that was read and checked: what it computes, and which fields it reads as what."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from slidestat.declare.expressions.nodes import Node, Sort, fields_of, text_of
from slidestat.declare.expressions.parsing import parsed
from slidestat.declare.expressions.sorts import sorts_of
from slidestat.declare.fields import FieldPath
from slidestat.errors import SlidestatError


@dataclass(frozen=True)
class Expression:
    """An expression of one sort; `fields` are the paths that it reads, each with its sort. Equal if
    it computes the same in the same way, however it was written.
    """

    node: Node
    fields: tuple[tuple[FieldPath, Sort], ...]

    @cached_property
    def text(self) -> str:
        """The expression as SQL, always written the same way."""
        return text_of(self.node)

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """Return the paths of the fields that it reads."""
        return tuple(path for path, _ in self.fields)


def condition_of(text: str, what: str) -> Expression | None:
    """Return the condition in a text; None if it is empty. Raises SlidestatError as `condition`."""
    if not isinstance(text, str):
        raise SlidestatError(f"{what} is {text!r}, which is no text.", 'Write "status >= 500".')
    return condition(text, what) if text else None


@lru_cache(maxsize=1_000)
def condition(text: str, what: str, read: Sort | None = None) -> Expression:
    """Return the condition in a text; NULL of it is not true. All fields are read as the sort
    `read`, where that is known.

    Raises SlidestatError, naming `what` and the field at fault, for what is none. Costs a
    millisecond the first time.
    """
    node = parsed(text, what)
    if not any(fields_of(node)):
        raise SlidestatError(
            f"{what} is {text!r}, which reads no field.",
            "Write a condition, such as status >= 500.",
        )
    return Expression(node, tuple(sorts_of(node, Sort.TRUTH, text, what, read).items()))
