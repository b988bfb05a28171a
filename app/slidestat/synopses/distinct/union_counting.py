"""How many of the last n positions are 1 in the OR of t streams of bits, each seen by one party.

Source: Gibbons, Tirthapura 2002, section 4 (Union Counting, scenario 3 of section 3.4). A 1 is a
distinct item: its position, last (and once) seen at that position. So each party has a
`DistinctWave` whose items and times are positions, all of one seed, and the referee merges what
they send; no other mechanism is needed. Contract, space and costs are those of `DistinctWave`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.batch import TIME_MIN
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.wave import DistinctEstimate, DistinctWave, merge_distinct


def insert_bits(party: DistinctWave, bits: npt.ArrayLike) -> None:
    """Take in the next bits of a party's stream, whose first bit is at position 0.

    Raises SynopsisError, and takes in nothing, for anything but zeros and ones.
    """
    column = np.atleast_1d(np.asarray(bits))
    if column.ndim != 1 or not np.isin(column, (0, 1)).all():
        raise SynopsisError("bits must be one row of zeros and ones")
    position = 0 if party.now == TIME_MIN else party.now
    ones = position + np.flatnonzero(column)
    party.insert(ones, ones)
    party.advance(position + len(column))


def union_count(parties: Sequence[bytes], n: int) -> DistinctEstimate:
    """Return the referee's answer for the last n positions, up to the furthest party's.

    parties: the state of each party. A position that a party has not reached yet counts as a 0.
    Raises SynopsisError for states that cannot be merged, and for n beyond their span.
    """
    return DistinctWave.from_bytes(merge_distinct(parties)).query(n)
