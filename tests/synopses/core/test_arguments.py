"""What a synopsis is asked with: times, windows, items, names and parameters of other types."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from slidestat.synopses import (
    BitmapsParameters,
    Bundle,
    CountParameters,
    DistinctParameters,
    DistinctWave,
    ExtremeParameters,
    FrequentItems,
    FrequentParameters,
    HashedCountParameters,
    LeanDistinct,
    LeanDistinctParameters,
    LpNormParameters,
    NamedItems,
    PairedItems,
    PairedParameters,
    PositionWave,
    SampleParameters,
    SlidingSample,
    SynopsisError,
    ValueHistogramParameters,
    ValueQuantileParameters,
    ValueQuantiles,
    WaveParameters,
    item_ids,
    merge_lean_distinct,
    merge_summaries,
    party_seed,
    read_summary,
    take_summary,
    union_items,
    union_value_quantiles,
    union_value_ranks,
)
from slidestat.synopses.core.stored import Stored
from tests.synopses.every import EVERY
from tests.synopses.test_every_synopsis import middle_aged

SPAN = 100
NO_WHOLE_NUMBERS: tuple[Any, ...] = (5.5, 1e9, np.float64(1e9), "9", None, np.datetime64("2030"))


@pytest.mark.parametrize("name", EVERY)
def test_a_time_is_a_whole_number(name: str) -> None:
    """One with a part would be cut off in the bytes, and not in the synopsis."""
    entry = EVERY[name]
    synopsis: Stored[Any] = middle_aged(entry)
    before = synopsis.to_bytes(), synopsis.now
    for wrong in NO_WHOLE_NUMBERS:
        with pytest.raises(SynopsisError, match="must be a whole number"):
            synopsis.advance(wrong)
        if wrong is None:  # A question without it is of the synopsis's own.
            continue
        with pytest.raises(SynopsisError, match="whole number"):
            entry.answers(synopsis, 1, wrong)
        with pytest.raises(SynopsisError):
            entry.answers(synopsis, wrong, synopsis.now)
    assert (synopsis.to_bytes(), synopsis.now) == before
    answers = [repr(entry.answers(synopsis, n, synopsis.now)) for n in (1, np.uint64(1))]
    assert answers[0] == answers[1]
    synopsis.advance(cast(int, np.int64(synopsis.now + 1)))
    assert type(synopsis.now) is int


def lean(items: list[int]) -> bytes:
    found = LeanDistinct.create(LeanDistinctParameters(0.1, 0.1, SPAN, 1))
    found.insert(list(range(len(items))), items)
    return found.to_bytes()


def by_value(values: list[float]) -> bytes:
    found = ValueQuantiles.create(ValueQuantileParameters(0.1, 0.1, SPAN))
    found.insert(list(range(len(values))), values)
    return found.to_bytes()


def test_other_questions_are_of_whole_numbers() -> None:
    """Those that only some families have."""
    wave = DistinctWave.create(DistinctParameters(0.1, 0.1, SPAN, 1))
    wave.insert([1, 2], [7, 8])
    sample = SlidingSample.create(SampleParameters(3, SPAN, 1))
    position = PositionWave.create(WaveParameters(0.1, SPAN))
    asks: tuple[Callable[[Any], Any], ...] = (
        wave.retained,
        wave.kept_items,
        lambda n: wave.retained(1, n),
        LeanDistinct.from_bytes(lean([1])).window,
        lambda now: take_summary(by_value([1.0, 2.0]), 1, now),
        lambda now: take_summary(wave.to_bytes(), 1, now),
        sample.sample,
        position.ages,
    )
    for ask in asks:
        for wrong in (5.5, "9", np.float64(9)):
            with pytest.raises(SynopsisError):
                ask(wrong)


def test_an_item_asked_for_is_a_whole_number() -> None:
    """The count of a text is not that of no event."""
    for summary in (
        FrequentItems.create(FrequentParameters(0.1, SPAN)),
        PairedItems.create(PairedParameters(0.1, SPAN)),
    ):
        summary.insert([1, 2, 3], [7, 7, 9])
        for wrong in ("7", 7.0, None, [7]):
            with pytest.raises(SynopsisError, match="an item must be a whole number"):
                summary.query(SPAN, cast(int, wrong))
        assert summary.query(SPAN, cast(int, np.int64(7))).estimate == 2


def test_marks_are_truth_values() -> None:
    """A text would be one, and so would what is not known."""
    drawn = SlidingSample.create(SampleParameters(3, SPAN, 1))
    drawn.insert([1, 2, 3], [1.0, 2.0, 3.0])
    sample = drawn.sample(SPAN)
    for wrong in (["yes", "no", ""], [float("nan"), 0, 0], [2, 0, 0], [None, True, True]):
        with pytest.raises(SynopsisError, match="marks must be True or False"):
            sample.share(cast(Any, wrong))
    for delta in ("0.5", 0, 1, None):
        with pytest.raises(SynopsisError, match="a delta between 0 and 1"):
            sample.share([True, False, False], cast(float, delta))
    assert sample.share([1, 0, 0]).estimate == sample.share(np.array([True, False, False])).estimate


def test_only_texts_and_bytes_are_hashed() -> None:
    """Numbers of NumPy have bytes, too, but others for each type: 1 would be several items."""
    for wrong in (
        [np.int64(1)],
        np.array([1.0]),
        [1],
        [None],
        [bytearray(b"a")],
        [memoryview(b"a")],
    ):
        with pytest.raises(SynopsisError, match="items must be str or bytes"):
            item_ids(cast(Any, wrong))
    for one in ("abc", b"abc"):
        with pytest.raises(SynopsisError, match="not the letters of one"):
            item_ids(cast(Any, one))
    for seed in (-1, 2**63, 2**64, 1.5, "1"):
        with pytest.raises(SynopsisError, match="seed must be a whole number"):
            item_ids(["a"], cast(int, seed))
    assert item_ids([np.str_("a"), np.bytes_(b"a"), "a"]).tolist() == item_ids(["a"] * 3).tolist()


def test_hashed_counters_are_of_64_bit_items() -> None:
    """Whatever type they have: two of 32 bits are not one of 64."""
    parameters = HashedCountParameters(0.1, 0.1, SPAN)
    expected = parameters.counters(np.array([1, 2])).tolist()
    for items in ([1, 2], np.array([1, 2], np.int32), np.array([1, 2], ">i8")):
        assert parameters.counters(cast(Any, items)).tolist() == expected
    with pytest.raises(SynopsisError, match="whole numbers"):
        parameters.counters(cast(Any, np.array([1.0, 2.0])))


def test_what_can_be_read_once_is_merged_as_a_list() -> None:
    """An iterator has all of its states, and one of nothing is refused as a list of nothing is."""
    states = [lean([1, 2]), lean([3])]
    assert merge_lean_distinct(cast(Any, iter(states))) == merge_lean_distinct(states)
    summaries = [take_summary(state, SPAN) for state in states]
    assert merge_summaries(cast(Any, iter(summaries))) == merge_summaries(summaries)
    for merge in (merge_lean_distinct, merge_summaries):
        with pytest.raises(SynopsisError, match="nothing to merge"):
            merge(cast(Any, iter([])))


def test_what_is_stored_is_bytes() -> None:
    """Or another buffer of them, as databases give; a text is told from what it should be."""
    state = lean([1])
    for same in (bytearray(state), memoryview(state), np.frombuffer(state, np.uint8)):
        assert LeanDistinct.from_bytes(cast(bytes, same)).to_bytes() == state
    for read in (LeanDistinct.from_bytes, Bundle.from_bytes, read_summary):
        for wrong in ("text", None, 5, [1]):
            with pytest.raises(SynopsisError, match="a stored synopsis is bytes, not"):
                read(cast(bytes, wrong))
    with pytest.raises(SynopsisError, match="a stored synopsis is bytes, not"):
        Bundle.of({"a": cast(bytes, "text")})


def test_nothing_asked_is_nothing_answered() -> None:
    """No window, no quantile and no value: answers of that shape."""
    bundle = Bundle.of({"a": by_value([1.0, 2.0])})
    for windows, asked in (([], [0.5]), ([5], []), ([], [])):
        shape = 1, len(windows), len(asked)
        assert union_value_quantiles([bundle], [9], windows, asked).estimates.shape == shape
        assert union_value_ranks([bundle], [9], windows, asked).shape == (4, 3, *shape)


def test_the_name_of_a_party_is_a_text() -> None:
    """A number is refused as such."""
    for name in (1, b"a", None):
        with pytest.raises(SynopsisError, match="name of a party must be text"):
            Bundle.of(cast(Any, {name: lean([1])}))
        with pytest.raises(SynopsisError, match="is no text"):
            party_seed(1, cast(str, name))


def test_parameters_that_are_no_numbers_are_refused() -> None:
    """By the sentence that names what they must be, not by an error of Python's."""
    named = NamedItems.create(PairedParameters(0.1, SPAN))
    items = FrequentItems.create(FrequentParameters(0.1, SPAN))
    bundle = Bundle.of({"a": items.to_bytes()})
    makers: tuple[Callable[[Any], Any], ...] = (
        lambda wrong: ExtremeParameters("maximum", SPAN, wrong),
        lambda wrong: DistinctParameters(wrong, 0.1, SPAN, 1),
        lambda wrong: DistinctParameters(0.1, wrong, SPAN, 1),
        lambda wrong: LeanDistinctParameters(0.1, wrong, SPAN, 1),
        lambda wrong: BitmapsParameters(64, wrong, SPAN, 1),
        lambda wrong: LpNormParameters(wrong, 0.5, 0.5, SPAN),
        lambda wrong: LpNormParameters(2, wrong, 0.5, SPAN),
        lambda wrong: named.query(SPAN, wrong),
        lambda wrong: items.frequent(SPAN, wrong),
        lambda wrong: union_items([bundle], [9], [5], wrong),
        lambda wrong: ValueHistogramParameters(0.1, SPAN, wrong),
        lambda wrong: ValueHistogramParameters(0.1, SPAN, (0, wrong)),
    )
    for make in makers:
        for wrong in ("0.5", None, float("nan")):
            with pytest.raises(SynopsisError):
                make(wrong)
    with pytest.raises(SynopsisError, match="as Python's float"):
        CountParameters(cast(float, np.float32(0.1)), SPAN)
    with pytest.raises(SynopsisError, match="that a double can hold"):
        ValueHistogramParameters(0.1, SPAN, (2**53 + 1,))
