"""The laws that every synopsis keeps, written once and run on each one that every.py names."""

import csv
import gzip
import hashlib
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

import slidestat.synopses
from slidestat.synopses import SynopsisError
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.errors import WindowTooLargeError
from slidestat.synopses.core.stored import Stored
from tests.synopses.entry import UNITS, Entry
from tests.synopses.every import EVERY
from tests.synopses.hostile import DAMAGES, damaged, sealed
from tests.synopses.plain_python import as_plain_python
from tests.synopses.streams import TIMES

DATA = Path(__file__).parents[3] / "shared" / "data"
FLIGHTS = DATA / "flights-2001-h1.parquet"
WEB = DATA / "nasa_http_19950801.tsv.gz"

SPAN = 200
SIZE = 220
WINDOWS = (1, 2, 7, 60, 199, SPAN)
NUMBERS = (1, 2, 3, 40, SIZE, 2 * SIZE)
FIRST, LAST = -(2**61), 2**61 - 1

TIMED = [name for name, entry in EVERY.items() if not entry.places]
BATCHED = [name for name, entry in EVERY.items() if entry.batch]

Stream = tuple[Integers, Integers]


def stream(entry: Entry, time_name: str, unit_name: str, size: int, seed: int) -> Stream:
    rng = np.random.default_rng(seed)
    times = np.arange(size) if entry.places else TIMES[time_name](rng, size)
    return times, np.asarray(UNITS[unit_name](rng, size), np.int64)


def streams(entry: Entry, size: int) -> list[Stream]:
    """One of each of the named units, on all of the named times in turn."""
    names = list(TIMES)
    return [
        stream(entry, names[i % len(names)], unit_name, size, i)
        for i, unit_name in enumerate(UNITS)
    ]


def fed(entry: Entry, times: Integers, units: Integers, cuts: Any = (), span: int = SPAN) -> Any:
    """The synopsis after the events, taken in batches that end at `cuts`."""
    synopsis = entry.create(span)
    ends = [*sorted(cuts), len(times)]
    for start, end in zip([0, *ends], ends, strict=False):
        entry.insert(synopsis, times[start:end], units[start:end])
    return synopsis


def asked(entry: Entry) -> tuple[int, ...]:
    return NUMBERS if entry.any_number else WINDOWS


def middle_aged(entry: Entry) -> Any:
    """One in mid-life: something expired, ties, signs, several sizes of all there is."""
    rng = np.random.default_rng(6)
    times = np.arange(700) if entry.places else np.cumsum(rng.integers(0, 3, 700))
    return fed(entry, times, rng.integers(-3_000, 3_000, 700))


@pytest.mark.parametrize("name", EVERY)
def test_bounds_and_promise_hold_at_all_sorts_of_moments(name: str) -> None:
    """lower <= exact <= upper and the error promised, while events come one by one, and after all.

    Questions take long: there are some at each third moment, where streams take turns in which, so
    that each moment has its turn in four or five of them. All n are asked at each tenth of these,
    one n in turn at the others.
    """
    entry = EVERY[name]
    for first, (times, units) in enumerate(streams(entry, SIZE)):
        synopsis, moments_seen = entry.create(SPAN), first  # Ties are one: bursts have few.
        for i in range(SIZE):
            entry.insert(synopsis, times[i : i + 1], units[i : i + 1])
            if i + 1 < SIZE and times[i + 1] == times[i]:
                continue
            moments_seen += 1
            turn, is_left_out = divmod(moments_seen, 3)
            if is_left_out:
                continue
            moments = [synopsis.now, synopsis.now + 30][: 2 if turn % 5 == 0 else 1]
            known = asked(entry)
            ns = known if turn % 10 == 0 else (known[turn % len(known)],)
            entry.judge(synopsis, times[: i + 1], units[: i + 1], moments, ns)
        end = int(times[-1]) + SPAN
        entry.judge(synopsis, times, units, [end, end + 1, end + 2], asked(entry))


@cache
def real_streams() -> list[tuple[Integers, Integers, int]]:
    """Times and units of flights and of a web server, with spans for them."""
    table = pyarrow.parquet.read_table(FLIGHTS, columns=["date", "delay"]).slice(0, 30_000)
    flights = table["date"].cast("timestamp[ms]").cast("int64").to_numpy() // 60_000
    with gzip.open(WEB, "rt", encoding="latin-1", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        web = np.array(sorted((int(row["time"]), int(row["bytes"] or 0)) for row in rows))
    return [
        (flights, table["delay"].to_numpy().astype(np.int64), 1_440),
        (web[:, 0], web[:, 1], 7_200),
    ]


@pytest.mark.skipif(
    not (FLIGHTS.exists() and WEB.exists()), reason="the folder of real events is not there"
)
@pytest.mark.parametrize("name", EVERY)
def test_real_events_keep_the_promise(name: str) -> None:
    """Delays of flights, of minutes to a day; bytes of a web server, of seconds to hours."""
    entry = EVERY[name]
    for times, units, span in real_streams():
        size = len(times)
        column = np.arange(size) if entry.places else times
        synopsis = entry.create(span)
        for start in range(0, size, size // 6):
            part = slice(start, start + size // 6)
            entry.insert(synopsis, column[part], units[part])
            seen = column[: part.stop], units[: part.stop]
            moments = [synopsis.now, synopsis.now + span // 3]
            entry.judge(synopsis, *seen, moments, (1, 60, span // 7, span))


@pytest.mark.parametrize("name", EVERY)
def test_one_by_one_in_pieces_or_all_at_once(name: str) -> None:
    """Batch boundaries never show: the same bytes, and each state on the way is sound. Event by
    event each third stream, in turn: synopses differ in which.
    """
    entry, place = EVERY[name], list(EVERY).index(name)
    for i, (times, units) in enumerate(streams(entry, 300)):
        whole = fed(entry, times, units)
        whole.check()
        pieces = np.random.default_rng(i).integers(0, 300, 12).tolist()
        assert fed(entry, times, units, pieces).to_bytes() == whole.to_bytes()
        if (i + place) % 3 == 0:
            assert fed(entry, times, units, range(300)).to_bytes() == whole.to_bytes()


EVENTS = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 2 * SPAN)),
        st.one_of(st.just(0), st.integers(-20, 20), st.integers(-(2**39), 2**39)),
    ),
    max_size=150,
)


@pytest.mark.parametrize("name", EVERY)
@settings(derandomize=True, deadline=None, max_examples=20)
@given(
    events=EVENTS,
    cuts=st.lists(st.integers(0, 150), max_size=6),
    stops=st.lists(st.integers(0, 6), max_size=3),
)
def test_no_split_and_no_stop_shows(
    name: str, events: list[tuple[int, int]], cuts: list[int], stops: list[int]
) -> None:
    """Any events, split anywhere, read back from bytes and moved on in between: the same bytes."""
    entry = EVERY[name]
    gaps, units = (np.array([event[i] for event in events], np.int64) for i in (0, 1))
    times = np.arange(len(events)) if entry.places else np.cumsum(gaps)
    whole = fed(entry, times, units)
    parts = entry.create(SPAN)
    ends = [*sorted(min(cut, len(events)) for cut in cuts), len(events)]
    for i, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        entry.insert(parts, times[start:end], units[start:end])
        parts = type(parts).from_bytes(parts.to_bytes())
        if i in stops and end < len(events) and not entry.places:
            parts.advance(max(parts.now, int(times[end])))
        parts.check()
    assert parts.to_bytes() == whole.to_bytes()
    again = type(whole).from_bytes(parts.to_bytes())
    assert (again.now, again.to_bytes()) == (whole.now, whole.to_bytes())
    for n in asked(entry):
        assert repr(entry.answers(again, n, whole.now)) == repr(entry.answers(whole, n, whole.now))


@pytest.mark.parametrize("name", EVERY)
def test_advancing_is_what_a_look_ahead_sees(name: str) -> None:
    """The same answers; what has expired leaves the bytes; a state is as if time had passed so."""
    entry = EVERY[name]
    times, units = stream(entry, "uniform", "uniform", 400, 3)
    for later in (0, 1, 20, SPAN - 1, SPAN, SPAN + 1, 50 * SPAN):
        synopsis, passed = fed(entry, times, units), fed(entry, times, units)
        now = synopsis.now + later
        passed.advance(now)
        passed.advance(now)
        passed.check()
        assert passed.now == now
        for n in asked(entry):
            ahead = entry.answers(synopsis, n, now)
            if not entry.any_number or ahead[0][1] <= SPAN:  # an older event may be forgotten
                assert repr(ahead) == repr(entry.answers(passed, n, now))
        assert len(passed.to_bytes()) <= len(synopsis.to_bytes()) + 9
        if later > SPAN:
            assert len(passed.to_bytes()) < 100
        if not entry.places:
            for one in (synopsis, passed):
                entry.insert(one, [now], [7])
            assert synopsis.to_bytes() == passed.to_bytes()


@pytest.mark.parametrize("name", EVERY)
def test_what_is_written_is_read(name: str) -> None:
    """The same bytes, time, answers and (once read) parameters; a checksum that zlib makes."""
    entry = EVERY[name]
    for synopsis in (entry.create(SPAN), middle_aged(entry)):
        data = synopsis.to_bytes()
        again = type(synopsis).from_bytes(data)
        again.check()
        assert data == again.to_bytes() == sealed(data)
        assert again.now == synopsis.now
        assert type(again).from_bytes(again.to_bytes()).parameters == again.parameters
        for n in asked(entry):
            now = max(synopsis.now, 0)
            assert repr(entry.answers(again, n, now)) == repr(entry.answers(synopsis, n, now))
        entry.insert(again, [], [])
        assert again.to_bytes() == data


ONE_OF_A_KIND = list(
    {middle_aged(entry).to_bytes()[3]: name for name, entry in EVERY.items()}.values()
)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_truncated_extended_and_changed_bytes_are_refused(name: str) -> None:
    """No prefix is a synopsis, nor is one with something behind it; no wrong byte goes unseen."""
    synopsis = middle_aged(EVERY[name])
    data, read = synopsis.to_bytes(), type(synopsis).from_bytes
    bad = [data[:end] for end in range(len(data))]
    bad += [sealed(data[:end]) for end in range(8, len(data))]
    bad += [data + tail for tail in (b"\0", b"\1", b"\x80", data)]
    bad += [sealed(data + tail) for tail in (b"\0", b"\1", b"\x80", data)]
    for change in (1, 0x80, 0xFF):
        bad += [data[:at] + bytes([data[at] ^ change]) + data[at + 1 :] for at in range(len(data))]
    for other in bad:
        with pytest.raises(SynopsisError):
            read(other)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_foreign_bytes_are_refused_by_name(name: str) -> None:
    """What is wrong is said: no synopsis, a newer version, another kind, damaged."""
    synopsis = middle_aged(EVERY[name])
    data, read = synopsis.to_bytes(), type(synopsis).from_bytes
    for foreign in (b"", b"{}", b"EH\1\1" + bytes(40), bytes(64), b"some text" * 9):
        with pytest.raises(SynopsisError, match="no synopsis"):
            read(foreign)
    with pytest.raises(SynopsisError, match="no synopsis"):
        read(sealed(data[:2] + b"\0" + data[3:]))
    with pytest.raises(SynopsisError, match="newer version: their format is 2, known is 1"):
        read(sealed(data[:2] + b"\2" + data[3:]))
    with pytest.raises(SynopsisError, match="damaged"):
        read(data[:-1])
    for other in ONE_OF_A_KIND:
        if type(EVERY[other].create(SPAN)) is not type(synopsis):
            foreign = middle_aged(EVERY[other]).to_bytes()
            with pytest.raises(SynopsisError, match=_kinds(foreign, data)):
                read(foreign)
            if isinstance(synopsis, Stored):
                in_a_batch = type(synopsis)(synopsis.parameters, foreign, synopsis.now)
                with pytest.raises(SynopsisError, match=_kinds(foreign, data)):
                    in_a_batch.advance(synopsis.now)


def _kinds(found: bytes, wanted: bytes) -> str:
    return rf"hold a synopsis of kind {found[3]}, not of kind (\d+ or )?{wanted[3]}( or \d+)?$"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_hostile_bytes_are_refused_or_are_a_state_that_works(name: str, damage: str) -> None:
    """3,000 cases a kind, checksums right: refused by what is inside, or read and moved on."""
    entry = EVERY[name]
    synopsis = middle_aged(entry)
    data, read = synopsis.to_bytes(), type(synopsis).from_bytes
    for changed in damaged(data, damage, 600):
        try:
            taken = read(changed)
        except SynopsisError:
            continue
        assert taken.to_bytes() == changed
        entry.insert(taken, [], [])
        assert taken.to_bytes() == changed, "the decoder took what the encoder does not write"
        for figures in entry.answers(taken, 1, taken.now):
            assert np.isnan(figures[0]) or figures[1] <= figures[0] <= figures[2]
        later = min(taken.now + 10, LAST)
        try:
            entry.insert(taken, [later] * 40, np.arange(40))
        except WindowTooLargeError:
            continue
        taken.advance(max(taken.now, later))


def test_what_cannot_be_read_costs_next_to_nothing() -> None:
    """A few bytes that promise 2^40 of something are refused for the bytes that are not there."""
    for name in ONE_OF_A_KIND:
        synopsis = EVERY[name].create(SPAN)
        data = synopsis.to_bytes()
        for at in range(8, len(data)):
            lie = data[:at] + b"\x80\x80\x80\x80\x80\x20" + data[at + 1 :]
            try:
                taken = type(synopsis).from_bytes(sealed(lie))
            except SynopsisError:
                continue
            assert taken.to_bytes() == sealed(lie)


@pytest.mark.parametrize("name", EVERY)
def test_a_small_key_is_small(name: str) -> None:
    """Five events of a day, in milliseconds, at any error: fewer than 100 bytes; of five different
    texts, each with an id of 8 bytes, fewer than 105.
    """
    entry = EVERY[name]
    times = np.arange(5) if entry.places else 1_700_000_000_000 + np.arange(5) * 60_000
    synopsis = fed(entry, times, np.array([9_999, -5, 70, 9_998, 1]), span=86_400_000)
    assert len(synopsis.to_bytes()) < (105 if name.startswith("named") else 100)


@cache
def many_units(unit_name: str, size: int, parts: int = 1) -> list[Integers]:
    """The same for every synopsis: drawing them takes longer than most take to read them."""
    rng = np.random.default_rng(8)
    return [np.asarray(UNITS[unit_name](rng, size), np.int64) for _ in range(parts)]


@pytest.mark.parametrize("name", EVERY)
def test_space_stays_within_the_theorem(name: str) -> None:
    """In bytes, while 150,000 events pass through windows of up to 50,000."""
    entry = EVERY[name]
    span, step = 50_000, 10_000
    for unit_name in ("uniform", "zipf", "sorted"):
        times, (units,) = np.arange(3 * span), many_units(unit_name, 3 * span)
        synopsis = entry.create(span)
        for end in range(step, 3 * span + 1, step):
            entry.insert(synopsis, times[end - step : end], units[end - step : end])
            total = int(np.abs(units[max(0, end - span) : end]).sum())
            assert len(synopsis.to_bytes()) <= entry.most_bytes(min(end, span), total)
        synopsis.check()


COARSEST_OF_A_KIND = list(
    {entry.create(SPAN).to_bytes()[3]: name for name, entry in reversed(EVERY.items())}.values()
)


@pytest.mark.parametrize("name", COARSEST_OF_A_KIND)
def test_space_stays_within_the_theorem_on_a_million_events(name: str) -> None:
    """In bytes, after each of two windows of 600,000 events."""
    entry = EVERY[name]
    span = 600_000
    synopsis = entry.create(span)
    for number, units in enumerate(many_units("zipf", span, 2)):
        start = number * span
        entry.insert(synopsis, np.arange(start, start + span), units)
        assert len(synopsis.to_bytes()) <= entry.most_bytes(span, int(np.abs(units).sum()))
    synopsis.check()


@pytest.mark.parametrize("name", TIMED)
def test_times_may_be_equal_and_far_apart(name: str) -> None:
    """From -2^61 to 2^61 - 1, all at once or 2^53 apart: right, whatever the span."""
    entry = EVERY[name]
    times = np.array([FIRST] * 30 + [FIRST + 2**53] * 30 + [LAST] * 40)
    units = np.arange(-50, 50)
    for span in (1, SPAN, 2**53):
        synopsis = entry.create(span)
        for end in (30, 60, 100):
            part = slice(end - (40 if end == 100 else 30), end)
            entry.insert(synopsis, times[part], units[part])
            ns = (1, 5, 30) if entry.any_number else (1, span)
            entry.judge(synopsis, times[:end], units[:end], [synopsis.now], ns)
        assert synopsis.now == LAST + 1
        synopsis.advance(LAST + 1)
        again = type(synopsis).from_bytes(synopsis.to_bytes())
        assert again.now == LAST + 1
        assert again.to_bytes() == fed(entry, times, units, range(100), span).to_bytes()


@pytest.mark.parametrize("name", TIMED)
def test_what_cannot_be_taken_is_refused_and_changes_nothing(name: str) -> None:
    """Time that goes back or is out of range, numbers that are not whole, columns that differ."""
    entry = EVERY[name]
    synopsis = entry.create(SPAN)
    entry.insert(synopsis, [50, 50], [1, 2])
    before = synopsis.to_bytes()
    for times, words in (
        ([49], "49 is earlier than 50"),
        ([60, 61, 60], "60 is earlier than 61"),
        ([60, LAST + 1], "out of range"),
        ([2**63 - 1], "out of range"),
        ([-(2**63)], "out of range"),
        ([60.5], "whole numbers"),
        ([[60]], "row of"),
    ):
        with pytest.raises(SynopsisError, match=words):
            entry.insert(synopsis, times, np.ones(np.size(times), np.int64))
    if entry.columns(np.ones(1, np.int64)):
        with pytest.raises(SynopsisError, match="for each time"):
            entry.insert(synopsis, [60, 61], [1])
    for now, words in ((50, "50 is earlier than 51"), (LAST + 2, "range"), (FIRST - 1, "range")):
        with pytest.raises(SynopsisError, match=words):
            synopsis.advance(now)
    assert (synopsis.to_bytes(), synopsis.now) == (before, 51)
    entry.insert(synopsis, [50], [3])


@pytest.mark.parametrize("name", EVERY)
def test_a_question_that_makes_no_sense_is_refused(name: str) -> None:
    """No window of nothing, none longer than is kept, and none that ends in the past."""
    entry = EVERY[name]
    synopsis = middle_aged(entry)
    for n in (0, -1, 2**62, -(2**63), 2**80, *(() if entry.any_number else (SPAN + 1,))):
        with pytest.raises(SynopsisError, match="from 1 to"):
            entry.answers(synopsis, n, synopsis.now)
    with pytest.raises(SynopsisError, match="is earlier than"):
        entry.answers(synopsis, 1, synopsis.now - 1)


@pytest.mark.parametrize("name", BATCHED)
def test_keys_of_a_batch_do_not_touch_each_other(name: str) -> None:
    """A batch of many keys, new and known, is what each would do alone; bad states are refused."""
    entry = EVERY[name]
    assert entry.batch is not None
    parameters = entry.create(SPAN).parameters
    rng = np.random.default_rng(8)
    states: list[bytes | None] = [None] * 9
    alone = [entry.create(SPAN) for _ in states]
    begin = 0
    for _ in range(3):
        sizes = rng.choice([0, 1, 5, 30, 400], len(states))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        times = np.concatenate([begin + np.sort(rng.integers(0, 500, size)) for size in sizes])
        units = rng.integers(-500, 500, len(times))
        begin += 500
        moved = np.full(len(states), begin)
        columns = entry.columns(units)
        states = list(entry.batch(parameters, states, starts, times, *columns, moved))
        for g, synopsis in enumerate(alone):
            part = slice(starts[g], starts[g + 1])
            entry.insert(synopsis, times[part], units[part])
            synopsis.advance(begin)
            assert states[g] == synopsis.to_bytes()
    other = entry.create(SPAN + 1).to_bytes()
    nothing = entry.columns(np.empty(0, np.int64))
    for bad in (other, b"", b"x" * 30, other[:-1]):
        if bad:
            with pytest.raises(SynopsisError, match="group 1: "):
                entry.batch(parameters, [None, bad], [0, 0, 0], [], *nothing, None)
    assert list(entry.batch(parameters, [], [0], [], *nothing, None)) == []


@pytest.mark.parametrize("name", BATCHED)
def test_advances_that_do_not_fit_are_refused(name: str) -> None:
    """One for each key, none beyond 2^61: they are looked at before any compiled code is."""
    entry = EVERY[name]
    assert entry.batch is not None
    parameters, nothing = entry.create(SPAN).parameters, entry.columns(np.empty(0, np.int64))
    for advances in ([], [5], [5, 6, 7], [5, LAST + 2], [2**62, 5], [0.5, 1.0], [[5, 6]]):
        with pytest.raises(SynopsisError, match="advances"):
            entry.batch(parameters, [None, None], [0, 0, 0], [], *nothing, advances)
    states = entry.batch(parameters, [None, None], [0, 0, 0], [], *nothing, [5, LAST + 1])
    assert [type(entry.create(SPAN)).from_bytes(state).now for state in states] == [5, LAST + 1]


def digest() -> str:
    """The bytes and answers of all synopses, and some refusals, as one: of the named streams each
    third, in turn, as plain Python takes long.
    """
    seen = hashlib.sha256()
    for place, (name, entry) in enumerate(EVERY.items()):
        for times, units in streams(entry, 110)[place % 3 :: 3]:
            synopsis = fed(entry, times, units, [60])
            seen.update(synopsis.to_bytes())
            for n in (1, 20, SPAN):
                seen.update(repr(entry.answers(synopsis, n, synopsis.now)).encode())
        data = synopsis.to_bytes()
        for damage in DAMAGES:
            for changed in damaged(data, damage, 8):
                try:
                    seen.update(type(synopsis).from_bytes(changed).to_bytes())
                except SynopsisError as error:
                    seen.update(f"{name}: {error}".encode())
    return seen.hexdigest()


def test_plain_python_gives_the_same_bytes_and_figures() -> None:
    """With NUMBA_DISABLE_JIT=1: the same states, answers to the last bit, and errors."""
    assert as_plain_python("tests.synopses.test_every_synopsis") == digest()


def test_no_synopsis_is_left_out() -> None:
    """Every class of the package that is fed, moved on and stored has an entry."""
    found = set()
    for module in pkgutil.walk_packages(slidestat.synopses.__path__, "slidestat.synopses."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            whole = all(
                hasattr(one, method)
                for method in ("create", "insert", "advance", "to_bytes", "from_bytes", "check")
            )
            if whole and not inspect.isabstract(one) and not one.__name__.startswith("_"):
                found.add(one)
    assert found == {type(entry.create(SPAN)) for entry in EVERY.values()}
