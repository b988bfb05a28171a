"""What the benchmark of the referee says is what the paper and the waves say."""

from itertools import pairwise
from math import comb, log2

import pytest

from benchmarks.speed.referee import (
    LEAST_EPSILON,
    TRIAL_PROMISES,
    exact_figure,
    failures,
    least_deterministic_bits,
    throughput,
)
from slidestat.synopses.distinct.parameters import plan


@pytest.mark.parametrize("n", [128, 1_024])
def test_the_least_message_is_that_of_counting_inputs(n: int) -> None:
    """All inputs with n/2 ones, over those that may lead to one message, as bits."""
    apart = 2 * n // 64
    inputs = comb(n, n // 2)
    together = (1 + apart) * comb(n // 2, apart) ** 2
    assert least_deterministic_bits(n, LEAST_EPSILON) == pytest.approx(log2(inputs / together))


def test_the_least_message_grows_as_the_stream() -> None:
    """Theorem 4: in proportion to n, and at least n/16 bits from 1,024 on."""
    least = [least_deterministic_bits(4**i, LEAST_EPSILON) for i in range(5, 13)]
    assert all(bits >= 4**i / 16 for bits, i in zip(least, range(5, 13), strict=True))
    for fewer, more in pairwise(least):
        assert 4 <= more / fewer < 4.1


def test_answers_of_trials_fail_no_more_than_delta() -> None:
    """Of 20 trials each; the benchmark has 1,000, of one instance and of several."""
    assert {plan(*promise)[0] for promise in TRIAL_PROMISES} == {1, 3, 5}
    for epsilon, delta in TRIAL_PROMISES:
        off, outside = failures(20, epsilon, delta)
        assert max(off, outside) <= delta * 20


def test_a_referee_is_timed_on_what_it_answers() -> None:
    """Every synopsis that was published is counted, three a party and tick."""
    synopses, seconds = throughput(parties=2, ticks=3)
    assert synopses == 2 * 3 * 2
    assert seconds > 0


def test_exact_figures() -> None:
    """Those that are shown beside the answers."""
    events = [{"value": value, "destination": str(value % 2)} for value in range(1, 11)]
    assert exact_figure("count", None, events) == ("count", 10)
    assert exact_figure("distinct_destination", None, events) == ("distinct_destination", 2)
    assert exact_figure("quantile", 0.9, events) == ("quantile 0.9", 9)
    assert exact_figure("mean", None, events) == ("mean", None)
