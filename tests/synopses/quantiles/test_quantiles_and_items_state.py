"""States of quantiles and frequent items: no split shows, bytes round-trip, damage is refused."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses import SynopsisError
from tests.synopses.hostile import DAMAGES, damaged, sealed_outside
from tests.synopses.leveled import SUBJECTS, Subject, fed
from tests.synopses.streams import TIMES

EACH = pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)


@EACH
@pytest.mark.parametrize("name", TIMES)
def test_batch_boundaries_never_show(name: str, subject: Subject) -> None:
    """Event by event, in random pieces, or all at once: the same bytes, sound and the same read."""
    rng = np.random.default_rng(5)
    size = 1_200
    times, payload = TIMES[name](rng, size), subject.draw(rng, size)
    for epsilon, span in ((0.5, 60), (0.5, 1_000), (0.5, 10**6), (0.1, 900)):
        whole = fed(subject.create(epsilon, span), times, payload)
        pieces = rng.integers(0, size, 40).tolist()
        assert fed(subject.create(epsilon, span), times, payload, pieces).to_bytes() == (
            whole.to_bytes()
        )
        again = subject.summary.from_bytes(whole.to_bytes())
        assert again.to_bytes() == whole.to_bytes()
        assert (again.now, again.parameters) == (whole.now, subject.parameters(epsilon, span))
        again.check()
    one_by_one = fed(subject.create(0.5, 1_000), times, payload, range(size))
    assert one_by_one.to_bytes() == fed(subject.create(0.5, 1_000), times, payload).to_bytes()


STEPS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 5, 8, 40, 130]),  # events
        st.sampled_from([0, 1, 3, 60, 700]),  # pause before them
        st.sampled_from([0, 0, 1, 2]),  # gap between them
        st.sampled_from([0, 0, 0, 1, 50, 100, 101, 400]),  # advance after them, if any
    ),
    max_size=30,
)


@EACH
@settings(derandomize=True, deadline=None, max_examples=150)
@given(STEPS, st.integers(0, 2**32), st.sampled_from([(0.5, 100), (0.5, 700), (0.2, 400)]))
def test_no_split_shows(
    subject: Subject, steps: list[tuple[int, int, int, int]], seed: int, what: tuple[float, int]
) -> None:
    """Any bursts, pauses and advances; each burst at once, cut in two, or event by event."""
    rng = np.random.default_rng(seed)
    at_once, in_two, singly = (subject.create(*what) for _ in range(3))
    time = 0
    for events, pause, gap, forward in steps:
        times = time + pause + np.arange(events) * gap
        payload = rng.integers(0, 50, events)
        time = int(times[-1])
        at_once.insert(times, payload)
        cut = int(rng.integers(0, events + 1))
        in_two.insert(times[:cut], payload[:cut])
        in_two.insert(times[cut:], payload[cut:])
        for one, number in zip(times, payload, strict=True):
            singly.insert([one], [number])
        if forward:
            time += forward
            for summary in (at_once, in_two, singly):
                summary.advance(time)
        assert at_once.to_bytes() == in_two.to_bytes() == singly.to_bytes()
    at_once.check()
    assert subject.summary.from_bytes(at_once.to_bytes()).to_bytes() == at_once.to_bytes()


@EACH
@pytest.mark.parametrize("span", [40, 100, 300])
def test_no_split_shows_at_any_moment(span: int, subject: Subject) -> None:
    """After each event: what took them one by one is what takes them all at once.

    Pauses fall on all sides of the ends of blocks, so that a block expires as a whole, in part, or
    just before its neighbour, while it waits, is kept, or is merged.
    """
    rng = np.random.default_rng(span)
    for chance in (0.0, 0.02, 0.05):
        gaps = np.where(rng.random(330) < chance, rng.integers(2, span, 330), 1)
        gaps[64::64] = rng.integers(1, span, 5)
        times, payload = np.cumsum(gaps), rng.integers(0, 30, 330)
        singly = subject.create(0.5, span)
        for end in range(330):
            singly.insert([times[end]], [payload[end]])
            at_once = fed(subject.create(0.5, span), times[: end + 1], payload[: end + 1])
            assert singly.to_bytes() == at_once.to_bytes()


@EACH
def test_advancing_is_what_time_alone_does(subject: Subject) -> None:
    """Expiry by advancing first and by the next event's time ends in the same bytes."""
    rng = np.random.default_rng(2)
    times = np.cumsum(rng.integers(0, 4, 2_000))
    payload = rng.integers(0, 90, 2_000)
    for later in (0, 1, 100, 499, 500, 501, 5_000):
        plain, advanced = (fed(subject.create(0.5, 500), times, payload) for _ in range(2))
        advanced.advance(int(times[-1]) + later + 1)
        for summary in (plain, advanced):
            summary.insert([times[-1] + later], [1])
        assert plain.to_bytes() == advanced.to_bytes()
    plain.advance(plain.now + 501)
    assert plain.stored_entries() == 0
    assert len(plain.to_bytes()) < 40


@EACH
@pytest.mark.parametrize(("events", "most"), [(1, 40), (5, 70), (50, 330)])
def test_a_small_key_is_small(events: int, most: int, subject: Subject) -> None:
    """What a key stores follows its events, at any error: prices, small items, seconds apart."""
    times = 1_700_000_000_000 + np.arange(events) * 6_000
    payload = subject.draw(np.random.default_rng(1), events)
    for epsilon in (0.5, 0.01, 0.001):
        summary = fed(subject.create(epsilon, 86_400_000), times, payload)
        assert len(summary.to_bytes()) <= most


def refused(subject: Subject, data: bytes) -> None:
    """What is no state raises the one error there is."""
    with pytest.raises(SynopsisError):
        subject.summary.from_bytes(data)


def sample(subject: Subject) -> bytes:
    """A state with tail, blocks of all sorts, and expired events."""
    rng = np.random.default_rng(6)
    times = np.cumsum(rng.integers(0, 3, 700))
    return bytes(fed(subject.create(0.5, 300), times, rng.integers(0, 90, 700)).to_bytes())


@EACH
def test_truncated_extended_and_changed_bytes_are_refused(subject: Subject) -> None:
    """No prefix, nothing with something behind it, no changed byte is taken."""
    data = sample(subject)
    assert sealed_outside(data) == data
    for end in range(len(data)):
        refused(subject, data[:end])
        refused(subject, data[:end] + bytes([data[end] ^ 0x40]) + data[end + 1 :])
        if end >= 8:
            refused(subject, sealed_outside(data[:end]))
    for tail in (b"\0", b"\1", bytes(8), data):
        refused(subject, data + tail)
        refused(subject, sealed_outside(data + tail))
    for foreign in (b"", b"{}", bytes(64), b"some text" * 9):
        with pytest.raises(SynopsisError, match="no synopsis"):
            subject.summary.from_bytes(foreign)
    with pytest.raises(SynopsisError, match="newer version: their format is 2, known is 1"):
        subject.summary.from_bytes(sealed_outside(data[:2] + b"\2" + data[3:]))
    with pytest.raises(SynopsisError, match=f"of kind 1, not of kind {subject.kind}"):
        subject.summary.from_bytes(sealed_outside(data[:3] + b"\1" + data[4:]))


@EACH
@pytest.mark.parametrize("damage", DAMAGES)
def test_hostile_bytes_are_refused_or_are_a_sound_summary(damage: str, subject: Subject) -> None:
    """With a right checksum, damage is refused by what is inside, or leaves a state that works."""
    for changed in damaged(sample(subject), damage, 2_000):
        try:
            summary = subject.summary.from_bytes(changed)
        except SynopsisError:
            continue
        summary.insert([], [])
        assert summary.to_bytes() == changed, "the decoder took what the encoder does not write"
        subject.ask(summary, summary.parameters.span)
        if summary.now < 2**60:
            summary.insert([summary.now] * 20, np.arange(20))
            summary.advance(summary.now + 100)


@EACH
def test_a_length_that_lies_allocates_nothing(subject: Subject) -> None:
    """A few bytes that promise 2^40 events are refused for the bytes that are not there."""
    empty = subject.create(0.5, 1_000).to_bytes()
    at = empty.index(b"\xe8\x07", 9) + 2
    for total in (2**40, 2**40 + 1, 2**61, 2**61 + 1, 2**62 + 5):
        number = b""
        while total >= 0x80:
            number += bytes([total & 0x7F | 0x80])
            total >>= 7
        number += bytes([total])
        data = empty[:at] + number + empty[at + 1 :]
        # Events that are no samples, or were dropped, need no bytes: lie about samples, or marks.
        if subject.kind in (22, 28):
            data = data[:-1] + number
        refused(subject, sealed_outside(data))


@EACH
def test_what_cannot_be_taken_is_refused_by_name(subject: Subject) -> None:
    """Times back or out of range, windows too long, parameters that are none or others."""
    summary = fed(subject.create(0.1, 100), [5, 5, 9], [1, 0, 2])
    before = summary.to_bytes()
    with pytest.raises(SynopsisError, match="time went back: 8 is earlier than 10"):
        summary.insert([10, 8], [1, 1])
    with pytest.raises(SynopsisError, match="out of range"):
        summary.insert([2**61], [1])
    with pytest.raises(SynopsisError, match=r"(a value|an item) is needed for each time: 2, not"):
        summary.insert([10, 11], [1])
    with pytest.raises(SynopsisError, match="time went back"):
        summary.advance(9)
    with pytest.raises(SynopsisError, match="a query at 9 is earlier than 10"):
        summary.query(10, 1, now=9)
    with pytest.raises(SynopsisError, match="must be from 1 to 100"):
        summary.query(101, 1)
    for epsilon in (0.0, 0.0009, 0.6, float("nan")):
        with pytest.raises(SynopsisError, match=r"from 0.001 to 0.5"):
            subject.parameters(epsilon, 10)
    for span in (0, 2**53 + 1, 1.5, True):
        with pytest.raises(SynopsisError, match="whole number from 1"):
            subject.parameters(0.1, span)  # type: ignore[arg-type]
    assert summary.to_bytes() == before


@EACH
def test_times_at_both_ends_of_the_range(subject: Subject) -> None:
    """From -2^61 to 2^61 - 1, with the longest span."""
    times = [-(2**61)] * 30 + [-(2**61) + 2**53] * 30 + [2**61 - 1] * 100
    early = fed(subject.create(0.5, 2**53), times[:60], np.arange(60))
    assert fed(subject.create(0.5, 2**53), times[:60], np.arange(60), range(60)).to_bytes() == (
        early.to_bytes()
    )
    whole = fed(subject.create(0.5, 2**53), times, np.arange(160))
    whole.check()
    assert whole.now == 2**61
    if subject.kind in (13, 21):
        assert whole.query(2**53, 0.0).lower <= 60 <= whole.query(2**53, 0.0).upper
    else:
        assert whole.query(2**53, 59).lower == 0
        assert whole.query(2**53, 60).upper >= 1
