"""The notes by which sources are known again that were moved before."""

from typing import Any

import pytest

from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.kafka.groups import Committed
from slidestat.repartition.moved_from import MovedFrom, TopicsNow, check_notes

TOPOLOGY = Topology(name="t", sources=["eu", "us-*"], span="1h", every="1m", lateness="5s")
BEFORE = {("eu", 0): 5, ("eu", 1): 0, ("us-1", 0): 7}


def note(source: str, **changes: Any) -> MovedFrom:
    own = {"source_id": f"id of {source}", "topic_id": "own", "partitions": 2, "key": "key"}
    return MovedFrom(source=source, **{**own, **changes})


def check(*sources: str, before: dict[tuple[str, int], int] = BEFORE, **changes: Any) -> bool:
    """Check the sources that there are now, of which there are notes of before."""
    notes = {source: note(source, **changes) for source in sources}
    now = TopicsNow(notes, dict.fromkeys(sources, 2), "own", 2)
    committed = {
        place: Committed(offset, note(place[0]).text()) for place, offset in before.items()
    }
    return check_notes(TOPOLOGY, now, committed, is_empty=False)


def test_sources_are_added_and_come_back() -> None:
    """One of a pattern that no broker lists for a moment is no reason to stop."""
    assert check("eu", "us-1")
    assert check("eu", "us-1", "us-2")
    assert check("eu")


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        (["eu"], {"before": {("eu", 0): 1, ("ap", 0): 1}}, "records of 'ap', which is no source"),
        (["eu", "us-1"], {"key": "who"}, "by the key key on 2 partitions; now .* by who on 2"),
        (["eu", "us-1"], {"source_id": "another"}, "(id another)"),
        (["us-2"], {}, "knows of none of 'eu, us-.'"),
        (["eu", "us-1"], {"before": {("eu", 1): 3}}, "forgotten up to where partitions 0 of 'eu'"),
    ],
)
def test_others_are_refused(sources: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(SlidestatError, match=message):
        check(*sources, **options)
