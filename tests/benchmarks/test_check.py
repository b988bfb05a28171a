"""The check of ours: a figure that breaks its bounds or its promise ends the run."""

import numpy as np
import pytest

from benchmarks.harness.check import Check, check_figures
from benchmarks.harness.exact import Exact
from benchmarks.harness.figures import Figure
from benchmarks.harness.workload import Workload
from slidestat.errors import SlidestatError

# 1.00, 2.00 and 4.00 of one key within a second.
EVENTS = Workload(
    1,
    1,
    np.zeros(3, np.int64),
    np.array([1_000, 1_200, 1_900], np.int64),
    np.array([100, 200, 400], np.int64),
)


def check(*figures: Figure) -> Check:
    keys, ends = np.zeros(len(figures), np.int64), np.full(len(figures), 2_000, np.int64)
    return check_figures(Exact(EVENTS), 1, list(figures), keys, ends)


def test_the_largest_relative_error_is_told_beside_the_promise() -> None:
    """Of counts and sums; what promises none has none."""
    count = Figure("count", 1_000, 3.1, 3, 4, relative_error=0.1)
    total = Figure("sum", 1_000, 7.0, 7, 7, relative_error=0.05)
    mean = Figure("mean", 1_000, 2.0, 1, 4)
    found = check(count, total, mean)
    assert (found.figures, found.promised_relative_error) == (3, 0.1)
    assert found.largest_relative_error == pytest.approx(0.1 / 3)


def test_a_topology_of_quantiles_alone_is_checked() -> None:
    """Nothing in it promises a relative error."""
    right = Figure("quantile", 1_000, 2.0, 2, 2, quantile=0.5, share_error=0.1)
    assert check(right) == Check(1, 1, 0.0, 0.0)
    wrong = Figure("quantile", 1_000, 4.0, 4, 4, quantile=0.5, share_error=0.1)
    with pytest.raises(SlidestatError, match="outside of its bounds"):
        check(right, wrong)


@pytest.mark.parametrize(
    ("figure", "violation"),
    [
        (Figure("count", 1_000, 3, 3.5, 4, relative_error=0.1), "bounds do not hold"),
        (Figure("count", 1_000, 3.5, 3, 4, relative_error=0.1), "largest relative error"),
        (Figure("mean", 1_000, 2, 1, 2, relative_error=0.1), "bounds do not hold"),
    ],
)
def test_a_wrong_figure_is_no_answer(figure: Figure, violation: str) -> None:
    """Bounds that do not hold, and errors beyond the promise."""
    with pytest.raises(SlidestatError, match=violation):
        check(figure)
