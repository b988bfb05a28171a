"""An expression that was read and checked: what it computes, and which fields it reads as what."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from slidestat.declare.expressions.nodes import Node, Sort, fields_of, name_text, text_of
from slidestat.declare.expressions.parsing import parsed, parsed_with_name
from slidestat.declare.expressions.sorts import sort_of, sorts_of
from slidestat.declare.fields import FieldPath, field_path
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


# Fields that are computed from others of an event: "latency_ms / 1000 as latency_s".


@dataclass(frozen=True)
class ComputedField:
    """A field of the name `path`, and what it is: an expression of a sort."""

    path: FieldPath
    expression: Expression
    sort: Sort

    @property
    def text(self) -> str:
        """The computed field as SQL, always written the same way."""
        return f"{self.expression.text} as {name_text(self.path[0])}"


def computed_fields(texts: Sequence[str], what: str) -> dict[FieldPath, ComputedField]:
    """Return the computed fields that texts declare, by their paths.

    Raises SlidestatError, naming `what` and the text at fault, for what is none, for two of one
    name, and for one that reads another, or itself.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise SlidestatError(
            f"{what} is {texts!r}, which is not a list.",
            'Write a list, also of a single one: ["latency_ms / 1000 as latency_s"].',
        )
    found: dict[FieldPath, ComputedField] = {}
    for text in texts:
        if not isinstance(text, str):
            raise SlidestatError(
                f"{what} has {text!r}, which is no text.",
                'Write "latency_ms / 1000 as latency_s".',
            )
        field = _computed_field(text, what)
        if field.path in found:
            raise SlidestatError(
                f"{what} has {field.path[0]!r} twice.", "Give each field a name of its own."
            )
        found[field.path] = field
    for field in found.values():
        read = next((path for path in field.expression.paths if path in found), None)
        if read is not None:
            raise SlidestatError(
                f"{what} has {field.path[0]!r}, which reads the computed field {read[0]!r}.",
                "Read fields that events have, and give computed ones names that no event has.",
            )
    return found


@lru_cache(maxsize=1_000)
def _computed_field(text: str, what: str) -> ComputedField:
    node, name = parsed_with_name(text, what)
    if not any(fields_of(node)):
        raise SlidestatError(
            f"{what} has {text!r}, which reads no field.",
            "Write an expression over fields: latency_ms / 1000 as latency_s.",
        )
    sort, fields = sort_of(node, text, what)
    return ComputedField(field_path([name], what), Expression(node, tuple(fields.items())), sort)
