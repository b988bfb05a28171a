"""The state of the union of streams from the states of each: what they keep, in order of time."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import moving
from slidestat.synopses.distinct.batch import run_items
from slidestat.synopses.distinct.codec import Kept

Parameters = TypeVar("Parameters", bound=Hashable)


def common(parameters: Sequence[Parameters]) -> Parameters:
    """Return what all states were made with; SynopsisError if they differ, or if there are none."""
    if not parameters:
        raise SynopsisError("nothing to merge: at least one state is needed")
    if len(set(parameters)) > 1:
        raise error_codes.synopsis_error(error_codes.OTHER_SETTINGS, 0, 0, -1)
    return parameters[0]


def run_union(head: Integers, polynomials: Integers, parts: Sequence[tuple[int, Kept]]) -> bytes:
    """Return the state of all that the parts keep, at the latest `now` of them.

    parts: of each state its `now` and what it keeps. `head` and `polynomials` as kernels take them.
    Cost: O(items log(items)), and the hashing of the items.
    """
    times = np.concatenate([kept.times for _, kept in parts])
    items = np.concatenate([kept.items for _, kept in parts])
    order = np.argsort(times, kind="stable")
    now = np.array([max(now for now, _ in parts)], np.int64)
    return run_items(head, polynomials, [None], moving(times[order], items[order], now)).states[0]
