"""Named items: the counts of frequent items, with names; exactly the texts that are held."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses import (
    Batch,
    NamedItems,
    PairedItems,
    PairedParameters,
    SynopsisError,
    run_named_items_batch,
    run_paired_items_batch,
)
from slidestat.synopses.distinct.items import item_ids
from slidestat.synopses.frequent import named_items
from tests.synopses.hostile import sealed
from tests.synopses.streams import TIMES, Times

SPANS = [(0.5, 60), (0.5, 1_000), (0.1, 900), (0.05, 10**6)]


def drawn(rng: np.random.Generator, size: int) -> list[str]:
    """Paths as people have them: a few that come often, and many that come once."""
    return [f"/page/{number}" for number in np.minimum(rng.zipf(1.3, size), 10**6)]


def fed(
    summary: NamedItems, times: Times, texts: list[str], cuts: Iterable[int] = ()
) -> NamedItems:
    """`summary` after the events, taken in batches that end at `cuts`."""
    for first, last in pairwise([0, *sorted(cuts), len(times)]):
        summary.insert(times[first:last], texts[first:last])
    return summary


def created(epsilon: float, span: int) -> NamedItems:
    return NamedItems.create(PairedParameters(epsilon, span))


@pytest.mark.parametrize("name", TIMES)
def test_batch_boundaries_never_show(name: str) -> None:
    """Event by event, in random pieces, or all at once: the same bytes, sound and the same read."""
    rng = np.random.default_rng(5)
    times, texts = TIMES[name](rng, 800), drawn(rng, 800)
    for epsilon, span in SPANS:
        whole = fed(created(epsilon, span), times, texts)
        pieces = rng.integers(0, 800, 30).tolist()
        assert fed(created(epsilon, span), times, texts, pieces).to_bytes() == whole.to_bytes()
        again = NamedItems.from_bytes(whole.to_bytes())
        assert (again.to_bytes(), again.now) == (whole.to_bytes(), whole.now)
        assert again.query(span, 0.5) == whole.query(span, 0.5)
    one_by_one = fed(created(0.5, 300), times, texts, range(800))
    assert one_by_one.to_bytes() == fed(created(0.5, 300), times, texts).to_bytes()


@pytest.fixture
def colliding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of one first letter have one id."""

    def ids(texts: list[bytes]) -> np.ndarray:
        return item_ids([bytes(text[:1]) for text in texts])

    monkeypatch.setattr(named_items, "item_ids", ids)
    monkeypatch.setattr(named_items, "item_ids", ids)


@pytest.mark.usefixtures("colliding")
@pytest.mark.parametrize("name", TIMES)
def test_of_texts_with_one_id_the_last_names_it(name: str) -> None:
    """However batches are split, bytes and answers at any moment show an id's last text by then."""
    rng = np.random.default_rng(6)
    times = TIMES[name](rng, 400)
    texts = [f"{'abcdefgh'[i]}{j}" for i, j in rng.integers(0, [8, 5], (400, 2)).tolist()]
    for epsilon, span in SPANS[:3]:
        cuts = [[], range(400), rng.integers(0, 400, 12).tolist(), [399]]
        different = [fed(created(epsilon, span), times, texts, at).to_bytes() for at in cuts]
        assert len(set(different)) == 1
        last = {text[0]: text for text in texts}
        summary = NamedItems.from_bytes(different[0])
        assert all(last[text[0]] == text for text in summary.stored_texts())
        codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        column = [codes[text] for text in texts]
        moments = np.unique(times[::37] + 1)
        for first in (0, 100):
            before = fed(created(epsilon, span), times[:first], texts[:first])
            asked = moments[moments >= before.now]
            found = run_named_items_batch(
                before.parameters,
                [before.to_bytes()],
                Batch(
                    [0, 400 - first], times[first:], column[first:], [0, len(asked)], asked, [span]
                ),
                list(codes),
                0,
            )
            for q, now in enumerate(asked.tolist()):
                by_then = {text[0]: text for text in np.array(texts)[times < now].tolist()}
                names = found.names[found.ends[q] : found.ends[q + 1]]
                assert names == [by_then[text[0]] for text in names]
                assert len({text[0] for text in names}) == len(names)
        assert found.states == different[:1]


STEPS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 5, 8, 40, 130]),  # events
        st.sampled_from([0, 1, 3, 60, 700]),  # pause before them
        st.sampled_from([0, 0, 1, 2]),  # gap between them
        st.sampled_from([0, 0, 0, 1, 50, 100, 400]),  # advance after them, if any
    ),
    max_size=20,
)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(STEPS, st.integers(0, 2**32), st.sampled_from([(0.5, 100), (0.5, 700), (0.2, 400)]))
def test_no_split_shows(
    steps: list[tuple[int, int, int, int]], seed: int, what: tuple[float, int]
) -> None:
    """Any bursts, pauses and advances; each burst at once, cut in two, or event by event."""
    rng = np.random.default_rng(seed)
    at_once, in_two, singly = (created(*what) for _ in range(3))
    time = 0
    for events, pause, gap, forward in steps:
        times = time + pause + np.arange(events) * gap
        texts = [f"{number}" for number in rng.integers(0, 50, events)]
        time = int(times[-1])
        fed(at_once, times, texts)
        fed(in_two, times, texts, [int(rng.integers(0, events + 1))])
        fed(singly, times, texts, range(events))
        if forward:
            time += forward
            for summary in (at_once, in_two, singly):
                summary.advance(time)
        assert at_once.to_bytes() == in_two.to_bytes() == singly.to_bytes()
    at_once.check()


@pytest.mark.parametrize("name", TIMES)
def test_counts_are_those_of_the_ids(name: str) -> None:
    """The state is that of FrequentItems of the ids; each of its items has its name and bounds."""
    rng = np.random.default_rng(6)
    times, texts = TIMES[name](rng, 1_500), drawn(rng, 1_500)
    for epsilon, span in SPANS:
        named = fed(created(epsilon, span), times, texts)
        plain = PairedItems.create(PairedParameters(epsilon, span))
        plain.insert(times, item_ids(texts))
        assert plain.to_bytes()[8:] in named.to_bytes()
        for n in (1, span // 3, span):
            expected = {(int(item), low, high) for item, _, low, high in plain.frequent(n, epsilon)}
            listed = named.query(n, epsilon)
            ids = item_ids([item.text for item in listed]).tolist()
            assert expected == {(i, *item[2:]) for i, item in zip(ids, listed, strict=True)}
            estimates = [item.estimate for item in listed]
            assert estimates == sorted(estimates, reverse=True)


@pytest.mark.parametrize("name", TIMES)
def test_bounds_hold_and_no_frequent_text_is_missed(name: str) -> None:
    """lower <= exact <= upper, upper - lower < epsilon m or 0; none with the share is missed, none
    is listed that has (s - 2 epsilon) m or less: for many windows, at many moments."""
    rng = np.random.default_rng(7)
    times, texts = TIMES[name](rng, 600), drawn(rng, 600)
    for epsilon, span in ((0.5, 400), (0.1, 300), (0.2, 10**6)):
        summary = created(epsilon, span)
        for end in range(0, 600, 60):
            summary.insert(times[end : end + 60], texts[end : end + 60])
            for n in (1, 7, 100, span):
                start = int(np.searchsorted(times, summary.now - n))
                exact = Counter(texts[start : end + 60])
                m = exact.total()
                for share in (epsilon, 0.5, 1.0):
                    listed = {item.text: item for item in summary.query(n, share)}
                    for text, count in exact.items():
                        assert count < share * m or text in listed
                    for text, item in listed.items():
                        assert item.lower <= exact[text] <= item.upper
                        assert item.lower <= item.estimate <= item.upper
                        assert item.upper == item.lower or item.upper - item.lower < epsilon * m
                        assert m == 0 or exact[text] > (share - 2 * epsilon) * m


def test_the_texts_held_are_of_what_is_held() -> None:
    """No text outlives its last event; every one that a window may list is there, each once."""
    rng = np.random.default_rng(8)
    times, texts = np.cumsum(rng.integers(0, 3, 4_000)), drawn(rng, 4_000)
    for epsilon, span in ((0.5, 300), (0.1, 2_000)):
        summary = created(epsilon, span)
        for end in range(0, 4_000, 250):
            summary.insert(times[end : end + 250], texts[end : end + 250])
            held = summary.stored_texts()
            ids = item_ids(held).tolist()
            assert ids == sorted(set(ids))
            alive = int(np.searchsorted(times, summary.now - span))
            assert set(held) <= set(texts[alive : end + 250])
            for n in (1, 10, span // 2, span):
                assert {item.text for item in summary.query(n, epsilon)} <= set(held)
        summary.advance(summary.now + span)
        assert summary.stored_texts() == []
        assert len(summary.to_bytes()) < 60


def test_space_is_that_of_the_items_and_their_names() -> None:
    """The counts as PairedItems has them, a length, and each text held once."""
    rng = np.random.default_rng(9)
    texts = [f"/{'long' * 60}/{number}" for number in rng.integers(0, 400, 20_000)]
    summary = fed(created(0.1, 10_000), np.arange(20_000), texts)
    plain = PairedItems.create(summary.parameters)
    plain.insert(np.arange(20_000), item_ids(texts))
    names = sum(2 + len(text.encode()) for text in summary.stored_texts())
    assert len(summary.to_bytes()) <= len(plain.to_bytes()) + 3 + names


def test_a_small_key_is_small() -> None:
    """Five events with texts of ten letters: fewer than 200 bytes, at any error."""
    times = 1_700_000_000_000 + np.arange(5) * 60_000
    for epsilon in (0.5, 0.01, 0.001):
        summary = fed(created(epsilon, 86_400_000), times, [f"/path/no-{i}" for i in range(5)])
        assert len(summary.to_bytes()) < 200


def test_keys_of_a_batch_do_not_touch_each_other() -> None:
    """Keys of a batch, whose texts are one list, do what each does alone; so do their answers."""
    rng = np.random.default_rng(10)
    parameters = PairedParameters(0.2, 700)
    states: list[bytes | None] = [None] * 7
    alone = [NamedItems.create(parameters) for _ in states]
    for begin in range(0, 3_600, 600):
        sizes = rng.choice([0, 1, 5, 40, 300], 7)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        times = np.concatenate([begin + np.sort(rng.integers(0, 500, size)) for size in sizes])
        texts = drawn(rng, len(times))
        different = [*sorted(set(texts)), "of no event"]
        codes = [different.index(text) for text in texts]
        query_times = np.tile([begin + 250, begin + 500], 7)
        result = run_named_items_batch(
            parameters,
            states,
            Batch(
                starts,
                times,
                codes,
                np.arange(8) * 2,
                query_times,
                [30, 700],
                np.full(7, begin + 600),
            ),
            different,
            0.2,
        )
        for g, summary in enumerate(alone):
            part = slice(starts[g], starts[g + 1])
            middle = starts[g] + int(np.searchsorted(times[part], begin + 250))
            for k, (first, last) in enumerate(((part.start, middle), (middle, part.stop))):
                summary.insert(times[first:last], texts[first:last])
                for j, n in enumerate((30, 700)):
                    i = 4 * g + 2 * k + j
                    at = slice(result.ends[i], result.ends[i + 1])
                    expected = {
                        (x.text, x.lower, x.upper)
                        for x in summary.query(n, 0.2, now=begin + 250 * (k + 1))
                    }
                    found = zip(result.names[at], result.lowers[at], result.uppers[at], strict=True)
                    assert set(found) == expected
            summary.advance(begin + 600)
            assert result.states[g] == summary.to_bytes()
        states = list(result.states)


def test_what_a_window_may_have_is_what_ids_say() -> None:
    """unlisted, events_low and events_high are those of frequent items of the ids."""
    rng = np.random.default_rng(11)
    parameters = PairedParameters(0.5, 500)
    times, texts = np.arange(2_000), drawn(rng, 2_000)
    asked = ([0, 1], [2_000], [10, 77, 500])
    ids = run_paired_items_batch(
        parameters, [None], Batch([0, 2_000], times, item_ids(texts), *asked), 0.5
    )
    codes = np.arange(2_000)
    named = run_named_items_batch(
        parameters, [None], Batch([0, 2_000], times, codes, *asked), texts, 0.5
    )  # texts that are not distinct are one item all the same
    for one in ("ends", "lowers", "uppers", "unlisted", "events_low", "events_high"):
        assert np.array_equal(getattr(ids, one), getattr(named, one))
    assert item_ids(named.names).tolist() == ids.items.tolist()


def test_texts_with_one_id_are_one_item_under_the_last_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted together, with bounds for both; other keys of the batch have no say in the name."""
    monkeypatch.setattr(
        named_items, "item_ids", lambda texts: np.array([len(text) for text in texts], np.int64)
    )
    parameters = PairedParameters(0.5, 100)
    first = run_named_items_batch(
        parameters, [None, None], Batch([0, 2, 3], [1, 2, 1], [1, 2, 0]), ["aaa", "bbb", "ccc"], 0
    )
    second = run_named_items_batch(
        parameters,
        first.states,
        Batch([0, 1, 2], [3, 3], [0, 1], [0, 1, 2], [4, 4], [100]),
        ["ddd", "e"],
        0.1,
    )
    assert second.names == ["ddd", "e", "aaa"]
    assert second.lowers.tolist() == [3, 1, 1]


TEXTS = st.lists(st.text(st.characters(exclude_categories=()), max_size=300), max_size=25)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(TEXTS)
def test_any_texts_come_back(texts: list[str]) -> None:
    """Empty, long, of any characters, lone surrogates: up to 256 bytes as they were, else cut."""
    summary = fed(created(0.01, 10**6), np.arange(len(texts)), texts)
    again = NamedItems.from_bytes(summary.to_bytes())
    shown = {item.text: item.lower for item in again.query(10**6, 0.01)}
    for text, count in Counter(texts).items():
        whole = text.encode("utf-8", "surrogatepass")
        if len(whole) <= 256:
            assert shown[text] == count
        else:
            (cut,) = {
                name[:-1] for name in shown if name.endswith("…") and text.startswith(name[:-1])
            }
            assert 250 <= len(cut.encode("utf-8", "surrogatepass")) <= 253


def test_long_texts_are_counted_by_all_of_them() -> None:
    """Two that differ behind what is stored are two, with one name."""
    long = "ä" * 200
    summary = fed(created(0.1, 100), np.arange(4), [long + "1", long + "2", long + "1", "x" * 256])
    assert [(item.text, item.lower) for item in summary.query(100, 0.1)] == [
        ("ä" * 126 + "…", 2),
        ("x" * 256, 1),
        ("ä" * 126 + "…", 1),
    ]
    assert NamedItems.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()


def test_what_is_no_item_is_refused_and_changes_nothing() -> None:
    """Items that are no texts, codes that are no places, shares that would miss some."""
    summary = fed(created(0.1, 100), np.arange(2), ["a", "b"])
    before = summary.to_bytes()
    for wrong in ([3], [None], [b"a"], [["a"]], [1.5]):
        with pytest.raises(SynopsisError, match="items must be texts, not"):
            summary.insert([5], wrong)  # type: ignore[arg-type]
    with pytest.raises(SynopsisError, match="for each time: 2, not"):
        summary.insert([5, 6], ["a"])
    with pytest.raises(SynopsisError, match="time went back"):
        summary.insert([0], ["a"])
    with pytest.raises(SynopsisError, match="a share must be from epsilon"):
        summary.query(10, 0.05)
    assert summary.to_bytes() == before
    summary.insert([5], "a")
    parameters = summary.parameters
    for code in (-1, 1, 2**62):
        with pytest.raises(SynopsisError, match="a code must be the place of one of 1 text"):
            run_named_items_batch(parameters, [None], Batch([0, 1], [1], [code]), ["a"], 0)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(SynopsisError, match="from 0 to 1"):
            run_named_items_batch(
                parameters, [None], Batch([0, 0], [], [], [0, 0], [], []), [], share
            )


def test_texts_that_do_not_belong_are_refused() -> None:
    """One more, one less, another's, none in UTF-8, too long a one: no state, checksums right."""
    summary = fed(created(0.1, 100), np.arange(3), ["one", "two", "six"])
    data = summary.to_bytes()
    three = b"".join(b"\x03" + text.encode() for text in summary.stored_texts())
    assert data.endswith(three)
    rest = data[: -len(three)]
    for texts in (
        three[:-4],
        three + b"\x03ten",
        three + b"\x00",
        three[:4] + three[:4] + three[8:],
        three[4:8] + three[:4] + three[8:],
        three[:-3] + b"ten",
        three[:-4] + b"\x02\xff\xff",
        three[:-4] + b"\x81\x02" + b"x" * 257,
        three[:-4] + b"\xff\xff\xff\xff\x7f",
        three[:-4] + b"\x83\x00six",
    ):
        with pytest.raises(SynopsisError):
            NamedItems.from_bytes(sealed(rest + texts))
