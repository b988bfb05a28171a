"""Guesses of what the events leave open: a person is asked, or is shown what was taken."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slidestat.declare.fields import field_text
from slidestat.infer.survey import FieldSurvey

_MOST_CHOICES = 9

# Given what is asked for, and fields with a value of each: the place of the right one.
Ask = Callable[[str, Sequence[tuple[str, str]]], int]


@dataclass(frozen=True)
class Guess:
    """A field of the topology, and why it was taken."""

    value: str | tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Doubts:
    """The choices among fields that would do equally well: `ask` makes them; without it the first
    field is taken, with a warning in `warnings`.
    """

    ask: Ask | None
    warnings: list[str]

    def settle(self, what: str, fields: Sequence[FieldSurvey]) -> FieldSurvey:
        """Return the field to take, of at least one, the likeliest first."""
        fields = fields[:_MOST_CHOICES]
        if len(fields) == 1:
            return fields[0]
        if self.ask is not None:
            asked = [(field_text(f.path), next(iter(f.values), "")) for f in fields]
            return fields[self.ask(what, asked)]
        first, *others = (repr(field_text(field.path)) for field in fields)
        self.warnings.append(
            f"The {what} is a guess: {first}, and not {', '.join(others)}. Change it in the file,"
            " or run `slidestat init` on a terminal, which asks."
        )
        return fields[0]
