"""Emissions from several sources, in one order, as soon as it is sure what comes next."""

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter

from slidestat.engine.emissions.emission import OutputRecord
from slidestat.engine.keys.key_timers import Place

# An emission after its place in the order. A plain tuple, as the record is.
Placed = tuple[Place, OutputRecord]
# What a source gives in one go, in any order, and a place before which none of its others lies.
Given = tuple[list[Placed], Place]
place_of = itemgetter(0)

# Records that are given in one go: whoever sends them is not held up for long.
_AT_ONCE = 5_000
_FIRST: Place = (-(2**63), "")
LAST: Place = (2**63, "")
"""Behind all places."""


def in_order(*sources: Iterator[Given]) -> Iterator[list[OutputRecord]]:
    """The records of all sources in the order of their places, each as soon as no other can come
    before it. One source is asked at a time; after each comes a list, maybe empty, or several where
    there are many.
    """
    ends = [_FIRST] * len(sources)
    held: list[Placed] = []
    while min(ends) < LAST:
        behind = ends.index(min(ends))
        given, ends[behind] = next(sources[behind], ([], LAST))
        held += given
        held.sort(key=place_of)
        sure = bisect_left(held, min(ends), key=place_of)
        for start in range(0, max(sure, 1), _AT_ONCE):
            yield [record for _, record in held[start : min(start + _AT_ONCE, sure)]]
        del held[:sure]
