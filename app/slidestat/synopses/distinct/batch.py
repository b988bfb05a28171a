"""Randomised waves of all keys of a batch in one call, and the union of several states."""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import Batch, BatchResult, integers, is_uint64, row_of, split
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.keyed import drive
from slidestat.synopses.core.stored import moving
from slidestat.synopses.distinct.codec import KIND, RANDOMISED_WAVE, SPAN, Kept
from slidestat.synopses.distinct.field_hash import coefficients
from slidestat.synopses.distinct.kernel import run
from slidestat.synopses.distinct.parameters import DistinctParameters


@lru_cache(maxsize=64)
def head_of(parameters: DistinctParameters) -> tuple[Integers, Integers]:
    """Return `parameters` as kernels take them, and the polynomials of the instances."""
    own = parameters.instances, parameters.capacity, RANDOMISED_WAVE
    head = np.array([*parameters.stored, *own], np.int64)
    return head, coefficients(parameters.seed, parameters.instances)


def item_column(items: npt.ArrayLike, length: int) -> Integers:
    """Return items, int64 or uint64, as int64 of the same bits, or raise SynopsisError."""
    column = row_of("items", items)
    if is_uint64(column):
        column = column.astype(np.uint64, copy=False).view(np.int64)
    column = integers("items", column)
    if column.shape != (length,):
        raise SynopsisError(f"an item is needed for each time: {length}, not {len(column)}")
    return column


def run_distinct_batch(
    parameters: DistinctParameters, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Feed and ask many randomised waves at once, one a group (key).

    The values of `batch` are items, int64 or uint64. The answer is the number of distinct ones: one
    below `parameters.capacity` is exact, as estimate, lower and upper. For others, lower <= exact
    <= upper with a confidence of 1 - delta each.

    Cost: O(bytes in + events + queries * items in their windows + bytes out), and 10^2 steps of
    hashing for an item that is new to a key with `capacity` items. Source: Gibbons, Tirthapura
    2002, sections 4 and 5.
    """
    return run_items(*head_of(parameters), states, batch)


def run_items(
    head: Integers, polynomials: Integers, states: Sequence[bytes | None], batch: Batch
) -> BatchResult:
    """Run as `run_distinct_batch`, with its parameters as kernels take them."""
    columns = batch.within(int(head[SPAN]))
    items = item_column(batch.values, len(columns.times))
    answers = np.empty((3, *batch.shape), np.float64)
    given = (head, polynomials), states, columns, items, answers
    out, ends = drive(run, *given, kinds=(int(head[KIND]),))
    return BatchResult(split(out, ends), *answers)


Parameters = TypeVar("Parameters", bound=Hashable)


def common(parameters: Sequence[Parameters]) -> Parameters:
    """Return what all states were made with; SynopsisError if they differ, or if there are none."""
    if not parameters:
        raise SynopsisError("nothing to merge: at least one state is needed")
    if len(set(parameters)) > 1:
        raise error_codes.synopsis_error(error_codes.OTHER_SETTINGS, 0, 0, -1)
    return parameters[0]


def run_union(
    head_of: Callable[[Parameters], tuple[Integers, Integers]],
    parts: Sequence[tuple[Parameters, int, Kept]],
) -> bytes:
    """Return the state of all that the parts keep, at the latest `now` of them.

    parts: of each state its parameters, its `now` and what it keeps. Cost: O(items log(items)), and
    the hashing of the items.
    """
    made_with = head_of(common([parameters for parameters, _, _ in parts]))
    times = np.concatenate([kept.times for _, _, kept in parts])
    items = np.concatenate([kept.items for _, _, kept in parts])
    order = np.argsort(times, kind="stable")
    now = np.array([max(now for _, now, _ in parts)], np.int64)
    return run_items(*made_with, [None], moving(times[order], items[order], now)).states[0]
