"""The state of quantiles: no split shows, bytes round-trip, and space keeps to its bound."""

import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.synopses import SynopsisError
from app.synopses.levels.quantile_batch import run_quantile_batch
from app.synopses.levels.quantile_layout import choose
from app.synopses.levels.quantiles import QuantileParameters, Quantiles
from tests.laws.streams import TIMES, VALUES

ROOT = Path(__file__).parents[2]


def fed(
    parameters: QuantileParameters,
    times: npt.ArrayLike,
    values: npt.ArrayLike,
    cuts: Iterable[int] = (),
) -> Quantiles:
    times, values = np.asarray(times, np.int64), np.asarray(values, np.float64)
    summary = Quantiles.create(parameters)
    ends = [0, *sorted(cuts), len(times)]
    for first, last in pairwise(ends):
        summary.insert(times[first:last], values[first:last])
    return summary


@pytest.mark.parametrize("name", TIMES)
def test_batch_boundaries_never_show(name: str) -> None:
    """Event by event, in random pieces, or all at once: the same bytes, sound and the same read."""
    rng = np.random.default_rng(5)
    size = 1_200
    times, values = TIMES[name](rng, size), VALUES["prices"](rng, size)
    for epsilon, span in ((0.5, 60), (0.5, 1_000), (0.5, 10**6), (0.1, 900)):
        parameters = QuantileParameters(epsilon, span)
        whole = fed(parameters, times, values)
        pieces = rng.integers(0, size, 40).tolist()
        assert fed(parameters, times, values, pieces).to_bytes() == whole.to_bytes()
        if epsilon == 0.5:
            assert fed(parameters, times, values, range(size)).to_bytes() == whole.to_bytes()
        again = Quantiles.from_bytes(whole.to_bytes())
        assert again.to_bytes() == whole.to_bytes()
        assert (again.now, again.parameters) == (whole.now, parameters)
        again.check()


STEPS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 5, 8, 40, 130]),  # events
        st.sampled_from([0, 1, 3, 60, 700]),  # pause before them
        st.sampled_from([0, 0, 1, 2]),  # gap between them
        st.sampled_from([0, 0, 0, 1, 50, 100, 101, 400]),  # advance after them, if any
    ),
    max_size=30,
)


@settings(derandomize=True, deadline=None, max_examples=250)
@given(STEPS, st.integers(0, 2**32), st.sampled_from([(0.5, 100), (0.5, 700), (0.2, 400)]))
def test_no_split_shows(
    steps: list[tuple[int, int, int, int]], seed: int, what: tuple[float, int]
) -> None:
    """Any bursts, pauses and advances; each burst at once, cut in two, or event by event."""
    rng = np.random.default_rng(seed)
    parameters = QuantileParameters(*what)
    at_once, in_two, singly = (Quantiles.create(parameters) for _ in range(3))
    time = 0
    for events, pause, gap, forward in steps:
        times = time + pause + np.arange(events) * gap
        values = rng.integers(0, 50, events) * 1.0
        time = int(times[-1])
        at_once.insert(times, values)
        cut = int(rng.integers(0, events + 1))
        in_two.insert(times[:cut], values[:cut])
        in_two.insert(times[cut:], values[cut:])
        for one, value in zip(times, values, strict=True):
            singly.insert([one], [value])
        if forward:
            time += forward
            for summary in (at_once, in_two, singly):
                summary.advance(time)
        assert at_once.to_bytes() == in_two.to_bytes() == singly.to_bytes()
    at_once.check()
    assert Quantiles.from_bytes(at_once.to_bytes()).to_bytes() == at_once.to_bytes()


@pytest.mark.parametrize("span", [40, 60, 100, 150, 300])
def test_no_split_shows_at_any_moment(span: int) -> None:
    """After each event: what took them one by one is what takes them all at once.

    Pauses fall on all sides of the ends of blocks, so that a block expires as a whole, in part, or
    just before its neighbour, while it waits, is kept, or is merged.
    """
    rng = np.random.default_rng(span)
    parameters = QuantileParameters(0.5, span)
    for chance in (0.0, 0.02, 0.05):
        gaps = np.where(rng.random(330) < chance, rng.integers(2, span, 330), 1)
        gaps[64::64] = rng.integers(1, span, 5)
        times, items = np.cumsum(gaps), rng.integers(0, 30, 330)
        singly = Quantiles.create(parameters)
        for end in range(330):
            singly.insert([times[end]], [items[end]])
            at_once = fed(parameters, times[: end + 1], items[: end + 1])
            assert singly.to_bytes() == at_once.to_bytes()


def test_advancing_is_what_time_alone_does() -> None:
    """Expiry by advancing first and by the next event's time ends in the same bytes."""
    rng = np.random.default_rng(2)
    parameters = QuantileParameters(0.5, 500)
    times = np.cumsum(rng.integers(0, 4, 2_000))
    values = rng.normal(0, 1, 2_000)
    for later in (0, 1, 100, 499, 500, 501, 5_000):
        plain, advanced = fed(parameters, times, values), fed(parameters, times, values)
        advanced.advance(int(times[-1]) + later + 1)
        for summary in (plain, advanced):
            summary.insert([times[-1] + later], [1.0])
        assert plain.to_bytes() == advanced.to_bytes()
    plain.advance(plain.now + 501)
    assert plain.stored_values() == 0
    assert len(plain.to_bytes()) < 40
    assert np.isnan(plain.query(500, 0.5)).all()


def test_groups_do_not_touch_each_other_and_queries_leave_no_trace() -> None:
    """A batch of many keys is what each would do alone."""
    rng = np.random.default_rng(3)
    parameters = QuantileParameters(0.3, 200)
    sizes = rng.integers(0, 300, 9)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    times = np.concatenate([np.cumsum(rng.integers(0, 3, n)) for n in sizes]).astype(np.int64)
    values = rng.normal(0, 1, len(times))
    queries = np.sort(rng.integers(0, 700, (9, 4)), axis=1)
    batch = run_quantile_batch(
        parameters,
        [None] * 9,
        starts,
        times,
        values,
        np.arange(10) * 4,
        queries.ravel(),
        [50, 200],
        [0.1, 0.9],
    )
    for g in range(9):
        mine = slice(starts[g], starts[g + 1])
        assert batch.states[g] == fed(parameters, times[mine], values[mine]).to_bytes()
        for q in range(4):
            now = int(queries[g, q])
            seen = times[mine] < now
            alone = fed(parameters, times[mine][seen], values[mine][seen])
            for k, span in enumerate((50, 200)):
                for j, quantile in enumerate((0.1, 0.9)):
                    figures = (batch.estimates, batch.lowers, batch.uppers, batch.rank_errors)
                    given_ = [part[4 * g + q, k, j] for part in figures]
                    assert np.array_equal(
                        given_, alone.query(span, quantile, now=now), equal_nan=True
                    )


def bound(parameters: QuantileParameters, events: int, total: int) -> int:
    """The space that quantile_layout.py states, and two extremes for each block cut by expiry."""
    levels, fineness, fresh = choose(parameters.epsilon)
    layers = max(0, events.bit_length() - 3)
    a_layer = levels * 2 ** (fineness - 1) + 2**fresh + 2 ** (levels - 1) + 1
    return 2 ** (levels + 2) + 8 + layers * a_layer + 4 * total.bit_length()


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01])
def test_space_keeps_to_the_bound(epsilon: float) -> None:
    """Windows of 10^2 to 10^6 events of a stream of 3 * 10^6: values stored, and bytes for them."""
    for span in (10**2, 10**4, 10**6):
        parameters = QuantileParameters(epsilon, span)
        summary = Quantiles.create(parameters)
        rng = np.random.default_rng(8)
        for start in range(0, 3 * span, span // 2):
            summary.insert(np.arange(start, start + span // 2), rng.normal(0, 1, span // 2))
            most = bound(parameters, span, start + span)
            assert summary.stored_values() <= most
            assert len(summary.to_bytes()) <= 18 * most + 60


@pytest.mark.parametrize(("events", "most"), [(1, 40), (5, 80), (50, 1_400)])
def test_a_small_key_is_small(events: int, most: int) -> None:
    """What a key stores follows its events, at any error."""
    day = 86_400_000
    times = 1_700_000_000_000 + np.arange(events) * 6_000
    for epsilon in (0.5, 0.01, 0.001):
        summary = fed(QuantileParameters(epsilon, day), times, times / 7)
        assert len(summary.to_bytes()) <= most


def sealed(data: bytes) -> bytes:
    return data[:4] + zlib.adler32(data[2:4] + data[8:]).to_bytes(4, "little") + data[8:]


def refused(data: bytes) -> None:
    with pytest.raises(SynopsisError):
        Quantiles.from_bytes(data)


def sample() -> bytes:
    rng = np.random.default_rng(6)
    return fed(
        QuantileParameters(0.5, 300), np.cumsum(rng.integers(0, 3, 700)), rng.normal(0, 1, 700)
    ).to_bytes()


def test_truncated_extended_and_changed_bytes_are_refused() -> None:
    """No prefix, nothing with something behind it, no changed byte is taken."""
    data = sample()
    assert sealed(data) == data
    for end in range(len(data)):
        refused(data[:end])
        refused(data[:end] + bytes([data[end] ^ 0x40]) + data[end + 1 :])
        if end >= 8:
            refused(sealed(data[:end]))
    for tail in (b"\0", b"\1", bytes(8), data):
        refused(data + tail)
        refused(sealed(data + tail))
    for foreign in (b"", b"{}", bytes(64), b"some text" * 9):
        with pytest.raises(SynopsisError, match="no synopsis"):
            Quantiles.from_bytes(foreign)
    with pytest.raises(SynopsisError, match="newer version: their format is 2, known is 1"):
        Quantiles.from_bytes(sealed(data[:2] + b"\2" + data[3:]))
    with pytest.raises(SynopsisError, match="of kind 1, not of kind 13"):
        Quantiles.from_bytes(sealed(data[:3] + b"\1" + data[4:]))


def _flip(data: bytearray, rng: np.random.Generator) -> bytearray:
    for _ in range(rng.integers(1, 5)):
        data[rng.integers(2, min(len(data), int(rng.choice([30, 10**6]))))] = rng.integers(0, 256)
    return data


def _cut(data: bytearray, rng: np.random.Generator) -> bytearray:
    at, length = rng.integers(8, len(data)), rng.integers(1, 20)
    del data[at : at + length]
    return data


def _stuff(data: bytearray, rng: np.random.Generator) -> bytearray:
    at = rng.integers(8, len(data))
    more = rng.choice([0, 1, 0x7F, 0x80, 0xFF], rng.integers(1, 20))
    data[at:at] = more.astype(np.uint8).tobytes()
    return data


def _noise(data: bytearray, rng: np.random.Generator) -> bytearray:
    return data[:16] + rng.bytes(rng.integers(0, 80))


@pytest.mark.parametrize("damage", [_flip, _cut, _stuff, _noise])
def test_hostile_bytes_are_refused_or_are_a_sound_summary(
    damage: Callable[[bytearray, np.random.Generator], bytearray],
) -> None:
    """With a right checksum, damage is refused by what is inside, or leaves a state that works."""
    data = sample()
    rng = np.random.default_rng(7)
    for _ in range(2_500):
        changed = sealed(bytes(damage(bytearray(data), rng)))
        try:
            summary = Quantiles.from_bytes(changed)
        except SynopsisError:
            continue
        summary.insert([], [])
        assert summary.to_bytes() == changed, "the decoder took what the encoder does not write"
        answer = summary.query(summary.parameters.span, 0.5)
        assert np.isnan(answer.lower) or not answer.lower > answer.upper
        if summary.now < 2**60:
            summary.insert([summary.now] * 20, np.arange(20))
            summary.advance(summary.now + 100)


def test_a_length_that_lies_allocates_nothing() -> None:
    """A few bytes that promise 2^40 events are refused for the bytes that are not there."""
    empty = Quantiles.create(QuantileParameters(0.5, 1_000)).to_bytes()
    span = b"\xe8\x07"
    at = empty.index(span, 16) + 2
    for total in (2**40, 2**40 + 1, 2**61, 2**61 + 1, 2**62 + 5):
        number = b""
        while total >= 0x80:
            number += bytes([total & 0x7F | 0x80])
            total >>= 7
        refused(sealed(empty[:at] + number + bytes([total]) + empty[at + 1 :]))


def test_what_cannot_be_taken_is_refused_by_name() -> None:
    """Times back or out of range, values without a rank, other parameters, other windows."""
    summary = fed(QuantileParameters(0.1, 100), [5, 5, 9], [1.0, -0.0, 2.0])
    before = summary.to_bytes()
    with pytest.raises(SynopsisError, match="time went back: 8 is earlier than 10"):
        summary.insert([10, 8], [1.0, 1.0])
    with pytest.raises(SynopsisError, match="out of range"):
        summary.insert([2**61], [1.0])
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(SynopsisError, match="has no rank: it must be finite"):
            summary.insert([10], [value])
    with pytest.raises(SynopsisError, match="a value for each time: 2, not"):
        summary.insert([10, 11], [1.0])
    with pytest.raises(SynopsisError, match="time went back"):
        summary.advance(9)
    with pytest.raises(SynopsisError, match="a query at 9 is earlier than 10"):
        summary.query(10, 0.5, now=9)
    with pytest.raises(SynopsisError, match="must be from 1 to 100"):
        summary.query(101, 0.5)
    for quantile in (-0.1, 1.1, float("nan")):
        with pytest.raises(SynopsisError, match="a number from 0 to 1"):
            summary.query(10, quantile)
    for epsilon in (0.0, 0.0009, 0.6, float("nan")):
        with pytest.raises(SynopsisError, match=r"from 0.001 to 0.5"):
            QuantileParameters(epsilon, 10)
    for span in (0, 2**53 + 1, 1.5, True):
        with pytest.raises(SynopsisError, match="whole number from 1"):
            QuantileParameters(0.1, span)  # type: ignore[arg-type]
    other = QuantileParameters(0.1, 99)
    with pytest.raises(SynopsisError, match="another epsilon"):
        run_quantile_batch(other, [before], [0, 0], [], [], [0, 0], [], [], [])
    assert summary.to_bytes() == before


def test_times_at_both_ends_of_the_range() -> None:
    """From -2^61 to 2^61 - 1, with the longest span."""
    summary = Quantiles.create(QuantileParameters(0.5, 2**53))
    times = [-(2**61)] * 30 + [-(2**61) + 2**53] * 30 + [2**61 - 1] * 100
    summary.insert(times, np.arange(160))
    summary.check()
    assert summary.now == 2**61
    assert summary.query(1, 0.0).lower == 60
    assert summary.query(2**53, 1.0).upper == 159
    early = fed(QuantileParameters(0.5, 2**53), times[:60], np.arange(60))
    assert early.query(2**53, 0.0).estimate == 30
    assert fed(QuantileParameters(0.5, 2**53), times[:60], np.arange(60), range(60)).to_bytes() == (
        early.to_bytes()
    )


def digest() -> int:
    rng = np.random.default_rng(9)
    seen = 0
    for name in ("uniform", "bursty", "all ties"):
        times, values = TIMES[name](rng, 500), VALUES["prices"](rng, 500)
        queries = times[60::90] + 1
        result = run_quantile_batch(
            QuantileParameters(0.5, 300),
            [None],
            [0, 500],
            times,
            values,
            [0, len(queries)],
            queries,
            [1, 40, 300],
            [0.1, 0.5, 1.0],
        )
        seen = zlib.crc32(result.states[0], seen)
        for part in (result.estimates, result.lowers, result.uppers, result.rank_errors):
            seen = zlib.crc32(part.tobytes(), seen)
    return seen


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states and answers to the last bit."""
    code = "from tests.laws.test_quantiles_state import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(done.stdout) == digest()
