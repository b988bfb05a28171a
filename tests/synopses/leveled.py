"""What laws of quantiles and frequent items share: how each is made, and fed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from slidestat.synopses import (
    FrequentItems,
    FrequentParameters,
    PairedItems,
    PairedParameters,
    QuantileParameters,
    Quantiles,
    RandomFrequentItems,
    RandomFrequentParameters,
    RandomQuantileParameters,
    RandomQuantiles,
)

SEED = 2**40 + 1
DELTA = 0.2


@dataclass(frozen=True)
class Subject:
    """A kind of summary: its class, what it is made with for (epsilon, span), and its events."""

    kind: int
    summary: Any
    parameters: Callable[[float, int], Any]
    draw: Callable[[np.random.Generator, int], npt.NDArray[Any]]

    def create(self, epsilon: float, span: int) -> Any:
        """A summary that has seen nothing."""
        return self.summary.create(self.parameters(epsilon, span))

    def ask(self, summary: Any, n: int) -> Any:
        """Answers for the window of n."""
        if self.kind in (13, 21):
            return [summary.query(n, quantile) for quantile in (0.0, 0.3, 1.0)]
        return [summary.frequent(n, 0.5), summary.query(n, 7)]


def _values(rng: np.random.Generator, size: int) -> npt.NDArray[Any]:
    return np.round(rng.uniform(0, 100, size), 2)


def _items(rng: np.random.Generator, size: int) -> npt.NDArray[Any]:
    return np.minimum(rng.zipf(1.2, size), 10**6)


SUBJECTS = {
    "quantiles": Subject(13, Quantiles, QuantileParameters, _values),
    "items": Subject(14, FrequentItems, FrequentParameters, _items),
    "items in pairs": Subject(28, PairedItems, PairedParameters, _items),
    "random quantiles": Subject(
        21,
        RandomQuantiles,
        lambda epsilon, span: RandomQuantileParameters(epsilon, span, DELTA, SEED),
        _values,
    ),
    "random items": Subject(
        22,
        RandomFrequentItems,
        lambda epsilon, span: RandomFrequentParameters(epsilon, span, DELTA, SEED),
        _items,
    ),
}


def fed(
    summary: Any,
    times: npt.ArrayLike,
    payload: npt.ArrayLike,
    cuts: Iterable[int] = (),
) -> Any:
    """`summary` after the events, taken in batches that end at `cuts`."""
    times, payload = np.asarray(times, np.int64), np.asarray(payload)
    for first, last in pairwise([0, *sorted(cuts), len(times)]):
        summary.insert(times[first:last], payload[first:last])
    return summary
