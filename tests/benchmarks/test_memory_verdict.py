"""What memory a worker may take in the benchmarks of a backlog and of a million keys."""

import pytest

from benchmarks.harness.measure import memory_verdict
from benchmarks.size import backlog, million_keys


@pytest.mark.parametrize(
    ("limit", "stated"), [(backlog.MOST_MEMORY, 1.5), (million_keys.MOST_MEMORY, 4)]
)
def test_a_peak_above_the_limit_is_a_failure(
    limit: int, stated: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Peaks up to the stated GiB are exit code 0; a byte more, in any one, is 2, and is named."""
    assert limit == stated * 2**30
    assert memory_verdict({"first": 1, "last": limit}, limit) == 0
    assert "TOO MUCH" not in capsys.readouterr().out
    assert memory_verdict({"first": limit + 1, "last": 1}, limit) == 2
    said = capsys.readouterr().out
    assert said.count("TOO MUCH MEMORY") == 1
    assert "first" in said
