"""Laws that every synopsis of values keeps: batches do not show, bytes are read back or refused."""

import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.synopses import CountParameters, ExponentialHistogram, SynopsisError
from app.synopses.errors import WindowTooLargeError
from tests.laws.streams import TIMES
from tests.laws.valued import MAKERS, SIGNED, SPAN, fed

ROOT = Path(__file__).parents[2]

EVENTS = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 2 * SPAN)),
        st.one_of(
            st.sampled_from([0.0, -0.0, 1.0]),
            st.floats(-1e9, 1e9),
            st.integers(-1000, 1000).map(lambda cents: cents / 100),
        ),
    ),
    max_size=150,
)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("time_name", TIMES)
def test_single_inserts_end_in_the_bytes_of_one_batch(name: str, time_name: str) -> None:
    """Feeding one event at a time, or all, is the same for all named streams."""
    rng = np.random.default_rng(5)
    times = TIMES[time_name](rng, 300).tolist()
    for value_name in SIGNED:
        values = SIGNED[value_name](rng, 300).tolist()
        singles = fed(name, times, values, cuts=range(300))
        assert singles.to_bytes() == fed(name, times, values).to_bytes()
        singles.check()


@pytest.mark.parametrize("name", MAKERS)
@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    events=EVENTS,
    cuts=st.lists(st.integers(0, 150), max_size=6),
    looks=st.lists(st.integers(0, 6), max_size=3),
)
def test_no_split_and_no_stop_shows(
    name: str, events: list[tuple[int, float]], cuts: list[int], looks: list[int]
) -> None:
    """Any events, split anywhere, read back from bytes and moved on in between: the same bytes."""
    times = np.cumsum([gap for gap, _ in events], dtype=np.int64)
    values = np.array([value for _, value in events], np.float64)
    cuts = sorted(min(cut, len(events)) for cut in cuts)
    whole = fed(name, times, values)
    parts = MAKERS[name]()
    for i, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True)):
        parts.insert(times[start:end], values[start:end])
        parts = type(parts).from_bytes(parts.to_bytes())
        if i in looks and end < len(events):
            parts.advance(max(parts.now, int(times[end])))
        parts.check()
    assert parts.to_bytes() == whole.to_bytes()
    assert (parts.now, type(whole).from_bytes(parts.to_bytes()).now) == (whole.now, whole.now)


def sample(name: str) -> bytes:
    rng = np.random.default_rng(6)
    values = np.round(rng.normal(0, 30, 300), 2)
    return fed(name, np.cumsum(rng.integers(0, 9, 300)), values).to_bytes()


def sealed(data: bytes) -> bytes:
    """The same bytes with the checksum that they ought to have, made by zlib."""
    return data[:4] + zlib.adler32(data[2:4] + data[8:]).to_bytes(4, "little") + data[8:]


@pytest.mark.parametrize("name", MAKERS)
def test_every_truncation_extension_and_changed_byte_is_refused(name: str) -> None:
    """No prefix is a synopsis, nor is one with something behind it; no wrong byte goes unseen."""
    data = sample(name)
    read = type(MAKERS[name]()).from_bytes
    assert sealed(data) == data
    bad = [data[:end] for end in range(len(data))]
    bad += [sealed(data[:end]) for end in range(8, len(data))]
    bad += [data + tail for tail in (b"\0", b"\1", data)]
    bad += [sealed(data + tail) for tail in (b"\0", b"\1", b"\x80", data)]
    for change in (1, 0x80, 0xFF):
        bad += [data[:at] + bytes([data[at] ^ change]) + data[at + 1 :] for at in range(len(data))]
    histogram = ExponentialHistogram.create(CountParameters(0.1, 9)).to_bytes()
    for other in [*bad, b"", b"{}", bytes(64), histogram]:
        with pytest.raises(SynopsisError):
            read(other)


def _flip(data: bytearray, rng: np.random.Generator) -> bytearray:
    for _ in range(rng.integers(1, 5)):
        data[rng.integers(8, len(data))] = rng.integers(0, 256)
    return data


def _cut(data: bytearray, rng: np.random.Generator) -> bytearray:
    at, length = rng.integers(8, len(data)), rng.integers(1, 20)
    del data[at : at + length]
    return data


def _stuff(data: bytearray, rng: np.random.Generator) -> bytearray:
    at = rng.integers(8, len(data))
    stuffing = rng.choice([0, 1, 0x7F, 0x80, 0xFF], rng.integers(1, 20))
    data[at:at] = stuffing.astype(np.uint8).tobytes()
    return data


def _noise(data: bytearray, rng: np.random.Generator) -> bytearray:
    return data[:8] + rng.bytes(rng.integers(0, 80))


@pytest.mark.parametrize("damage", [_flip, _cut, _stuff, _noise])
@pytest.mark.parametrize("name", MAKERS)
def test_hostile_bytes_are_refused_or_are_a_sound_state(
    name: str, damage: Callable[[bytearray, np.random.Generator], bytearray]
) -> None:
    """With a right checksum, damage is refused by what is inside, or leaves a state that works."""
    data = sample(name)
    kind = type(MAKERS[name]())
    rng = np.random.default_rng(7)
    for _ in range(2_500):
        changed = sealed(bytes(damage(bytearray(data), rng)))
        try:
            synopsis = kind.from_bytes(changed)
        except SynopsisError:
            continue
        assert synopsis.to_bytes() == changed
        synopsis.insert([], [])
        assert synopsis.to_bytes() == changed, "the decoder took what the encoder does not write"
        later = min(synopsis.now + 10, 2**61 - 1)
        try:
            synopsis.insert(np.full(40, later), np.arange(40) / 7)
        except WindowTooLargeError:
            continue
        synopsis.advance(max(synopsis.now, later))


@pytest.mark.parametrize("name", MAKERS)
def test_what_cannot_be_taken_is_refused_and_changes_nothing(name: str) -> None:
    """Time that goes back or is out of range, values that are not finite, columns that differ."""
    synopsis = MAKERS[name]()
    synopsis.insert([50, 50], [1.0, 2.0])
    before = synopsis.to_bytes()
    for times, values, words in (
        ([49], [1.0], "49 is earlier than 50"),
        ([60, 61, 60], [1.0, 1.0, 1.0], "60 is earlier than 61"),
        ([60, 2**61], [1.0, 1.0], "out of range"),
        ([2**63 - 1], [1.0], "out of range"),
        ([-(2**63)], [1.0], "out of range"),
        ([60, 61], [1.0], "a value is needed for each time"),
        ([60.5], [1.0], "whole numbers"),
    ):
        with pytest.raises(SynopsisError, match=words):
            synopsis.insert(times, values)
    for now, words in ((50, "50 is earlier than 51"), (2**61 + 1, "range"), (-(2**63), "range")):
        with pytest.raises(SynopsisError, match=words):
            synopsis.advance(now)
    assert (synopsis.to_bytes(), synopsis.now) == (before, 51)
    synopsis.insert([2**61 - 1], [3.0])
    synopsis.advance(2**61)
    assert type(synopsis).from_bytes(synopsis.to_bytes()).now == 2**61


def digest() -> str:
    """The bytes and answers of all named streams and all kinds, as one."""
    seen = sha256()
    rng = np.random.default_rng(9)
    for time_name in TIMES:
        for value_name in SIGNED:
            times, values = TIMES[time_name](rng, 90), SIGNED[value_name](rng, 90)
            for name in MAKERS:
                synopsis = fed(name, times, values, [50])
                seen.update(synopsis.to_bytes())
                for n in (1, 20, SPAN):
                    for question in ("query", "mean", "deviation", "sample"):
                        if hasattr(synopsis, question):
                            seen.update(repr(getattr(synopsis, question)(n)).encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, and answers to the last bit."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "from tests.laws.test_synopses_of_values import digest; print(digest())",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == digest()
