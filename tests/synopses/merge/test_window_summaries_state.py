"""Summaries of windows as bytes: grouping and order do not show, damage is refused."""

import numpy as np
import pytest

from slidestat.synopses import (
    CountParameters,
    DistinctParameters,
    DistinctWave,
    ExponentialHistogram,
    Extreme,
    ExtremeParameters,
    QuantileParameters,
    Quantiles,
    SampleParameters,
    SlidingSample,
    Spread,
    SpreadParameters,
    SumParameters,
    merge_summaries,
    read_summary,
    take_summary,
)
from slidestat.synopses.core.envelope import large, sealed
from slidestat.synopses.core.errors import SynopsisError, WindowTooLargeError
from slidestat.synopses.merge.summary import SUMMARY
from tests.synopses.hostile import DAMAGES, damaged, sealed as resealed
from tests.synopses.summarised import FAMILIES, GROUPINGS, SPAN, cut

LARGEST = 60_000


@pytest.mark.parametrize("name", FAMILIES)
def test_neither_order_nor_grouping_shows(name: str) -> None:
    """A chain, any tree, all at once in any order: the same bytes, while nothing is left out."""
    summaries = cut(name, "prices", 1_500, 1).summaries
    rng = np.random.default_rng(1)
    together = merge_summaries(summaries)
    for group in GROUPINGS.values():
        for _ in range(3):
            assert group(summaries, rng) == together


@pytest.mark.parametrize("name", FAMILIES)
def test_a_window_without_events_changes_nothing(name: str) -> None:
    """Empty is neutral, and alone as well; one summary merged is itself."""
    empty = take_summary(FAMILIES[name].create().to_bytes(), SPAN, 5)
    some = merge_summaries(cut(name, "zipf", 700, 2).summaries)
    assert merge_summaries([empty, empty]) == merge_summaries([empty]) == empty
    for parts in ([some], [some, empty], [empty, some], [empty, some, empty]):
        assert merge_summaries(parts) == some


@pytest.mark.parametrize("name", ["minimum", "rough maximum", "distinct", "lean distinct"])
def test_windows_of_these_may_overlap(name: str) -> None:
    """Extremes and distinct items are the same if an event is in several of the windows."""
    summaries = cut(name, "prices", 900, 3).summaries
    together = merge_summaries(summaries)
    assert merge_summaries([*summaries, together, *summaries[:3]]) == together


@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_round_trip_and_stay_small(name: str) -> None:
    """What is read writes the same bytes, and however much is merged, they do not grow on."""
    summaries = cut(name, "any doubles", 6_000, 4).summaries
    merged = summaries[0]
    for summary in summaries:
        merged = merge_summaries([merged, summary])
        assert read_summary(merged).to_bytes() == merged
        assert merged[2:4] == bytes([1, SUMMARY])
        assert len(merged) <= LARGEST
    if name not in (
        "quantiles",
        "quantiles by value",
        "items",
        "items in pairs",
        "named items",
        "distinct",
        "lean distinct",
    ):
        assert len(merged) <= 150


@pytest.mark.parametrize("name", FAMILIES)
def test_every_truncation_extension_and_changed_byte_is_refused(name: str) -> None:
    """No prefix is a summary, nor is one with something behind it; no wrong byte goes unseen."""
    data = merge_summaries(cut(name, "zipf", 60, 5).summaries)
    assert resealed(data) == data
    bad = [data[:end] for end in range(len(data))]
    bad += [resealed(data[:end]) for end in range(8, len(data))]
    bad += [data + tail for tail in (b"\0", b"\1", data)]
    bad += [resealed(data + tail) for tail in (b"\0", b"\1", b"\x80")]
    bad += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    state = FAMILIES[name].create().to_bytes()
    for other in [*bad, b"", b"{}", bytes(64), state, sealed(SUMMARY, b"\x00"), sealed(23, b"")]:
        with pytest.raises(SynopsisError):
            read_summary(other)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FAMILIES)
def test_hostile_bytes_are_refused_or_are_a_sound_summary(name: str, damage: str) -> None:
    """With right checksums, damage is refused, or leaves a summary that reads, merges, answers."""
    data = merge_summaries(cut(name, "zipf", 60, 6).summaries)
    for changed in damaged(data, damage, 500):
        try:
            read = read_summary(changed)
        except SynopsisError:
            continue
        assert read.to_bytes() == changed
        try:
            again = read_summary(merge_summaries([changed, changed]))
        except SynopsisError:
            continue  # of another kind by now, or too much for two
        for answers in ("answer", "mean", "variance", "deviation", "items"):
            if hasattr(again, answers):
                getattr(again, answers)()
        if hasattr(again, "quantile"):
            again.quantile(0.5)


def test_what_cannot_be_summarised_or_merged_is_refused() -> None:
    """Each refusal says what is wrong."""
    count = ExponentialHistogram.create(CountParameters(0.1, SPAN))
    count.insert([5, 6])
    counted = take_summary(count.to_bytes(), SPAN)

    def summary(made) -> bytes:  # type: ignore[no-untyped-def]
        return take_summary(made.to_bytes(), SPAN, 9)

    summed = [
        summary(ExponentialHistogram.create(SumParameters(0.1, SPAN, places))) for places in (0, 2)
    ]
    spreads = [summary(Spread.create(SpreadParameters(epsilon, SPAN))) for epsilon in (0.1, 0.2)]
    sides = [
        summary(Extreme.create(ExtremeParameters(side, SPAN))) for side in ("minimum", "maximum")
    ]
    seeds = [
        summary(DistinctWave.create(DistinctParameters(0.1, 0.01, SPAN, seed))) for seed in (1, 2)
    ]
    named = [summary(FAMILIES[name].create()) for name in ("items", "named items")]
    for parts in ([counted, summed[0]], summed, spreads, sides, seeds, named, [counted, seeds[0]]):
        with pytest.raises(SynopsisError, match="can be merged if they are of the same"):
            merge_summaries(parts)
    with pytest.raises(SynopsisError, match="nothing to merge"):
        merge_summaries([])
    sample = SlidingSample.create(SampleParameters(3, SPAN, 1)).to_bytes()
    for state, n, now, words in (
        (sample, 1, None, "no summary"),
        (b"", 1, None, "no synopsis"),
        (counted, 1, None, "no summary"),
        (count.to_bytes()[:-1], 1, None, "damaged"),
    ):
        with pytest.raises(SynopsisError, match=words):
            take_summary(state, n, now)
    for family in FAMILIES.values():
        made = family.create()
        if family.column is None:
            made.insert([50])
        else:
            made.insert([50], family.column(np.ones(1)))
        for n, now, words in (
            (0, None, "from 1 to"),
            (SPAN + 1, None, "from 1 to"),
            (1, 50, "earlier"),
        ):
            with pytest.raises(SynopsisError, match=words):
                take_summary(made.to_bytes(), n, now)


def test_what_is_too_much_together_is_refused() -> None:
    """Totals hold 2^120 units, quantiles 2^43 events: more is an error, and nothing wraps."""
    full = sealed(SUMMARY, b"\1" + b"\0" + large(1 << 120) + large(0) + large(0))
    assert read_summary(full).to_bytes() == full
    with pytest.raises(WindowTooLargeError, match="2\\^120"):
        merge_summaries([full, full])
    doubled = take_summary(_one_value(), SPAN)
    for _ in range(43):
        doubled = merge_summaries([doubled, doubled])
    read = read_summary(doubled)
    assert read.quantile(0.999999).upper == 7.5  # type: ignore[union-attr]
    with pytest.raises(WindowTooLargeError, match="2\\^43"):
        merge_summaries([doubled, doubled])


def _one_value() -> bytes:
    summary = Quantiles.create(QuantileParameters(0.1, SPAN))
    summary.insert([1], [7.5])
    return summary.to_bytes()
