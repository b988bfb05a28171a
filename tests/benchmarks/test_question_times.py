"""Questions to full states: what the guide tells is measured of all subjects, and within goals."""

import json

from benchmarks.speed.question_times import RESULTS, SUBJECTS

# In microseconds, over three windows, on a machine with nothing else to do.
GOALS = {"quantiles by value, 0.01 and 0.1": 20, "quantiles by rank, 0.01": 3 * 40}


def test_the_guide_tells_of_every_subject() -> None:
    """None that was measured is left out, and none is told that is gone."""
    told = json.loads(RESULTS.read_text())["us"]
    assert list(told) == list(SUBJECTS)
    for name, most in GOALS.items():
        assert told[name] <= most
