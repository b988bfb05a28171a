"""Which worker gets which partitions, over groups that workers join and leave in any order.

The assignor is the worker's own, with Faust's standbys; nothing is asked of a broker.
"""

from collections import Counter

import faust
import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import (
    ClientAssignment,
    ClientMetadata,
    CopartitionedAssignment,
)
from hypothesis import given, settings, strategies as st

from slidestat.faust.worker.app import BalancedAssignor, shared_out

SOURCE, CHANGELOG = "events", "t-state-changelog"
NAMES = st.text("abcdefgh0123-", min_size=1, max_size=6)

APP = faust.App("t", broker="kafka://nowhere", store="memory://", web_enabled=False)
APP.Table("t-state")


class Group:
    """Workers of one topology, each of which remembers what it was given."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.cluster = ClusterMetadata()
        # As a broker's answer fills it.
        self.cluster._partitions = {
            topic: dict.fromkeys(range(partitions)) for topic in (SOURCE, CHANGELOG)
        }
        self.assignor = BalancedAssignor(APP, replicas=1)
        self.given: dict[str, ClientAssignment] = {}

    def rebalance(self, members: list[str]) -> dict[str, set[int]]:
        """The partitions of each of these members, who joined in this order."""
        joined = {
            member: ConsumerProtocolMemberMetadata(
                4, [SOURCE, CHANGELOG], self._metadata(member).dumps()
            )
            for member in members
        }
        found = self.assignor.assign(self.cluster, joined)
        self.given = {
            member: ClientMetadata.loads(self.assignor._decompress(it.user_data)).assignment
            for member, it in found.items()
        }
        return self.actives()

    def actives(self) -> dict[str, set[int]]:
        return {member: set(it.actives[SOURCE]) for member, it in self.given.items()}

    def _metadata(self, member: str) -> ClientMetadata:
        # A new worker, or one that was started again, has nothing.
        assignment = self.given.get(member, ClientAssignment(actives={}, standbys={}))
        return ClientMetadata(
            assignment=assignment, url=f"http://{member}", changelog_distribution={}
        )

    def check(self) -> None:
        """Each partition is at one worker, and a standby of it at another, if there are two; no two
        workers differ by more than one, so that with enough partitions nobody is idle.
        """
        actives = self.actives()
        assert sorted(p for own in actives.values() for p in own) == list(range(self.partitions))
        counts = [len(own) for own in actives.values()]
        assert max(counts) - min(counts) <= 1
        standbys: Counter[int] = Counter()
        for member, it in self.given.items():
            assert set(it.actives[CHANGELOG]) == actives[member]
            assert actives[member].isdisjoint(it.standbys[CHANGELOG])
            standbys.update(it.standbys[CHANGELOG])
        replicas = 1 if len(actives) > 1 else 0
        assert all(standbys[partition] == replicas for partition in range(self.partitions))


@settings(deadline=None)
@given(st.integers(1, 17), st.lists(NAMES, min_size=1, max_size=9, unique=True), st.data())
def test_partitions_are_shared_out_evenly(
    partitions: int, names: list[str], data: st.DataObject
) -> None:
    """However workers are called, and in whatever order they join, leave and are started again:
    partitions are shared out evenly, and once more leaves all where it is.
    """
    group = Group(partitions)
    members: list[str] = []
    for _ in range(data.draw(st.integers(1, 8))):
        name = data.draw(st.sampled_from(names))
        if name not in members:
            members.append(name)
        elif len(members) > 1 and data.draw(st.booleans()):
            members.remove(name)
        else:
            group.given.pop(name, None)
        before = group.rebalance(data.draw(st.permutations(members)))
        group.check()
        assert group.rebalance(data.draw(st.permutations(members))) == before


@settings(deadline=None)
@given(st.integers(1, 17), st.lists(NAMES, min_size=2, max_size=9, unique=True))
def test_no_more_moves_than_must(partitions: int, names: list[str]) -> None:
    """A worker that joins is given its share, and nothing else moves; when it leaves, its
    partitions go to others, and nothing else moves.
    """
    group = Group(partitions)
    for joined in range(1, len(names) + 1):
        before = group.actives()
        after = group.rebalance(names[:joined])
        moved = sum(len(own - after[member]) for member, own in before.items())
        assert moved == (len(after[names[joined - 1]]) if before else 0)
    for left in names[:-1]:
        before = group.actives()
        after = group.rebalance([member for member in before if member != left])
        assert all(before[member] <= own for member, own in after.items())


def test_partitions_are_shared_out_while_no_topic_is_known() -> None:
    """A leader whose first request for metadata is broken off does not leave its group idle."""
    group = Group(APP.conf.topic_partitions)
    group.rebalance(["a", "b"])
    before = group.actives()
    group.cluster._partitions = {}
    assert group.rebalance(["a", "b"]) == before
    group.check()


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_a_third_worker_of_four_partitions_has_one(order: str) -> None:
    """Two hold two each when it comes. With Faust's assignor it stayed idle."""
    group = Group(4)
    for joined in (1, 2, 3):
        group.rebalance(list(order[:joined]))
    assert sorted(len(own) for own in group.actives().values()) == [1, 1, 2]
    group.check()


def test_what_is_given_up_goes_to_its_standby() -> None:
    """Also where several could have it; a partition that two claim stays with one of them."""
    held = {
        "a": CopartitionedAssignment({0, 1, 2}, {3}),
        "b": CopartitionedAssignment({3, 4, 5}, {0, 1, 2}),
        "c": CopartitionedAssignment(set(), {1, 5}),
    }
    assert shared_out(6, held) == {"a": {0, 2}, "b": {3, 4}, "c": {1, 5}}
    twice = {"a": CopartitionedAssignment({0, 1}), "b": CopartitionedAssignment({1, 2})}
    assert shared_out(4, twice) == {"a": {0, 1}, "b": {2, 3}}
