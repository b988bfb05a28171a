"""What a partition stores beside its synopses comes back as it was, and nothing else is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SlidestatError
from app.streaming.checkpoints import (
    Checkpoint,
    Counters,
    checkpoint_for,
    decode_checkpoints,
    encode_checkpoints,
)
from app.streaming.key_state import (
    KeyState,
    decode_key_state,
    encode_key_state,
    last_time_and_watermark,
)
from tests.streaming.cases import laws

INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**62)
STATES = st.builds(
    KeyState, INT64, INT64, INT64, st.lists(st.binary(max_size=20), max_size=4).map(tuple)
)
CHECKPOINTS = st.lists(
    st.builds(Checkpoint, COUNT, INT64, st.builds(Counters, COUNT, COUNT, COUNT, COUNT)), max_size=4
)


@laws
@given(STATES)
def test_a_key_state_comes_back(state: KeyState) -> None:
    """Whole, and its times by themselves."""
    stored = encode_key_state(*state)
    assert decode_key_state(stored) == state
    assert last_time_and_watermark(stored) == (state.last_time, state.watermark)


@laws
@given(STATES, st.binary(min_size=1, max_size=5))
def test_a_key_state_of_another_length_is_damaged(state: KeyState, more: bytes) -> None:
    """Every prefix of a state, and a state with something behind it, is refused with advice."""
    stored = encode_key_state(*state)
    for damaged in [stored + more, *(stored[:end] for end in range(len(stored)))]:
        with pytest.raises(SlidestatError, match="damaged") as caught:
            decode_key_state(damaged)
        assert caught.value.advice
    for end in range(28):
        with pytest.raises(SlidestatError, match="damaged"):
            last_time_and_watermark(stored[:end])


def test_a_key_state_of_a_newer_version_is_not_read() -> None:
    """Neither whole nor in a scan: its numbers may stand elsewhere."""
    stored = bytearray(encode_key_state(1, 2, 3, [b"synopsis"]))
    stored[2] += 1
    with pytest.raises(SlidestatError, match="version 2") as caught:
        decode_key_state(bytes(stored))
    assert "the version that wrote it" in caught.value.advice
    with pytest.raises(SlidestatError, match="version 2"):
        last_time_and_watermark(bytes(stored))


@laws
@given(CHECKPOINTS)
def test_checkpoints_come_back(checkpoints: list[Checkpoint]) -> None:
    """All of them, in order; a partition never seen has none."""
    assert decode_checkpoints(encode_checkpoints(checkpoints)) == checkpoints
    assert decode_checkpoints(None) == []


@pytest.mark.parametrize("stored", [b"", b"x", encode_checkpoints([])[:-1], b"\x93\x01\x02\x03"])
def test_damaged_checkpoints_are_refused(stored: bytes) -> None:
    """With advice, not with what the decoder says."""
    with pytest.raises(SlidestatError, match="damaged") as caught:
        decode_checkpoints(stored)
    assert caught.value.advice


def test_checkpoints_of_a_newer_version_are_not_read() -> None:
    """The advice is to run the version that wrote them."""
    stored = bytearray(encode_checkpoints([]))
    stored[1] += 1
    with pytest.raises(SlidestatError, match="version 2"):
        decode_checkpoints(bytes(stored))


def test_reading_goes_on_from_the_newest_checkpoint_that_is_not_ahead() -> None:
    """From the oldest one when reading starts before them all; from nothing when there is none."""
    first, second = Checkpoint(10, 100), Checkpoint(20, 200)
    for offset, expected in [(0, first), (10, first), (19, first), (20, second), (99, second)]:
        assert checkpoint_for([first, second], offset) == expected
    assert checkpoint_for([], 5) == Checkpoint(0)
