"""Numbers written by the thousand are the texts that msgspec writes of each."""

import math
import re

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings, strategies as st

from slidestat.engine.emissions.emission_text import EmissionText
from slidestat.schemas.emission import Emission, Figure

_COUNT = 99_999
_POWERS = 2.0 ** np.arange(-17, 54)
_rng = np.random.default_rng(20)


def _texts(numbers: npt.NDArray[np.float64]) -> list[bytes]:
    """The texts of the numbers, of which there are three or more, in emissions of a figure each."""
    text = EmissionText(Emission("", "", 0, [Figure("", None, None, None)], "", 0, 0))
    figures = numbers[: len(numbers) // 3 * 3].reshape(-1, 1, 3)
    zeros = np.zeros(len(figures), np.int64)
    records = text.write([""], zeros, zeros, figures, zeros)
    return [
        found
        for _, value, _ in records
        for found in re.findall(rb'"(?:estimate|lower|upper)":([^,}]*)', value)
    ]


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
    assert _texts(numbers) == list(map(msgspec.json.encode, numbers.tolist()))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.floats() | st.sampled_from([1e-5, 2.0**53, -0.0]), min_size=3))
@example([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-5, -1.5, 0.5, 0.25])
@example([math.nextafter(1e-5, 0), 0.5, math.nextafter(-1e-5, 0)])
@example([2.0**53, 2.0**53 - 1, 0.5])
def test_any_numbers(numbers: list[float]) -> None:
    """What the kernel does not write, msgspec does."""
    threes = numbers[: len(numbers) // 3 * 3]
    assert _texts(np.array(numbers)) == list(map(msgspec.json.encode, threes))
