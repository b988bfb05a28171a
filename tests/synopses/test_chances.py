"""Laws of chance have power: what misses half as often again as promised is found."""

import numpy as np
import pytest

from tests.synopses.chances import FALSE_ALARM, OVERSIGHT, WORSE, no_more_than, trials


@pytest.mark.parametrize("delta", [0.5, 0.3, 0.1, 0.05])
def test_what_misses_too_often_is_found(delta: float) -> None:
    """Drawn, not computed: of those that keep to delta nearly all pass, of those that miss 1.5
    times as often nearly none.
    """
    seeds, most = trials(delta)
    rng = np.random.default_rng(1)
    kept = rng.binomial(seeds, delta, 100_000) <= most
    missed = rng.binomial(seeds, WORSE * delta, 100_000) <= most
    assert np.mean(kept) >= 1 - FALSE_ALARM - 0.001
    assert np.mean(missed) <= OVERSIGHT + 0.001


def test_the_law_of_misses_is_the_binomial_one() -> None:
    """Of three, each of a quarter: none in 27 of 64, at most one in 54."""
    assert no_more_than(3, 0.25, 0) == pytest.approx(27 / 64, rel=1e-12)
    assert no_more_than(3, 0.25, 1) == pytest.approx(54 / 64, rel=1e-12)
    assert no_more_than(3, 0.25, 3) == pytest.approx(1, rel=1e-12)
