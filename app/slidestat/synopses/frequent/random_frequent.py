"""How often each item came, over any window, by random sampling: no count is ever too high.

Source: Arasu and Manku, "Approximate Counts and Quantiles over Sliding Windows" (2004), sections 5
and 7 and appendix B (theorems 5.1, 7.1, B.1): sticky sampling, for fixed-size, variable-size and
n-of-N windows, with the samples of all levels in one list: each is kept once, at its highest level.

Contract: of m events in the window [now - n, now), n <= N, for every item: lower <= its count,
always; and, for all items at once with a chance of at least 1 - delta, its count <= upper, where
upper - lower <= epsilon m. Up to A events, counts are exact. The draws are a
function of the seed and the events' numbers: replays repeat them, and answers of overlapping
windows fail together. Items must not be chosen by one who knows the seed.
Proof: lambda = log(2 (2 / epsilon + 8) / delta), reach A = 2 lambda / epsilon + 8. Let r be the
least level with m' <= A 2^r, m' >= m being the most events that the window may have: its samples of
level r or more are all known (sticky_kernel.py). lower is an item's occurrences from its first
known sample in the window on. For the first c of them in the window to have no sample, one event of
each group of 2^r must miss them: with c_i of them in group i, a chance of at most the product of
1 - c_i 2^-r, less than exp(-c 2^-r). So with x = ceil(lambda 2^r) - 1, more than x are missed with
a chance below exp(-lambda) an item. At most m / (lambda 2^r) <= A / lambda < 2 / epsilon + 8 items
have so many; together, the chance is below delta / 2. If r = 0, x = 0. Else A 2^(r-1) < m', and
m' - m is less than 2^(r+2), the gap before the window's first sample, so that
x < lambda 2^r <= epsilon (m' - 2^(r+2)) <= epsilon m. The draws may move m' past a border of r, but
not past two: the chances of both add up to less than delta.
Space: R (A + 4) / 2 + A + 2 samples at most, R = log2(m / A) rounded up, m being the events alive:
of the level r < R alone, one in each group of 2^(r+1) that the last A 2^r events touch.
That is theorem B.1's O(1/epsilon log(1/(epsilon delta)) log(epsilon m)).
Made with `FixedRandomFrequentParameters`, it is for the window of the last N = `span` events alone,
each with a number of its own, by samples of one level r, that of min(N, events so far): A + 2 of
them at most, theorem 5.1's O(1/epsilon log(1/(epsilon delta))). Of windows of n < N events, counts
miss at most epsilon min(N, events so far) then.
Cost: an event O(log(samples)) amortised, in batches of about as many; a query O(samples * log).
Order: times must not fall. Merge: not offered (levels are those of one stream's events); lowers of
separate streams add up, and uppers, with the sum of their deltas.

>>> from slidestat.synopses import (
...     RandomFrequentItems, RandomFrequentParameters)
>>> parameters = RandomFrequentParameters(epsilon=0.01, span=60_000, delta=0.01, seed=7)
>>> pages = RandomFrequentItems.create(parameters)
>>> pages.insert([1_000, 2_000, 2_000, 59_000], [7, 7, 9, 7])
>>> pages.frequent(60_000, 0.5)
[FrequentItem(item=7, estimate=3.0, lower=3.0, upper=3.0)]
"""

import numpy as np

from slidestat.synopses.blocks.run import summary_error
from slidestat.synopses.core import error_codes
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.batch import NO_QUERIES
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.core.stored import asking, moving
from slidestat.synopses.core.wire import VERSION
from slidestat.synopses.frequent.frequent_batch import FrequentBatch
from slidestat.synopses.frequent.item_summary import FrequentItem, ItemSummary
from slidestat.synopses.frequent.random_frequent_batch import (
    FixedRandomFrequentParameters,
    RandomFrequentParameters,
    open_state,
    run_random_frequent_batch,
)
from slidestat.synopses.frequent.sticky_codec import read_head
from slidestat.synopses.frequent.sticky_kernel import (
    FIXED_RANDOM_FREQUENT,
    NOW,
    POSITION,
    RANDOM_FREQUENT,
    SIZE,
    STATE_SIZE,
    TOTAL,
    level_kept,
    level_of,
)

__all__ = ["FrequentItem", "RandomFrequentItems", "RandomFrequentParameters"]


class RandomFrequentItems(ItemSummary[RandomFrequentParameters]):
    """A synopsis of the items of one stream, kept as the bytes that are stored and sent.

    Times are whole numbers of any unit, from -2^61 to 2^61 - 1, and never fall. A window of n at
    `now` is [now - n, now), n being at most the span kept.
    """

    @classmethod
    def from_bytes(cls, data: bytes) -> "RandomFrequentItems":
        """Read what `to_bytes` wrote; raises SynopsisError for anything else."""
        parameters, state, _ = _read(data)
        summary = cls(parameters, bytes(data), int(state[NOW]))
        summary.check()
        return summary

    def stored_entries(self) -> int:
        """Return how many samples the state holds."""
        return int(_read(self._data)[1][SIZE])

    def check(self) -> None:
        """Raise SynopsisError unless the samples are what sticky_kernel.py says: what decoding
        checks, and that each is of a level that is still sampled."""
        parameters, state, samples = _read(self._data)
        for position in samples[POSITION, : state[SIZE]].tolist():
            level = level_kept(parameters.head, int(state[TOTAL]), position)
            if level_of(parameters.seed, position, level) != level:
                raise SynopsisError(f"event {position} is a sample, and should have been let go")

    def _epsilon(self) -> float:
        return self._parameters.epsilon

    def _asked(self, n: int, share: float, at: int) -> FrequentBatch:
        batch = asking(NO_QUERIES, at, n)
        return run_random_frequent_batch(self._parameters, [self._data], batch, share)

    def _moved(self, times: Integers, values: Integers, to: Integers | None) -> bytes:
        batch = moving(times, values, to)
        return run_random_frequent_batch(self._parameters, [self._data], batch, 0).states[0]


def _read(data: bytes) -> tuple[RandomFrequentParameters, Integers, Integers]:
    """Decode `data`; returns its parameters, numbers and samples."""
    array = np.frombuffer(bytearray(data), np.uint8)
    state = np.empty(STATE_SIZE, np.int64)
    shares = np.empty(2)
    is_fixed = data[3:4] == bytes([FIXED_RANDOM_FREQUENT])
    kind = FIXED_RANDOM_FREQUENT if is_fixed else RANDOM_FREQUENT
    error_code, number, seed, span, _ = read_head(array, 0, len(array), kind, shares)
    if error_code != error_codes.OK:
        known = VERSION if error_code == error_codes.NEWER_VERSION else kind
        raise summary_error(error_code, int(number), known, -1)
    epsilon, delta = shares.tolist()
    try:
        made = FixedRandomFrequentParameters if is_fixed else RandomFrequentParameters
        parameters = made(epsilon, int(span), delta, int(seed))
    except SynopsisError:
        raise summary_error(error_codes.CORRUPTED, 0, 0, -1) from None
    error_code, _, _, samples = open_state(parameters.head, shares, array, 0, len(array), state, 0)
    if error_code != error_codes.OK:
        raise summary_error(error_code, 0, 0, -1)
    return parameters, state, samples
