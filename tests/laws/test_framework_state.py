"""Laws of the state of every synopsis of the framework: batches do not show, bytes come back."""

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
from tests.laws.celled import MAKERS, SPAN, column, fed
from tests.laws.streams import TIMES

ROOT = Path(__file__).parents[2]
GAPS = st.lists(
    st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 2 * SPAN)), min_size=0, max_size=150
)


@pytest.mark.parametrize("name", MAKERS)
def test_single_inserts_end_in_the_bytes_of_one_batch(name: str) -> None:
    """Feeding one event at a time, or all, is the same for all named streams."""
    rng = np.random.default_rng(5)
    for i, time_name in enumerate(TIMES):
        times = TIMES[time_name](rng, 300).tolist()
        for of in (i, i + 1, i + 3):
            what = column(name, rng, 300, of)
            singles = fed(name, times, what, cuts=range(300))
            assert singles.to_bytes() == fed(name, times, what).to_bytes()
            singles.check()


@pytest.mark.parametrize("name", MAKERS)
@settings(derandomize=True, deadline=None, max_examples=120)
@given(
    gaps=GAPS,
    seed=st.integers(0, 99),
    cuts=st.lists(st.integers(0, 150), max_size=6),
    looks=st.lists(st.integers(0, 6), max_size=3),
)
def test_no_split_and_no_stop_shows(
    name: str, gaps: list[int], seed: int, cuts: list[int], looks: list[int]
) -> None:
    """Any events, split anywhere, read back from bytes and moved on in between: the same bytes."""
    times = np.cumsum(gaps, dtype=np.int64)
    what = column(name, np.random.default_rng(seed), len(times), seed)
    cuts = sorted(min(cut, len(times)) for cut in cuts)
    whole = fed(name, times, what)
    parts = MAKERS[name]()
    for i, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(times)], strict=True)):
        parts.insert(times[start:end], what[start:end])
        parts = type(parts).from_bytes(parts.to_bytes())
        if i in looks and end < len(times):
            parts.advance(max(parts.now, int(times[end])))
        parts.check()
    assert parts.to_bytes() == whole.to_bytes()
    assert (parts.now, type(whole).from_bytes(parts.to_bytes()).now) == (whole.now, whole.now)


def sample(name: str) -> bytes:
    rng = np.random.default_rng(6)
    return fed(name, np.cumsum(rng.integers(0, 9, 300)), column(name, rng, 300, 3)).to_bytes()


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
    for other in [*bad, b"", b"{}", bytes(64)]:
        with pytest.raises(SynopsisError):
            read(other)
    with pytest.raises(SynopsisError, match="kind 1, not of kind"):
        read(histogram)


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
        synopsis.insert([], [])
        assert synopsis.to_bytes() == changed, "the decoder took what the encoder does not write"
        later = min(synopsis.now + 10, 2**61 - 1)
        try:
            synopsis.insert(np.full(40, later), np.arange(40))
        except WindowTooLargeError:
            continue
        synopsis.query(1)
        synopsis.advance(max(synopsis.now, later))


@pytest.mark.parametrize("name", MAKERS)
def test_what_cannot_be_taken_is_refused_and_changes_nothing(name: str) -> None:
    """Time that goes back or is out of range, columns that differ; the ends of time are fine."""
    synopsis = MAKERS[name]()
    synopsis.insert([50, 50], [1, 2])
    before = synopsis.to_bytes()
    for times, what, words in (
        ([49], [1], "49 is earlier than 50"),
        ([60, 61, 60], [1, 1, 1], "60 is earlier than 61"),
        ([60, 2**61], [1, 1], "out of range"),
        ([2**63 - 1], [1], "out of range"),
        ([-(2**63)], [1], "out of range"),
        ([60, 61], [1], "is needed for each time"),
        ([60.5], [1], "whole numbers"),
    ):
        with pytest.raises(SynopsisError, match=words):
            synopsis.insert(times, what)
    for now, words in ((50, "50 is earlier than 51"), (2**61 + 1, "range"), (-(2**63), "range")):
        with pytest.raises(SynopsisError, match=words):
            synopsis.advance(now)
    assert (synopsis.to_bytes(), synopsis.now) == (before, 51)
    synopsis.insert([2**61 - 1], [3])
    synopsis.advance(2**61)
    assert type(synopsis).from_bytes(synopsis.to_bytes()).now == 2**61


def digest() -> str:
    """The bytes and answers of all named streams and all kinds, as one."""
    seen = sha256()
    rng = np.random.default_rng(9)
    for i, time_name in enumerate(TIMES):
        for of in range(2):
            times = TIMES[time_name](rng, 90)
            for name in MAKERS:
                synopsis = fed(name, times, column(name, rng, 90, i + of), [50])
                seen.update(synopsis.to_bytes())
                for n in (1, 20, SPAN):
                    seen.update(repr(synopsis.query(n)).encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, and answers to the last bit."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "from tests.laws.test_framework_state import digest; print(digest())",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == digest()
