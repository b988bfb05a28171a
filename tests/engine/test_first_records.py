"""A worker stops where the first records of a topology are all refused."""

import pytest

from slidestat import Topology
from slidestat.engine.checkpoints.checkpoint import Counters
from slidestat.engine.intake.letters import Letter
from slidestat.errors import SlidestatError
from slidestat.faust.partitions.first_records import MOST_REFUSED, FirstRecords
from slidestat.schemas.dead_letter import Reason

TOPOLOGY = Topology(name="t", source="s", span="1h", every="1m")


def letters(first: int, count: int, reason: Reason = Reason.BAD_TIME) -> list[Letter]:
    return [Letter(first + i, None, b"{}", 0, reason, f"time {first + i}") for i in range(count)]


def test_it_stops_at_the_last_of_ten_thousand() -> None:
    """Over all partitions, those passed over aside; the first of the commonest reason is told."""
    first = FirstRecords(TOPOLOGY, is_watched=True)
    first.look(1, letters(40, 3, Reason.NOT_JSON), Counters(read=3, dead=3))
    first.look(0, letters(7, MOST_REFUSED - 4), Counters(read=10_000, dead=9_996, passed_over=4))
    with pytest.raises(SlidestatError) as raised:
        first.look(1, letters(43, 1), Counters(read=4, dead=4))
    assert "all of the first 10,000 records" in raised.value.message
    assert "(9,997 bad-time, 3 not-json)" in raised.value.message
    assert "'s', partition 0, offset 7: bad-time, time 7." in raised.value.message
    assert raised.value.advice.startswith("Check time_field, and time_format")
    assert raised.value.exit_code == 2  # A parent of several does not start it again.


@pytest.mark.parametrize("taken", [Counters(counted=1), Counters(late=1)])
def test_a_record_that_is_taken_in_ends_the_watch(taken: Counters) -> None:
    """Whatever is refused from then on, also in the same batch and in other partitions."""
    first = FirstRecords(TOPOLOGY, is_watched=True)
    first.look(0, letters(0, MOST_REFUSED - 1), Counters(dead=MOST_REFUSED - 1))
    first.look(1, letters(0, 1), taken)
    first.look(0, letters(0, MOST_REFUSED), Counters(dead=2 * MOST_REFUSED))


def test_nothing_is_watched_anyway() -> None:
    """Nor where a record was taken in before this start."""
    first = FirstRecords(TOPOLOGY, is_watched=False)
    first.look(0, letters(0, 2 * MOST_REFUSED), Counters(dead=2 * MOST_REFUSED))
