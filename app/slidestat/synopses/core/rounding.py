"""Exact fractions as doubles that are surely not above, or not below, them."""

import math
from fractions import Fraction


def down(exact: Fraction) -> float:
    """Return the largest double that is not above `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def up(exact: Fraction) -> float:
    """Return the smallest double that is not below `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
