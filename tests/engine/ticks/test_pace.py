"""How much is done in one go: what takes its time comes in small slices, and grows and shrinks."""

from slidestat.engine.ticks.ticker import Pace

MOST = 5_000


def after(pace: Pace, seconds_each: float, slices: int = 30) -> int:
    """The size after slices of things that take so long each."""
    for _ in range(slices):
        pace.took(pace.size, pace.size * seconds_each)
    return pace.size


def test_a_slice_takes_about_as_long_whatever_its_things_take() -> None:
    """Up to as many as memory may hold, and never none."""
    pace = Pace(500, MOST)
    assert 25 <= after(pace, 1e-3) <= 35
    assert after(pace, 1.0) == 1
    assert 2_500 <= after(pace, 1e-5) <= 3_500
    assert after(pace, 1e-9) == MOST


def test_one_slow_slice_tells_little() -> None:
    """A slice that loaded a library makes the next one no smaller than a quarter."""
    pace = Pace(400, MOST)
    pace.took(400, 100.0)
    assert pace.size == 100


def test_the_first_slice_is_no_larger_than_the_largest() -> None:
    assert Pace(500, 2).size == 2
