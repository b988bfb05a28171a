"""What a count stores, the least that a deterministic algorithm needs, and what its card has."""

import re
from pathlib import Path

import pytest

from benchmarks.size.space_of_counts import (
    Row,
    lower_bound_bytes,
    ratios_text,
    row_text,
    rows,
    worst_ratios,
)

_SYNOPSES = Path(__file__).parents[3] / "app" / "slidestat" / "synopses"
CARD = (_SYNOPSES / "README.md").read_text("utf-8")
_ROW = re.compile(r"^\| 10\^(\d+) \| (0\.[01]+) \| ([\d,]+) \| ([\d,]+) \| \S+ \|$", re.MULTILINE)

# The largest ratio of stored bytes to the lower bound, over all epsilons that have one: with one
# event a tick, and with one a second in milliseconds. Rounded up to a hundredth.
WORST = {
    10**3: (27.26, 53.25),
    10**4: (12.76, 26.83),
    10**5: (11.87, 26.26),
    10**6: (9.65, 18.26),
    10**7: (8.00, 14.63),
}


@pytest.fixture(scope="module")
def measured() -> list[Row]:
    return list(rows(max(WORST)))


@pytest.fixture(scope="module")
def told() -> list[Row]:
    """The rows of the card's table."""
    found = []
    for power, epsilon, ticks, seconds in _ROW.findall(CARD):
        events = 10 ** int(power)
        figures = (int(text.replace(",", "")) for text in (ticks, seconds))
        least = lower_bound_bytes(float(epsilon), events)
        found.append(Row(events, float(epsilon), *figures, least))
    return found


def test_stored_bytes_are_near_what_a_deterministic_algorithm_needs(measured: list[Row]) -> None:
    """Never more than WORST times the lower bound of theorem 3.1, at any epsilon that it speaks of.

    At most 10 times is kept with one event a tick from 10^6 events on. It is not kept below: there
    N/k is small, a state has about (k/2) log2(2N/k) buckets of at least a byte each, and the bound
    is a square of that logarithm; of few buckets, the head of a state is the larger part. Nor is it
    kept with one event a second in milliseconds, where the gap between two buckets takes up to ten
    bits more; of the bound for a window of so many milliseconds, that is at most 10 times, too.
    """
    found = worst_ratios(measured)
    assert [ratios.events for ratios in found] == list(WORST)
    for ratios in found:
        ticks, seconds = WORST[ratios.events]
        assert ticks - 0.01 < ratios.ticks <= ticks
        assert seconds - 0.01 < ratios.seconds <= seconds
        assert (ratios.ticks <= 10) == (ratios.events >= 10**6)
        assert ratios.seconds > 10
        assert ratios.milliseconds <= 10


def test_the_card_tells_what_is_stored(measured: list[Row], told: list[Row]) -> None:
    """Its rows up to 10^7 events are those of now; the ones beyond take the benchmark minutes."""
    assert [row for row in told if row.events <= max(WORST)] == measured
    assert len(told) == 3 * 7
    for row in told:
        assert f"\n{row_text(row)}\n" in CARD


def test_the_card_tells_the_worst_ratios(told: list[Row]) -> None:
    """Of all its rows, up to 10^9 events; and what its text says of them holds."""
    for ratios in worst_ratios(told):
        assert f"\n{ratios_text(ratios)}\n" in CARD
        assert (ratios.ticks <= 10) == (ratios.events >= 10**6)
        assert ratios.seconds > 10
        assert ratios.milliseconds <= 6
