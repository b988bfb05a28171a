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


def ask(
    made_with: type[MadeWith],  # noqa: ARG001 - tells what `parameters` are, for these kinds
    kinds: tuple[int, ...],
    bundles: Sequence[Bundle],
    times: npt.ArrayLike,
    spans: npt.ArrayLike,
) -> Asked[MadeWith]:
    """Check what is asked of bundles whose parts are of one of `kinds`, made with `made_with`.

    times: int64[B], when each bundle is asked, not before the `now` of any of its parts: what has
    gone into a synopsis cannot be taken out. spans: int64[K]. Raises SynopsisError for bundles
    without parts, of other kinds or of parameters that differ, and for times that go back.
    """
    at = integers("times", times)
    if len(at) != len(bundles) or not bundles:
        raise SynopsisError(f"a time is needed for each bundle: {len(bundles)}, not {len(at)}")
    for bundle, time in zip(bundles, at.tolist(), strict=True):
        if bundle.kind not in kinds:
            raise SynopsisError(
                f"a bundle of parts of kind {bundle.kind} does not answer this, but one of "
                f"{' or '.join(str(kind) for kind in kinds)}"
            )
        if (bundle.kind, bundle.parameters) != (bundles[0].kind, bundles[0].parameters):
            raise SynopsisError("bundles asked at once must be of one kind and equal parameters")
        if time_in_range(time) < bundle.now:
            ahead = max(bundle.parts, key=lambda part: part.now)
            raise SynopsisError(
                f"a query at {time} is earlier than {ahead.now}, the time that party "
                f"{ahead.party!r} has come to"
            )
    sizes = np.array([len(bundle.parts) for bundle in bundles], np.int64)
    starts = np.zeros(len(bundles) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return Asked(
        cast(MadeWith, bundles[0].parameters),
        bundles[0].kind,
        [part.data for bundle in bundles for part in bundle.parts],
        starts,
        np.repeat(at, sizes),
        integers("spans", spans),
    )
