"""Laws of the bytes of distinct items: merging loses nothing; items are any 64-bit numbers."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses import Batch, SynopsisError
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.distinct.batch import run_distinct_batch
from slidestat.synopses.distinct.flajolet_martin import BitmapsParameters
from slidestat.synopses.distinct.parameters import DistinctParameters
from slidestat.synopses.distinct.wave import DistinctWave, insert_bits, merge_distinct, union_count
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters
from tests.synopses.distinct.exact_distinct import (
    ITEMS,
    PARAMETERS,
    SPAN,
    SYNOPSES,
    Synopsis,
    merge,
    run,
)
from tests.synopses.hostile import sealed
from tests.synopses.plain_python import as_plain_python
from tests.synopses.streams import TIMES


def fed(name: str, times: Integers, items: Integers, cuts: Sequence[int] = ()) -> Synopsis:
    wave = SYNOPSES[name]()
    for start, end in pairwise([0, *sorted(cuts), len(times)]):
        wave.insert(times[start:end], items[start:end])
    return wave


@pytest.mark.parametrize("name", SYNOPSES)
@pytest.mark.parametrize("time_name", TIMES)
def test_items_of_any_sort_are_written_and_read(name: str, time_name: str) -> None:
    """One event at a time, read back in the middle, or all at once: the same bytes."""
    rng = np.random.default_rng(5)
    times = TIMES[time_name](rng, 300)
    for item_name in ITEMS:
        items = ITEMS[item_name](rng, 300)
        singles = fed(name, times[:200], items[:200], range(200))
        singles = type(singles).from_bytes(singles.to_bytes())
        singles.insert(times[200:], items[200:])
        assert singles.to_bytes() == fed(name, times, items).to_bytes(), item_name
        singles.check()


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 2 * SPAN)),
        st.one_of(st.integers(-40, 40), st.integers(-(2**63), 2**63 - 1)),
    ),
    max_size=250,
)


@pytest.mark.parametrize("name", SYNOPSES)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    events=EVENTS,
    parties=st.lists(st.integers(0, 3), min_size=250, max_size=250),
    later=st.integers(0, 2 * SPAN),
)
def test_a_merged_state_is_that_of_the_union(
    name: str, events: list[tuple[int, int]], parties: list[int], later: int
) -> None:
    """However a stream is split among parties, their merged bytes are those of the whole stream.

    Of parties that are not equally far, too: the whole is as far as the furthest. In any order, in
    steps, a party twice: the same; with an empty one, nothing changes.
    """
    times = np.cumsum([gap for gap, _ in events], dtype=np.int64)
    items = np.array([item for _, item in events], np.int64)
    owner = np.array(parties[: len(events)], np.int64)
    waves = [fed(name, times[owner == p], items[owner == p]) for p in range(4)]
    waves[2].advance(max(waves[2].now, later))
    whole = fed(name, times, items)
    whole.advance(max(whole.now, waves[2].now))
    states = [wave.to_bytes() for wave in waves]
    a, b, c, d = states
    assert merge(states) == whole.to_bytes()
    assert merge([merge([d, b]), merge([c, a]), b]) == whole.to_bytes()
    empty = SYNOPSES[name]().to_bytes()
    assert merge([a, empty]) == merge([a]) == a


@pytest.mark.parametrize("name", PARAMETERS)
def test_union_counting_is_that_of_the_or_of_the_streams(name: str) -> None:
    """Scenario 3: the referee's answer is that of one party which sees the OR, for any n.

    And each party's bits may come in any pieces.
    """
    rng = np.random.default_rng(12)
    for share in (0.02, 0.3, 0.9):
        streams = rng.random((3, 2_000)) < share
        parties = [DistinctWave.create(PARAMETERS[name]) for _ in streams]
        both = DistinctWave.create(PARAMETERS[name])
        for end in range(400, 2_001, 400):
            for party, bits in zip(parties, streams, strict=True):
                cut = int(rng.integers(end - 400, end))
                insert_bits(party, bits[end - 400 : cut])
                insert_bits(party, bits[cut:end].astype(int))
            union = streams.any(axis=0)[:end]
            insert_bits(both, union[end - 400 :])
            states = [party.to_bytes() for party in parties]
            assert merge_distinct(states) == both.to_bytes()
            for n in (1, 20, 100, 333, SPAN):
                answer = union_count(states, n)
                assert answer == both.query(n)
                true = int(union[max(end - n, 0) :].sum())
                if true < both.parameters.capacity:
                    assert answer == (true, true, true, True)
    with pytest.raises(SynopsisError, match="zeros and ones"):
        insert_bits(both, [0, 2])


def test_what_cannot_be_merged_is_refused() -> None:
    """Nothing at all, other parameters (another seed too), and bytes that are no synopsis."""
    a = DistinctWave.create(DistinctParameters(0.5, 0.5, SPAN, 1)).to_bytes()
    for others, words in (
        ([], "nothing to merge"),
        ([a, DistinctWave.create(DistinctParameters(0.5, 0.5, SPAN, 2)).to_bytes()], "other par"),
        ([a, b"x"], "no synopsis"),
    ):
        with pytest.raises(SynopsisError, match=words):
            merge_distinct(others)


@pytest.mark.parametrize("name", ["one instance", "lean"])
def test_a_batch_of_many_keys_is_each_key_alone(name: str) -> None:
    """Groups of any size, old and new, with queries between events: as one key after another."""
    rng = np.random.default_rng(14)
    new = SYNOPSES[name]()
    sizes = rng.choice([0, 1, 3, 200], 40)
    states: list[bytes | None] = [
        None if i % 3 == 0 else fed(name, np.arange(i * 4), np.arange(i * 4)).to_bytes()
        for i in range(40)
    ]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    times = np.concatenate([160 + np.sort(rng.integers(0, 300, size)) for size in sizes])
    items = rng.integers(0, 100, len(times))
    queries = np.tile([160, 300, 470], 40)
    advances = np.where(np.arange(40) % 2 == 0, 480, -(2**61))
    asked = Batch(starts, times, items, np.arange(41) * 3, queries, [20, SPAN], advances)
    result = run(new, states, asked)
    assert run(new, tuple(states), asked).states == result.states
    for group in range(40):
        data = states[group]
        wave = type(new).from_bytes(data) if data else SYNOPSES[name]()
        mine = slice(starts[group], starts[group + 1])
        for i, query in enumerate((160, 300, 470)):
            before = times[mine] < query
            now = type(new).from_bytes(wave.to_bytes())
            now.insert(times[mine][before], items[mine][before])
            for j, n in enumerate((20, SPAN)):
                at = 3 * group + i
                figures = (result.estimates[at, j], result.lowers[at, j], result.uppers[at, j])
                assert figures == now.query(n, query)[:3]
        wave.insert(times[mine], items[mine])
        if advances[group] > 0:
            wave.advance(480)
        assert result.states[group] == wave.to_bytes()


def test_items_twice_and_levels_of_others_are_found() -> None:
    """An item kept twice is refused at once, a level that is not its item's by `check`."""
    wave = fed("one instance", np.arange(100), np.arange(100) + 2**40)
    data = bytearray(wave.to_bytes())
    start = data.index(bytes([0]) + (2 * (2**40 + 99)).to_bytes(6, "little"))
    twice = data.copy()
    twice[start + 8 + 1 : start + 8 + 7] = data[start + 1 : start + 7]
    with pytest.raises(SynopsisError, match="damaged"):
        DistinctWave.from_bytes(sealed(bytes(twice)))
    with pytest.raises(SynopsisError, match="damaged"):
        run_distinct_batch(
            wave.parameters, [sealed(bytes(twice))], Batch([0, 1], [200], [1], [0, 0], [], [])
        )
    data[start + 7] ^= 1
    wave = DistinctWave.from_bytes(sealed(bytes(data)))
    with pytest.raises(SynopsisError, match="levels"):
        wave.check()


@pytest.mark.parametrize("name", SYNOPSES)
def test_items_are_64_bits_signed_or_not(name: str) -> None:
    """What is no whole number is refused, also by the batch, as are other questions and states."""
    wave = SYNOPSES[name]()
    wave.insert([50, 50], [1, 2])
    before = wave.to_bytes()
    for items in ([1.5], ["a"]):
        with pytest.raises(SynopsisError, match="whole numbers"):
            wave.insert([60], items)
    for n, at, words in ((0, 51, "from 1"), (SPAN + 1, 51, "from 1"), (1, 50, "earlier than 51")):
        with pytest.raises(SynopsisError, match=words):
            run(wave, [before], Batch([0, 0], [], [], [0, 1], [at], [n]))
    other = type(wave).create(replace(wave.parameters, span=SPAN + 1))
    with pytest.raises(SynopsisError, match="other parameters"):
        run(other, [before], Batch([0, 0], [], []))
    assert wave.to_bytes() == before
    wave.insert(np.array([60]), np.array([2**64 - 1], np.uint64))
    assert round(wave.query(1).estimate) == 1
    wave.insert([61], [-1])
    assert round(wave.query(2).estimate) == 1


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ((0.004, 0.1, 5, 1), "epsilon"),
        ((0.1234567, 0.1, 5, 1), "epsilon"),
        ((float("nan"), 0.1, 5, 1), "epsilon"),
        ((0.1, 0.0, 5, 1), "delta"),
        ((0.1, 0.6, 5, 1), "delta"),
        ((0.1, 0.1, 0, 1), "span"),
        ((0.1, 0.1, 2**53 + 1, 1), "span"),
        ((0.1, 0.1, 5, -1), "seed"),
        ((0.1, 0.1, 5, 2**63), "seed"),
        ((0.1, 0.1, 5, True), "seed"),
        ((15, 0.1, 5, 1), "bitmaps"),
        ((24, 0.1, 5, 1), "power of two"),
        ((8192, 0.1, 5, 1), "bitmaps"),
        ((32, 0.1, 0, 1), "span"),
    ],
)
def test_parameters_out_of_range_are_refused(
    settings_: tuple[float, float, int, int], words: str
) -> None:
    """Each is named in the error."""
    with pytest.raises(SynopsisError, match=words):
        (BitmapsParameters if settings_[0] > 1 else DistinctParameters)(*settings_)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ((0.009, 0.1, 5, 1), "epsilon must be from 0.01"),
        ((0.6, 0.1, 5, 1), "epsilon"),
        ((0.1, 0.2, 5, 1), "delta must be from 1e-06 to 0.1"),
        ((0.1, 1e-7, 5, 1), "delta must be from 1e-06 to 0.1"),
        ((0.1, 0.1, 0, 1), "span"),
        ((0.1, 0.1, 5, 2**63), "seed"),
    ],
)
def test_lean_parameters_out_of_range_are_refused(
    settings_: tuple[float, float, int, int], words: str
) -> None:
    """Each is named in the error."""
    with pytest.raises(SynopsisError, match=words):
        LeanDistinctParameters(*settings_)


def digest() -> str:
    """The bytes and answers of all named streams and both parameters, as one; of the times each
    with two of the items, as plain Python takes long.
    """
    seen = sha256()
    rng = np.random.default_rng(9)
    names = list(ITEMS)
    for i, time_name in enumerate(TIMES):
        for item_name in (names[i % len(names)], names[(i + 3) % len(names)]):
            times, items = TIMES[time_name](rng, 60), ITEMS[item_name](rng, 60)
            wave = fed("one instance", times, items, [40])
            seen.update(wave.to_bytes())
            for n in (1, 20, SPAN):
                seen.update(repr(wave.query(n)).encode())
                assert isinstance(wave, DistinctWave)
                seen.update(repr(wave.retained(n).items.tolist()).encode())
            rough = fed("bitmaps", times, items, [40])
            seen.update(rough.to_bytes())
            seen.update(repr([rough.query(n)[1:] for n in (1, 20, SPAN)]).encode())
            lean = fed("lean", times, items, [40])
            seen.update(lean.to_bytes())
            seen.update(merge([lean.to_bytes(), fed("lean", times, items[::-1]).to_bytes()]))
            seen.update(repr([lean.query(n)[1:] for n in (1, 20, SPAN)]).encode())
    wave = fed("five instances", np.arange(400), ITEMS["hashes"](rng, 400))
    seen.update(wave.to_bytes())
    seen.update(repr(wave.query(SPAN, predicate=lambda ids: ids > 0)).encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, and answers to the last bit."""
    assert as_plain_python("tests.synopses.distinct.test_distinct_state") == digest()
