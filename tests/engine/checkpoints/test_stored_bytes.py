"""What a partition stores beside its synopses comes back as it was, and nothing else is read."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat import Count, Quantiles, RankQuantiles, TopItems, Topology
from slidestat.declare.statistics import Statistic
from slidestat.engine.checkpoints.checkpoint import (
    Checkpoint,
    Counters,
    Loss,
    Recent,
    decode_checkpoint,
    decode_emitted,
    encode_checkpoint,
    stored_counters,
    stored_mark,
    stored_meaning,
    stored_slots,
)
from slidestat.engine.keys.key_state import (
    KeyState,
    decode_key_state,
    encode_key_state,
    encode_key_states,
    read_clock,
    read_clocks,
)
from slidestat.engine.keys.states import States
from slidestat.engine.partition_work import PartitionWork
from slidestat.engine.ticks.kernel_calls import KernelCalls
from slidestat.engine.ticks.queries import Queries
from slidestat.errors import SlidestatError
from tests.engine.cases import laws

MEANING = {"span": "1000 ms", "lateness": "0 ms"}
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**62)
STATES = st.builds(
    KeyState,
    INT64,
    INT64,
    INT64,
    INT64,
    st.lists(st.binary(max_size=20), max_size=4).map(tuple),
    st.integers(0, 2).flatmap(lambda n: st.binary(min_size=24 * n, max_size=24 * n)),
)
CHECKPOINTS = st.builds(
    Checkpoint,
    COUNT,
    INT64,
    st.builds(Counters, COUNT, COUNT, COUNT, COUNT, COUNT.filter(bool)),
    st.text(max_size=22),
    st.none() | st.builds(Loss, COUNT, INT64, INT64, st.booleans()),
    st.builds(Recent, INT64, st.lists(INT64).map(tuple), st.lists(INT64).map(tuple)),
) | st.builds(Checkpoint, COUNT, INT64, st.builds(Counters, COUNT, COUNT, COUNT, COUNT))


@laws
@given(STATES)
def test_a_key_state_comes_back(state: KeyState) -> None:
    """Whole, and its times by themselves."""
    stored = encode_key_state(*state)
    assert decode_key_state(stored) == state
    assert read_clock(stored) == (state.watermark, state.offset, state.last_time)
    assert read_clocks([stored, stored]).tolist() == [list(read_clock(stored))] * 2


@laws
@given(st.lists(STATES, max_size=5), st.integers(0, 4))
def test_many_key_states_are_those_of_one_by_one(states: list[KeyState], count: int) -> None:
    """Whatever the lengths of their synopses, and where there is none."""
    own = [(*it.synopses, b"", b"", b"", b"")[:count] for it in states]
    clocks = np.array([it[:4] for it in states], np.int64).reshape(-1, 4)
    columns = [[synopses[place] for synopses in own] for place in range(count)]
    assert encode_key_states(clocks, columns) == [
        encode_key_state(*it[:4], synopses) for it, synopses in zip(states, own, strict=True)
    ]


@laws
@given(STATES, st.binary(min_size=1, max_size=5))
def test_a_key_state_of_another_length_is_damaged(state: KeyState, more: bytes) -> None:
    """Every prefix of a state, and a state with something behind it, is refused with advice."""
    stored = encode_key_state(*state)
    for damaged in [stored + more, *(stored[:end] for end in range(len(stored)))]:
        with pytest.raises(SlidestatError, match="damaged") as caught:
            decode_key_state(damaged)
        assert caught.value.advice
    for end in range(36):
        with pytest.raises(SlidestatError, match="damaged"):
            read_clock(stored[:end])
        with pytest.raises(SlidestatError):
            read_clocks([stored, stored[:end]])


def test_a_key_state_of_a_newer_version_is_not_read() -> None:
    """Neither whole nor in a scan: its numbers may stand elsewhere."""
    stored = bytearray(
        encode_key_state(1, 2, 3, 4, [b"synopsis"], b"q" * 24, b"alerts", b"written")
    )
    stored[2] += 1
    with pytest.raises(SlidestatError, match="version 5") as caught:
        decode_key_state(bytes(stored))
    assert "the version that wrote it" in caught.value.advice
    with pytest.raises(SlidestatError, match="version 5"):
        read_clock(bytes(stored))
    with pytest.raises(SlidestatError, match="version"):
        read_clocks([bytes(stored)])


def test_a_key_state_of_a_version_that_never_was_is_damaged() -> None:
    """A block of zeros behind the magic is no state of version 1."""
    stored = b"sk" + bytes(34)
    for read in (decode_key_state, read_clock, lambda it: read_clocks([it])):
        with pytest.raises(SlidestatError, match="damaged"):
            read(stored)


def test_a_quota_in_a_key_state_has_whole_entries() -> None:
    """Of 24 bytes each, and one at least: anything else is damaged."""
    for used in (b"q", b"q" * 23, b"q" * 25):
        with pytest.raises(SlidestatError, match="damaged"):
            decode_key_state(encode_key_state(1, 2, 3, 4, [b"synopsis"], used))


@settings(laws, max_examples=40)
@given(CHECKPOINTS)
def test_a_checkpoint_comes_back(checkpoint: Checkpoint) -> None:
    """As it was; a partition never seen begins at its first record."""
    assert decode_checkpoint(encode_checkpoint(checkpoint, MEANING), MEANING) == checkpoint
    assert decode_checkpoint(None, MEANING) == Checkpoint(0)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"x",
        encode_checkpoint(Checkpoint(7), MEANING)[:-1],
        b"\x93\x01\x02\x03",
        # More lists in one another than Python's stack has.
        b"\x97\x04\x92\x07\x08\x80\xc0\x90\xc0" + b"\x91" * 5_000 + b"\xc0",
    ],
)
def test_a_damaged_checkpoint_is_refused(stored: bytes) -> None:
    """With advice, not with what the decoder says; whichever part of it is asked for."""
    for read in (
        lambda it: decode_checkpoint(it, MEANING),
        lambda it: decode_emitted(it, Checkpoint(0)),
        stored_slots,
        stored_mark,
    ):
        with pytest.raises(SlidestatError, match="damaged") as caught:
            read(stored)
        assert caught.value.advice
    assert stored_counters(stored) is None
    assert stored_meaning(stored) in ({}, MEANING)


def test_a_checkpoint_of_a_newer_version_is_not_read() -> None:
    """The advice is to run the version that wrote it."""
    stored = bytearray(encode_checkpoint(Checkpoint(7), MEANING))
    stored[1] = 5
    with pytest.raises(SlidestatError, match="version 5"):
        decode_checkpoint(bytes(stored), MEANING)


def test_a_checkpoint_of_another_topology_is_not_read() -> None:
    """The error names what differs, and what it was."""
    stored = encode_checkpoint(Checkpoint(7), MEANING)
    with pytest.raises(SlidestatError, match=r"lateness was 0 ms, and is 5 ms") as caught:
        decode_checkpoint(stored, {**MEANING, "lateness": "5 ms"})
    assert "new name" in caught.value.advice


def test_stored_quantiles_by_rank_are_refused_with_how_to_go_on() -> None:
    """What `quantile` was before 0.1.0 goes on under its new kind, with the name that it had."""
    by_value = Topology(name="t", source="s", span="1h", every="1m", statistics=[Quantiles()])
    by_rank = replace(by_value, statistics=[RankQuantiles(name="quantile")])
    stored = encode_checkpoint(Checkpoint(7), by_rank.state_label)
    assert "quantiles, epsilon 0.01" in by_rank.state_meaning["statistics"]
    assert decode_checkpoint(stored, by_rank.state_meaning) == Checkpoint(7)
    with pytest.raises(SlidestatError, match="another topology") as refused:
        decode_checkpoint(stored, by_value.state_meaning)
    assert 'kind = "rank_quantile", name = "quantile"' in refused.value.advice
    # Where it is one of both alone that was or is by rank, its kind is not what has changed.
    counts = replace(by_value, statistics=[Count()])
    for was, now in ((by_rank, counts), (counts, by_value)):
        with pytest.raises(SlidestatError, match="statistics are changed") as refused:
            decode_checkpoint(encode_checkpoint(Checkpoint(7), was.state_label), now.state_meaning)
        assert "rank_quantile" not in refused.value.advice
        assert "--change-statistics" in refused.value.advice


def test_stored_items_in_blocks_are_refused_with_how_to_go_on() -> None:
    """What `top` kept before 0.1.0 is not what it keeps: under a new name it begins anew."""
    top = Topology(name="t", source="s", span="1h", every="1m", statistics=[TopItems(field="item")])
    meaning = top.state_meaning
    assert "frequent items in pairs, epsilon 0.01" in meaning["statistics"]
    before = meaning["statistics"].replace(" in pairs", "")
    stored = encode_checkpoint(Checkpoint(7), {**top.state_label, "statistics": before})
    with pytest.raises(SlidestatError, match="another topology") as refused:
        decode_checkpoint(stored, meaning)
    assert "new name" in refused.value.advice
    assert "change it back" not in refused.value.advice


@pytest.mark.parametrize("statistic", [Count(), Quantiles()])
@pytest.mark.parametrize(
    ("damage", "advice"), [({2: 99}, "update this one"), ({-1: 255}, "Delete the worker's data")]
)
def test_a_stored_synopsis_that_cannot_be_read_says_what_helps(
    statistic: Statistic, damage: dict[int, int], advice: str
) -> None:
    """To delete the data folder would bring the bytes of a newer version back; a synopsis' place in
    a batch says nothing to a user.
    """
    topology = Topology(name="t", source="s", span="1h", every="1m", statistics=(statistic,))
    (runner,) = topology.runners
    synopsis = bytearray(topology.empty_synopsis(runner))
    for place, byte in damage.items():
        synopsis[place] = byte
    calls = KernelCalls(topology, PartitionWork())
    state = KeyState(0, 0, 0, 0, (bytes(synopsis),))
    with pytest.raises(SlidestatError, match="stored state is not that of") as refused:
        calls.ask(States.of([state], 1), Queries(np.zeros(1, np.int64), np.array([60_000])))
    assert advice in refused.value.advice
    assert "group" not in refused.value.message
