"""Edges of bins are read back as they were, in the shortest form that says them exactly."""

import numpy as np
import pytest

from slidestat.synopses import SynopsisError
from slidestat.synopses.core.envelope import Body
from slidestat.synopses.value_histogram.value_histogram import (
    checked_edges,
    edges_from_body,
    edges_to_bytes,
)


@pytest.mark.parametrize(
    ("edges", "size"),
    [
        ((0.0,), 3),
        ((0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10), 19),
        ((-1e9, 1e9), 12),
        ((1 / 3, 2 / 3), 18),
        ((2.0**51, 2.0**51 + 1), 18),
        ((-1e300, 0, 1e-300), 26),
        (tuple(range(1_000)), 1_003),
    ],
)
def test_edges_are_read_back_exactly(edges: tuple[float, ...], size: int) -> None:
    """Decimals as multiples, other numbers as doubles: the same numbers, in so many bytes."""
    data = edges_to_bytes(checked_edges(edges))
    assert edges_from_body(Body(data)) == edges
    assert len(data) == size


def test_any_edges_are_read_back() -> None:
    """Random numbers of all magnitudes and decimals."""
    rng = np.random.default_rng(1)
    for _ in range(500):
        numbers = rng.normal(0, 10 ** rng.uniform(-12, 18), int(rng.integers(1, 30)))
        edges = checked_edges(sorted(set(np.round(numbers, int(rng.integers(0, 12))).tolist())))
        assert edges_from_body(Body(edges_to_bytes(edges))) == edges


def test_edges_at_minus_zero_are_at_zero() -> None:
    """-0.0 and 0.0 are one number, so they are one edge."""
    assert str(checked_edges([-0.0, 1])) == "(0.0, 1.0)"
    with pytest.raises(SynopsisError, match="above"):
        checked_edges([-0.0, 0.0])
