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
_MEANT |= {
    "value = 9007199254740993": lambda value: value == 2**53 + 1,
    "value in (3, 9007199254740993, -9007199254740995.0)": lambda value: (
        value in (3, 2**53 + 1, -(2**53) - 3)
    ),
    "value > 9007199254740994": lambda value: value is not None and value > 2**53 + 2,
    "coalesce(value, 9007199254740993) - 1 <= 9007199254740993": lambda value: (
        value is None or (value <= 2**53 + 2)
    ),
    "case when value < 0 then -value else value end < 18446744073709551615": lambda value: (
        value is not None and abs(value) < 2**64 - 1
    ),
}
# Of which whole numbers beyond doubles are asked.
LARGE_CONDITIONS = tuple(where for where in _MEANT if where not in CONDITIONS)


def meant(where: str, value: Value) -> bool:
    """Whether a condition is true of an event with this value; None is one without."""
    return _MEANT[where](value)
