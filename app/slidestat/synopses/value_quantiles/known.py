"""The knowledge that a state has of some windows, bin by bin: what unions add up."""

from typing import NamedTuple

import numpy as np

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import TIME_MAX
from slidestat.synopses.value_quantiles.bands import ID, SHIFT, WIDTH
from slidestat.synopses.value_quantiles.batch import head_of
from slidestat.synopses.value_quantiles.bounds import bins_at, total_at
from slidestat.synopses.value_quantiles.codec import BANDS, NOW
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters
from slidestat.synopses.value_quantiles.sketch import decoded


class Known(NamedTuple):
    """bins: int64[B], rising. counts: int64[2, windows, B], what adds up, from the lowest bin on,
    to the least and the most events up to each. totals: int64[2, windows], of all.
    """

    bins: Integers
    counts: Integers
    totals: Integers


def known_of(parameters: ValueQuantileParameters, state: bytes, now: int, spans: Integers) -> Known:
    """Return what a stored state knows of the windows [now - span, now).

    Raises SynopsisError for bytes that are no such state, and for a `now` before its own.
    Cost: O(bytes).
    """
    numbers, runs, table, cells = decoded(parameters, state)
    if not (numbers[NOW] <= now <= TIME_MAX + 1):
        raise error_codes.synopsis_error(error_codes.QUERY_WENT_BACK, now, int(numbers[NOW]), -1)
    bands = int(numbers[BANDS])
    order = np.argsort(spans, kind="stable")
    upto = np.zeros((2, len(spans), WIDTH * bands), np.int64)
    bins_at(numbers, table, cells, now, spans[order], upto[0], upto[1])
    head = head_of(parameters)
    totals = [total_at(head, numbers, runs, now - int(span)) for span in spans]
    bins = (table[ID, :bands, np.newaxis] << SHIFT) + np.arange(WIDTH)
    counts = np.diff(upto, axis=2, prepend=0)[:, np.argsort(order, kind="stable")]
    return Known(bins.reshape(-1), counts, np.array(totals, np.int64).reshape(-1, 2).T)
