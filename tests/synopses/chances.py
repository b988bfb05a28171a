"""How many seeds a law of chance needs, and how many of them may miss: with power.

A promise says that an answer misses with a chance of at most delta. A law asks under many seeds,
and holds if no more than `most` of them miss. What keeps its promise just so is refused by a share
`FALSE_ALARM` of all choices of seeds at most; what misses 1.5 times as often passes with a share
`OVERSIGHT` of them at most. Both are exact, by the binomial law. Seeds are fixed: whoever passes,
passes each time.
"""

from functools import lru_cache
from math import exp, lgamma, log, log1p
from typing import NamedTuple

FALSE_ALARM = 0.01
OVERSIGHT = 0.01
WORSE = 1.5


class Trials(NamedTuple):
    """So many seeds, of which at most so many miss."""

    seeds: int
    most: int


def no_more_than(seeds: int, chance: float, misses: int) -> float:
    """The probability of at most so many misses, each of this chance."""
    ways = (
        lgamma(seeds + 1)
        - lgamma(k + 1)
        - lgamma(seeds - k + 1)
        + k * log(chance)
        + (seeds - k) * log1p(-chance)
        for k in range(misses + 1)
    )
    return sum(map(exp, ways))


def most_misses(seeds: int, delta: float) -> int:
    """The least number that no more of so many miss, but for `FALSE_ALARM`."""
    most = int(seeds * delta)
    while no_more_than(seeds, delta, most) < 1 - FALSE_ALARM:
        most += 1
    return most


@lru_cache
def trials(delta: float) -> Trials:
    """The fewest seeds, up to a fiftieth, that tell delta from 1.5 times delta."""
    seeds = 50
    while True:
        most = most_misses(seeds, delta)
        if no_more_than(seeds, WORSE * delta, most) <= OVERSIGHT:
            return Trials(seeds, most)
        seeds += max(1, seeds // 50)
