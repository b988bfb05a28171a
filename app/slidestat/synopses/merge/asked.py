"""Questions to many bundles at once: all parts of all of them become the groups of one batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.arrays import Floats, Integers
from slidestat.synopses.core.batch import Batch, integers
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import time_in_range
from slidestat.synopses.merge.bundle import Bundle

MadeWith = TypeVar("MadeWith")


@dataclass(frozen=True)
class UnionAnswers:
    """Answers over the union of each bundle's parts: float64[bundles, spans] each.

    `lowers <= exact <= uppers`, always; NaN where a window has nothing to answer from.
    """

    estimates: Floats
    lowers: Floats
    uppers: Floats


@dataclass(frozen=True)
class Asked(Generic[MadeWith]):
    """The queries of a batch.

    states: of the P parts of all bundles, one bundle after another; those of bundle b are
    states[starts[b]:starts[b + 1]] (int64[B + 1]). times: int64[P], when each part is asked.
    spans: int64[K]. parameters: what all parts were made with.
    """

    parameters: MadeWith
    kind: int
    states: list[bytes]
    starts: Integers
    times: Integers
    spans: Integers

    def batch(self, values: Any = ()) -> Batch:
        """Return the batch of one query for each part, and of no events; `values` are those."""
        parts = len(self.states)
        none, each = np.zeros(parts + 1, np.int64), np.arange(parts + 1)
        return Batch(none, (), values, each, self.times, self.spans)


def part_times(bundles: Sequence[Bundle], times: npt.ArrayLike) -> list[Integers]:
    """Return, for each bundle, when each of its parts is asked.

    times: int64[B], of each bundle, where all parties have one clock; or int64[P], of each part,
    one bundle after another. That is for the last n items of each of several streams, where the now
    of a party is the number of its own last item + 1 (scenario 1 of Gibbons and Tirthapura 2002,
    section 3.4). Raises SynopsisError for any other number of times, and for no bundle.
    """
    at = integers("times", times)
    sizes = np.array([len(bundle.parts) for bundle in bundles], np.int64)
    if not bundles or len(at) not in (len(bundles), sizes.sum()):
        raise SynopsisError(
            f"a time is needed for each bundle, {len(bundles)}, or for each part, {sizes.sum()}, "
            f"not {len(at)}"
        )
    if len(at) == len(bundles):
        # Where each bundle has one part the two are the same.
        at = np.repeat(at, sizes)
    return np.split(at, np.cumsum(sizes)[:-1])


def ask(
    made_with: type[MadeWith],  # noqa: ARG001 - tells what `parameters` are, for these kinds
    kinds: tuple[int, ...],
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
) -> Asked[MadeWith]:
    """Check what is asked of bundles whose parts are of one of `kinds`, made with `made_with`.

    times: int64[B], when each bundle is asked, or int64[P], when each part is (`part_times`), not
    before the `now` of a part: what has gone into a synopsis cannot be taken out. spans: int64[K].
    Raises SynopsisError for bundles without parts, of other kinds or of parameters that differ, and
    for times that go back.
    """
    at = part_times(bundles, times)
    for bundle, part_at in zip(bundles, at, strict=True):
        if bundle.kind not in kinds:
            raise SynopsisError(
                f"a bundle of parts of kind {bundle.kind} does not answer this, but one of "
                f"{' or '.join(str(kind) for kind in kinds)}"
            )
        if (bundle.kind, bundle.parameters) != (bundles[0].kind, bundles[0].parameters):
            raise SynopsisError("bundles asked at once must be of one kind and equal parameters")
        for part, time in zip(bundle.parts, part_at.tolist(), strict=True):
            if time_in_range(time) < part.now:
                raise SynopsisError(
                    f"a query at {time} is earlier than {part.now}, the time that party "
                    f"{part.party!r} has come to"
                )
    sizes = np.array([len(bundle.parts) for bundle in bundles], np.int64)
    starts = np.zeros(len(bundles) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return Asked(
        cast(MadeWith, bundles[0].parameters),
        bundles[0].kind,
        [part.data for bundle in bundles for part in bundle.parts],
        starts,
        np.concatenate(at),
        integers("spans", spans),
    )
