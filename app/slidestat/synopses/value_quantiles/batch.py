"""Quantiles by value for all keys of a batch in one call: states and events in, answers out.

`ValueQuantiles` is the same for a single key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.quantile_parts import parts_of
from slidestat.synopses.value_quantiles.kernel import run
from slidestat.synopses.value_quantiles.mapping import (
    NOT_FINITE,
    Mapping,
    bin_of,
    mapping_of,
    most_bins,
    outlines,
)
from slidestat.synopses.value_quantiles.parameters import ValueQuantileParameters


@dataclass(frozen=True)
class ValueQuantileBatch:
    """The result of a batch: the new state of each group, and an answer for each query.

    estimates, lowers and uppers are float64[queries, spans, quantiles], NaN for a window without
    events. ranks is float64[4, 3, queries, spans, values], (estimate, lower, upper) of how many of
    the window's events are at most each value asked about, how many are more, and the shares of
    both; shares are NaN for a window without events.
    """

    states: list[bytes]
    estimates: Floats
    lowers: Floats
    uppers: Floats
    ranks: Floats


def head_of(parameters: ValueQuantileParameters) -> Integers:
    """Return `parameters` as kernels take them."""
    head = [
        parameters.span,
        parameters.bins_per_octave,
        parameters.epsilon_parts,
        parameters.total_buckets_per_level,
    ]
    return np.array(head, np.int64)


def cuts_of(values: npt.ArrayLike, mapping: Mapping) -> Integers:
    """Return the two bins at which each of `values` cuts, int64[2, values]: items in bins below the
    first are at most the value, those in bins from the second on are more. SynopsisError for NaN.
    """
    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.ndim != 1 or np.isnan(array).any():
        raise SynopsisError(f"a rank is asked for of a number, not {values!r}")
    beyond = most_bins(len(mapping.edges) - 1) + 1
    cuts = np.empty((2, len(array)), np.int64)
    nexts = np.nextafter(array, np.inf)
    for j, numbers in enumerate(zip(array.tolist(), nexts.tolist(), strict=True)):
        place, after = (
            int(bin_of(bits, *mapping)) for bits in np.array(numbers).view(np.int64).tolist()
        )
        if abs(place) >= NOT_FINITE:
            cuts[:, j] = beyond if numbers[0] > 0 else -beyond
        else:
            cuts[:, j] = place + (after != place), place + 1
    return cuts


def run_value_quantile_batch(
    parameters: ValueQuantileParameters,
    states: Sequence[bytes | None],
    batch: Batch,
    quantiles: npt.ArrayLike = (),
    ranked: npt.ArrayLike = (),
) -> ValueQuantileBatch:
    """Feed and ask many summaries of values at once, one a group (key).

    The values are float64, of a magnitude below 2^50. quantiles: numbers from 0 to 1, taken to the
    millionth. ranked: values whose rank is asked for.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, for times or queries before a state's time, for values that are not finite
    or too large, and (WindowTooLargeError) for windows of more than 2^40 events. Cost: O(bytes in +
    events + bytes out), and of a query O(cells) for all windows and quantiles.
    """
    mapping = mapping_of(parameters.bins_per_octave)
    columns, values = batch.within(parameters.span), batch.doubles()
    parts, asked = parts_of(quantiles), cuts_of(ranked, mapping)
    order = np.argsort(columns.spans, kind="stable")
    found = np.empty((3, *batch.shape, len(parts)), np.int64)
    ranks = np.empty((4, 3, *batch.shape, asked.shape[1]), np.float64)
    out, ends = drive(
        run,
        (head_of(parameters), *mapping),
        states,
        columns._replace(spans=columns.spans[order]),
        *(values.view(np.int64), parts, asked, found, ranks),
        values=values,
    )
    back = np.argsort(order, kind="stable")
    figures = figures_of(found[:, :, back], mapping)
    return ValueQuantileBatch(
        split(out, ends), figures[0], figures[1], figures[2], ranks[:, :, :, back]
    )


def figures_of(found: Integers, mapping: Mapping) -> Floats:
    """Return float64[3, ...], estimates, lowers and uppers, of the bins found for each."""
    if not found.size:
        return np.empty(found.shape, np.float64)
    exists = found != NOT_FINITE
    outlined = outlines(np.where(exists, found, 0), mapping)
    return np.where(exists, np.stack([outlined[i][i] for i in range(3)]), np.nan)
