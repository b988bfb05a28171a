"""Which bin a value is in, and which values a bin has.

Source: Masson, Rim, Lee, "DDSketch" (2019), section 2: bins whose edges grow by a factor have a
middle within a relative error of all their values. Here the factor is 2^(1/B), B being whole: the
edges of an octave are B doubles, and those of the others are the same mantissas. So a value is put
by comparing whole numbers, the same on every machine, and an edge is never in doubt.

Bins have numbers that rise with their values: 0 holds zero alone; 1 what is above it and below
2^-30; 2 + B o + j holds [2^(o - 30 + j/B), 2^(o - 30 + (j + 1)/B)), up to 2^50. -i mirrors i.
Eight neighbours, i >> 3, make a band (bands.py).
"""

from decimal import Decimal, localcontext
from functools import cache
from typing import NamedTuple

import numpy as np

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Floats, Integers

LEAST = 2.0**-30
"""For values nearer to zero than this only the sign is kept."""

LIMIT = 2.0**50
"""Magnitudes are below this, which is about 10^15."""

OCTAVES = 80
"""From LEAST to LIMIT."""

_FIRST_EXPONENT = 1023 - 30
_SLOT_BITS = 42  # a slot has at most one edge, B being below 700
_SLOTS = 1 << (52 - _SLOT_BITS)

NOT_FINITE, TOO_LARGE = 1 << 40, 1 << 41
"""In place of a bin, whatever the sign."""


class Mapping(NamedTuple):
    """edges: int64[B + 1], the mantissas of an octave's edges; slots: the bin where each 1,024th of
    an octave begins."""

    edges: Integers
    slots: Integers


@cache
def mapping_of(bins_per_octave: int) -> Mapping:
    """Return the mapping of B bins an octave. Cost: O(B) powers of forty digits, once."""
    with localcontext() as context:
        context.prec = 40
        powers = [Decimal(2) ** (Decimal(j) / bins_per_octave) for j in range(bins_per_octave)]
        edges = [int((power * 2**52).to_integral_value()) - 2**52 for power in powers]
    row = np.array([*edges, 2**52], np.int64)
    slots = np.searchsorted(row, np.arange(_SLOTS, dtype=np.int64) << _SLOT_BITS, side="right") - 1
    return Mapping(row, slots.astype(np.int64))


@borrowing_kernel
def bin_of(bits: int, edges: Integers, slots: Integers) -> int:
    """Return the bin of the double that has these 64 bits, NOT_FINITE or TOO_LARGE. Cost: O(1)."""
    magnitude = bits & 0x7FFF_FFFF_FFFF_FFFF
    if magnitude == 0:
        return 0
    octave = (magnitude >> 52) - _FIRST_EXPONENT
    if octave >= OCTAVES:
        return NOT_FINITE if magnitude >> 52 == 0x7FF else TOO_LARGE
    place = 1
    if octave >= 0:
        mantissa = magnitude & ((1 << 52) - 1)
        j = slots[mantissa >> _SLOT_BITS]
        place = 2 + octave * (len(edges) - 1) + j + int(edges[j + 1] <= mantissa)
    return int(place) if bits >= 0 else -int(place)


def most_bins(bins_per_octave: int) -> int:
    """Return the highest bin; the lowest is its negative."""
    return 1 + OCTAVES * bins_per_octave


def outlines(bins: Integers, mapping: Mapping) -> tuple[Floats, Floats, Floats]:
    """Return (middles, lower edges, upper edges) of bins.

    All values of a bin from 2 on, or from -2 down, are within half a bin of its middle.
    """
    per_octave = len(mapping.edges) - 1
    sizes = np.abs(bins)
    octave, j = np.divmod(np.maximum(sizes - 2, 0), per_octave)
    low = np.ldexp(1.0 + mapping.edges[j] * 2.0**-52, octave - 30)
    high = np.ldexp(1.0 + mapping.edges[j + 1] * 2.0**-52, octave - 30)
    middle = 2.0 * low * high / (low + high)
    low = np.where(sizes < 2, 0.0, low)
    middle = np.where(sizes < 2, 0.0, middle)
    high = np.where(sizes < 2, np.where(sizes == 1, LEAST, 0.0), high)
    negative = bins < 0
    return (
        np.where(negative, -middle, middle) + 0.0,
        np.where(negative, -high, low) + 0.0,
        np.where(negative, -low, high) + 0.0,
    )
