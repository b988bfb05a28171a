"""Numbers written by the thousand are the texts that msgspec writes of each."""

import math

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings, strategies as st

from slidestat.engine.emissions.number_texts import number_texts

_COUNT = 100_000
_POWERS = 2.0 ** np.arange(-17, 54)
_rng = np.random.default_rng(20)


def _texts(numbers: npt.NDArray[np.float64]) -> list[bytes]:
    text, starts, stops = number_texts(numbers)
    return [text[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]


@pytest.mark.parametrize(
    "numbers",
    [
        10 ** _rng.uniform(-5, 15.9, _COUNT),
        -_rng.lognormal(3, 2, _COUNT),
        np.round(_rng.lognormal(3, 2, _COUNT), 2),
        np.round(_rng.lognormal(9, 2, _COUNT)) / 2,
        _rng.integers(0, 2**53, _COUNT) / 10.0 ** _rng.integers(0, 20, _COUNT),
        np.concatenate([_POWERS, np.nextafter(_POWERS, 0), np.nextafter(_POWERS, math.inf)]),
        # All bit patterns of floats that the kernel writes are as likely.
        _rng.integers(*np.array([1e-5, 2.0**53]).view(np.int64), _COUNT).view(np.float64),
    ],
    ids=["log-uniform", "log-normal", "hundredths", "halves", "decimals", "powers", "bits"],
)
def test_named_distributions(numbers: npt.NDArray[np.float64]) -> None:
    """A decimal that is longer than it must be, or not the nearest, would be another text."""
    assert _texts(numbers) == [msgspec.json.encode(number) for number in numbers.tolist()]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.floats() | st.sampled_from([1e-5, 2.0**53, -0.0]), min_size=1))
@example([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-5, -1.5])
@example([math.nextafter(1e-5, 0), 0.5])
@example([2.0**53, 2.0**53 - 1, 0.5])
def test_any_numbers(numbers: list[float]) -> None:
    """What the kernel does not write, msgspec does."""
    assert _texts(np.array(numbers)) == [msgspec.json.encode(number) for number in numbers]
