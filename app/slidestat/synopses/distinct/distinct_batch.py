"""Randomised waves of all keys of a batch in one call.

`DistinctWave` is the same for a single key.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.batch import BatchResult, integers, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import keyed_batch
from slidestat.synopses.distinct.distinct_codec import RANDOMISED_WAVE, SPAN
from slidestat.synopses.distinct.distinct_kernel import run
from slidestat.synopses.distinct.distinct_parameters import DELTAS, EPSILONS, DistinctParameters
from slidestat.synopses.distinct.field_hash import coefficients
from slidestat.synopses.exponential_histogram.codec import Integers


@lru_cache(maxsize=64)
def head_of(parameters: DistinctParameters) -> tuple[Integers, Integers]:
    """Return `parameters` as kernels take them, and the polynomials of the instances."""
    head = [
        round(parameters.epsilon * EPSILONS),
        round(parameters.delta * DELTAS),
        parameters.span,
        parameters.seed,
        parameters.instances,
        parameters.capacity,
        RANDOMISED_WAVE,
    ]
    return np.array(head, np.int64), coefficients(parameters.seed, parameters.instances)


def item_column(items: npt.ArrayLike, length: int) -> Integers:
    """Return items, int64 or uint64, as int64 of the same bits, or raise SynopsisError."""
    column = np.asarray(items)
    if column.dtype == np.uint64:
        column = column.view(np.int64)
    column = integers("items", column)
    if column.shape != (length,):
        raise SynopsisError(f"an item is needed for each time: {length}, not {len(column)}")
    return column


def run_distinct_batch(
    parameters: DistinctParameters,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    items: npt.ArrayLike,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    advances: npt.ArrayLike | None = None,
) -> BatchResult:
    """Feed and ask many randomised waves at once, one a group (key).

    states: G stored states, None for a new key. starts: int64[G + 1]; the events of group g are
    times[starts[g]:starts[g + 1]] (int64, not falling) and items (int64 or uint64) alike.
    query_starts, query_times: the same for queries. spans: int64[K], the windows asked for by every
    query, each from 1 to the span kept. A query at q sees the state and the events with time < q,
    in the window [q - span, q): the answer is the number of distinct items in it. It leaves no
    trace in the state. advances: int64[G], the time each group is moved on to after its events, if
    any.

    An answer below `parameters.capacity` is exact: estimate, lower and upper are one. For others,
    lower <= exact <= upper with a confidence of 1 - delta each.

    However the events are split into batches, the states end in the same bytes.

    Raises SynopsisError, and changes nothing, for bytes that are not a state made with these
    parameters, and for times or queries that go back. Cost: O(bytes in + events + queries * items
    in their windows + bytes out), and 10^2 steps of hashing for an item that is new to a key with
    `capacity` items. Source: Gibbons, Tirthapura 2002, sections 4 and 5.
    """
    head, polynomials = head_of(parameters)
    return run_items(
        head,
        polynomials,
        states,
        starts,
        times,
        items,
        query_starts,
        query_times,
        spans,
        advances,
    )


def run_items(
    head: Integers,
    polynomials: Integers,
    states: Sequence[bytes | None],
    starts: npt.ArrayLike,
    times: npt.ArrayLike,
    items: npt.ArrayLike,
    query_starts: npt.ArrayLike,
    query_times: npt.ArrayLike,
    spans: npt.ArrayLike,
    advances: npt.ArrayLike | None,
) -> BatchResult:
    """Do what `run_distinct_batch` does, with its parameters as kernels take them."""
    events = integers("times", times)
    batch = keyed_batch(
        int(head[SPAN]),
        states,
        starts,
        events,
        item_column(items, len(events)).view(np.float64),  # as bits: it takes doubles
        query_starts,
        query_times,
        spans,
        advances,
    )
    answers = np.empty((3, len(batch.query_times), len(batch.spans)), np.float64)
    error_code, group, a, b, out, ends = run(
        head,
        polynomials,
        batch.arena,
        batch.offsets,
        batch.starts,
        batch.times,
        batch.values.view(np.int64),
        batch.query_starts,
        batch.query_times,
        batch.spans,
        batch.advances,
        answers,
    )
    if error_code != error_codes.OK:
        raise batch.error(error_code, group, a, b)
    return BatchResult(split(out, ends), answers[0], answers[1], answers[2])
