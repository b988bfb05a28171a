"""Keys of several partitions are found: all where there are few, by a law where there are many."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from slidestat import TopologyDriver
from slidestat.declare.statistics import Count
from slidestat.declare.topology import Topology
from slidestat.engine.keys.shared_keys import SAMPLED_KEYS, KeySample, SharedKeys, identity
from slidestat.errors import SlidestatError
from slidestat.faust.source.key_watch import NOTED_KEYS, encode_note, read_note

NOON = 1_700_000_000_000
TOPOLOGY = Topology(name="t", source="s", span="1m", every="10s", statistics=(Count(),))


def sampled(keys: Iterable[str], size: int = SAMPLED_KEYS) -> KeySample:
    sample = KeySample(size)
    for key in keys:
        sample.add(key)
    return sample


def compared(*partitions: KeySample) -> SharedKeys:
    shared = SharedKeys(TOPOLOGY)
    for number, sample in enumerate(partitions):
        shared.look(number, sample)
    return shared


@pytest.mark.parametrize("keys", [1, 5, 999, 20_000])
def test_a_sample_is_the_same_whatever_the_order(keys: int) -> None:
    """It has all keys up to its size, and of more the same ones in every partition."""
    names = [f"key-{i}" for i in range(keys)]
    shuffled = Random(3).sample(names, len(names))
    one, other = sampled(names), sampled([*shuffled, *shuffled[: keys // 2]])
    assert len(one) == min(keys, SAMPLED_KEYS)
    assert one.identities() == other.identities()
    assert one.least(100) == other.least(100)
    # Those of least hash of a part are among those of the whole, where they are that of both.
    part = sampled(names[: keys // 2])
    whole = set(one.least(SAMPLED_KEYS))
    bound = len(whole.intersection(map(identity, names[: keys // 2])))
    assert set(part.least(bound)) == whole.intersection(map(identity, names[: keys // 2]))


@pytest.mark.parametrize("place", range(0, SAMPLED_KEYS, 97))
def test_one_key_of_two_partitions_is_found_among_few(place: int) -> None:
    """Up to the sample's size nothing escapes, whichever key it is and whoever had it first."""
    own = [f"own-{i}" for i in range(SAMPLED_KEYS)]
    other = [f"other-{i}" for i in range(SAMPLED_KEYS - 1)]
    with pytest.raises(SlidestatError, match=f"The key 'own-{place}' .* partitions 0 and 1"):
        compared(sampled(own), sampled([*other, own[place]]))
    compared(sampled(own), sampled(other))


@pytest.mark.parametrize("share", [0.01, 0.03])
def test_of_many_keys_a_share_is_found_as_the_law_says(share: float) -> None:
    """None of it is seen with probability (1 - f)^k: of 200 sources with small samples as many, to
    five standard deviations.
    """
    k, count, sources, missed = 64, 1_000, 200, 0
    for source in range(sources):
        shared = [f"{source}-both-{i}" for i in range(int(share * count))]
        parts = [
            sampled([*shared, *(f"{source}-{p}-{i}" for i in range(count - len(shared)))], size=k)
            for p in range(2)
        ]
        try:
            compared(*parts)
        except SlidestatError:
            continue
        missed += 1
    expected = (1 - share) ** k
    deviation = (expected * (1 - expected) / sources) ** 0.5
    assert abs(missed / sources - expected) <= 5 * deviation


def test_a_key_whose_state_is_gone_may_begin_elsewhere() -> None:
    """No window has events of both."""
    first, second = sampled(["a", "b"]), sampled(["c"])
    shared = compared(first, second)
    first.discard("a")
    second.add("a")
    shared.look(1, second)
    second.add("b")
    with pytest.raises(SlidestatError, match="'b'"):
        shared.look(1, second)


def test_keys_that_come_and_go_take_no_memory() -> None:
    """A sample holds no more than its size however many keys pass."""
    sample = KeySample(16)
    shared = SharedKeys(TOPOLOGY)
    for i in range(50_000):
        sample.add(f"session-{i}")
        sample.discard(f"session-{i - 8}")
        shared.look(0, sample)
    assert len(sample) <= 8
    assert len(shared._place) < 2_000
    assert len(sample._heap) < 2_000


def test_notes_of_other_workers() -> None:
    """What was noted is compared with what is held, now and as it comes; not with oneself."""
    there = sampled(f"k{i}" for i in range(300))
    note = encode_note({"key": there.least(NOTED_KEYS), "other": [identity("x")]})
    half = encode_note({"key": there.least(NOTED_KEYS)})
    assert len(read_note(note, "key")) == NOTED_KEYS // 2
    assert read_note(half, "key") == there.least(NOTED_KEYS)
    assert read_note(note, "other") == [identity("x")]
    assert len(half) < 4_096
    assert half.endswith("\0")  # C clients read on to one.
    noted = {identity(f"k{i}"): f"k{i}" for i in range(300)}
    key = noted[there.least(1)[0]]
    shared = compared(sampled(["a"]))
    shared.learn({0: there.least(256), 1: there.least(256)})
    late = sampled(["a", key])
    with pytest.raises(SlidestatError, match=f"'{key}' .* partitions 0 and 1"):
        shared.look(0, late)
    with pytest.raises(SlidestatError, match=f"'{key}' .* partitions 0 and 3"):
        compared(sampled([key])).learn({3: there.least(256)})


@pytest.mark.parametrize("note", ["", "somebody's", "slidestat-keys-1", "slidestat-keys-1 a:b c"])
def test_a_note_that_is_none_says_nothing(note: str) -> None:
    """Also what an administrator wrote there, and half of one."""
    assert read_note(note, "key") == []
    whole = encode_note({"key": [identity("a")]})
    assert read_note(whole[:-3], "key") == []
    assert read_note(whole[:-3] + "\u0431", "key") == []


def test_a_driver_stops_as_a_worker_does() -> None:
    """Before the emission, and again after a restart, as the states tell; not where a referee has
    the whole.
    """
    driver = TopologyDriver(TOPOLOGY, partitions=2)
    driver.send(*[{"key": "a", "time": NOON}] * 2, partition=0)
    driver.commit()
    with pytest.raises(
        SlidestatError, match=r"The key 'a' \(key\) is in partitions 0 and 1 of 's'"
    ):
        driver.send(*({"key": "a", "time": NOON + t} for t in (0, *[60_000] * 9)), partition=1)
    assert driver.emissions == []
    published = replace(TOPOLOGY, publish=("a",))
    driver = TopologyDriver(published, partitions=2)
    for partition in range(2):
        driver.send(*[{"key": "a", "time": NOON}] * 2, partition=partition)
    driver.send({"key": "b", "time": NOON}, partition=0)
    driver.commit()
    driver.restart()
    with pytest.raises(SlidestatError, match="The key 'b'"):
        driver.send(*({"key": "b", "time": NOON + t} for t in (0, *[60_000] * 9)), partition=1)
    whole = TopologyDriver(replace(TOPOLOGY, publish="partition"), partitions=2)
    for partition in range(2):
        whole.send(
            *({"key": "a", "time": NOON + t} for t in (0, *[60_000] * 9)), partition=partition
        )


def test_a_driver_moves_the_clock_of_all_partitions() -> None:
    """Its own events have one key in all of them."""
    driver = TopologyDriver(TOPOLOGY, partitions=3)
    driver.send({"key": "a", "time": NOON})
    driver.close_windows()
    driver.restart()
    driver.advance_to(NOON + 3_600_000)
    assert {emission.key for emission in driver.emissions} == {"a"}
