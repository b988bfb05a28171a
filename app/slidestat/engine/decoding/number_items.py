"""Numbers as items: equal numbers below 2^100 have one text.

A whole number is its digits, however it was written: 1, 1.0 and 1e0 are "1", and -0.0 is "0". Other
numbers are the shortest decimals that read as the same double; so are, from 2^100 on, those that
were not written as whole ones.
"""

import msgspec

from slidestat.declare.expressions.nodes import WHOLE_LIMIT


def too_long(most: int) -> str:
    """Return why a whole number is no text of at most so many characters."""
    return f"it is a number of more than {most} characters"


def number_text(number: float) -> str:
    """Return the text of a double, or of a whole number of any size."""
    if isinstance(number, int) or (number.is_integer() and abs(number) < WHOLE_LIMIT):
        return str(int(number))
    return msgspec.json.encode(number).decode()
