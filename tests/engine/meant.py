"""What the conditions of the laws' topologies say of a value, in plain words."""

from collections.abc import Callable
from fractions import Fraction

Value = Fraction | float | None

_MEANT: dict[str, Callable[[Value], bool]] = {
    "value < 30 or value is null": lambda value: value is None or value < 30,
    "value >= 3": lambda value: value is not None and value >= 3,
    "not (value / 2 = 0.5)": lambda value: value is not None and value != 1,
    "coalesce(value, -1) < 1": lambda value: value is None or value < 1,
    "case when value > 0 then value <= 50 else value is null or value + 1 > 0 end": lambda value: (
        value is None or value <= 50
    ),
}
CONDITIONS = tuple(_MEANT)


def meant(where: str, value: Value) -> bool:
    """Whether a condition is true of an event with this value; None is one without."""
    return _MEANT[where](value)
