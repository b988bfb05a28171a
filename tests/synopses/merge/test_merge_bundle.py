"""Laws of bundles: merging is a union, whatever the order; bytes are read back or refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slidestat.synopses import (
    ApproximateCount,
    ApproximateCountParameters,
    Bundle,
    CountParameters,
    ExponentialHistogram,
    SampleParameters,
    SlidingSample,
    SynopsisError,
    party_seed,
    union_totals,
)
from slidestat.synopses.core.envelope import sealed, varint
from slidestat.synopses.merge.bundle import FAMILIES as MERGEABLE, HISTOGRAM, MERGED
from tests.synopses.hostile import DAMAGES, sealed_outside
from tests.synopses.parties import (
    FAMILIES,
    SPAN,
    bundle,
    columns,
    drawn,
    party_name,
    synopsis,
    taken,
)

ROOT = Path(__file__).parents[3]


def counted(times: list[int], now: int) -> bytes:
    histogram = ExponentialHistogram.create(CountParameters(0.2, SPAN))
    histogram.insert(sorted(min(time, now) for time in times))
    histogram.advance(max(now, histogram.now))
    return histogram.to_bytes()


SENT = st.dictionaries(
    st.sampled_from(["a", "b", "ä", "c" * 255]),
    st.builds(counted, st.lists(st.integers(0, 40), max_size=6), st.integers(0, 50)),
)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(one=SENT, two=SENT, three=SENT)
def test_merging_is_associative_commutative_and_idempotent(
    one: dict[str, bytes], two: dict[str, bytes], three: dict[str, bytes]
) -> None:
    """Any grouping, order and repetition of merges ends in the same bytes; nothing is changed."""
    a, b, c = (Bundle.of(sent) for sent in (one, two, three))
    before = a.to_bytes()
    both = a.merge(b).merge(c).to_bytes()
    for other in (a.merge(b.merge(c)), c.merge(a, b), b.merge(c, b, a, a), a.merge(b, c).merge(b)):
        assert other.to_bytes() == both
    assert a.merge(a).to_bytes() == a.merge(Bundle.of({})).to_bytes() == before
    assert Bundle.of({}).merge(a).to_bytes() == a.to_bytes() == before
    assert Bundle.from_bytes(both).to_bytes() == both


def test_of_a_party_in_both_what_is_further_on_stays() -> None:
    """A later state replaces an earlier one, in whichever order they come; others stay."""
    early, late = counted([1, 2], 10), counted([1, 2, 15], 20)
    other = Bundle.of({"b": counted([3], 5)})
    for first, second in ((early, late), (late, early)):
        merged = Bundle.of({"a": first}).merge(other, Bundle.of({"a": second}))
        assert [(part.party, part.now) for part in merged.parts] == [("a", 20), ("b", 5)]
        assert merged.parts[0].data == late
        assert (merged.now, merged.behind(20), merged.behind(5)) == (20, ("b",), ())
        assert merged.behind(21) == ("a", "b")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_bundled_and_read_back(name: str) -> None:
    """Of each kind: bytes round-trip, parts are sound, and a restart half-way changes nothing."""
    split = taken(name, drawn("skewed", FAMILIES[name].values[0], 3, 400, 1))
    whole = bundle(name, split)
    whole.check()
    assert Bundle.from_bytes(whole.to_bytes()).to_bytes() == whole.to_bytes()
    assert bundle(name, split, until=200).merge(whole).to_bytes() == whole.to_bytes()
    resumed = {}
    for part in bundle(name, split, until=200).parts:
        again = type(synopsis(name, split, 0, 0)).from_bytes(part.data)
        party = [party_name(number) for number in range(3)].index(part.party)
        mine = (split.whose == party) & (np.arange(400) >= 200)
        again.insert(*columns(name, split.times[mine], split.values[mine]))
        resumed[part.party] = again.to_bytes()
    assert Bundle.of(resumed).to_bytes() == whole.to_bytes()


def test_what_cannot_be_bundled_is_refused() -> None:
    """Other kinds, other parameters, names that are none, and two parties with one seed."""
    good = counted([1], 2)
    other = ExponentialHistogram.create(CountParameters(0.2, SPAN + 1)).to_bytes()
    extreme = synopsis("minimum", drawn("evenly", "prices", 1, 5, 1), 0).to_bytes()
    bits = ApproximateCount.create(ApproximateCountParameters(SPAN, 0.1)).to_bytes()
    for sent, words in (
        ({"a": good, "b": other}, "equal parameters"),
        ({"a": good, "b": extreme}, "one kind"),
        ({"a": bits}, "kind 7 cannot be merged"),
        ({"a": Bundle.of({"a": good}).to_bytes()}, "kind 23 cannot be merged"),
        ({"a": b""}, "no synopsis"),
        ({"a": good[:-1]}, "damaged"),
        ({"": good}, "name of a party"),
        ({"a" * 256: good}, "name of a party"),
        ({"\ud800": good}, "name of a party"),
    ):
        with pytest.raises(SynopsisError, match=words):
            Bundle.of(sent)
    with pytest.raises(SynopsisError, match="equal parameters"):
        Bundle.of({"a": good}).merge(Bundle.of({"b": other}))
    draws = SlidingSample.create(SampleParameters(3, SPAN, party_seed(1, "a"))).to_bytes()
    with pytest.raises(SynopsisError, match="'a' and 'b' have one seed"):
        Bundle.of({"a": draws, "b": draws})
    with pytest.raises(SynopsisError, match="'a' and 'b' have one seed"):
        Bundle.of({"a": draws}).merge(Bundle.of({"b": draws}))
    for seed in (-1, 2**63, 1.5, True):
        with pytest.raises(SynopsisError, match="seed"):
            party_seed(seed, "a")  # type: ignore[arg-type]


def test_what_cannot_be_asked_is_refused() -> None:
    """Nothing to ask, another question, a time gone by, a window that is not kept."""
    good = Bundle.of({"a": counted([1], 2), "b": counted([1], 9)})
    for bundles, times, spans, words in (
        ([], [], [5], "a time is needed"),
        ([good], [9, 9, 9], [5], "a time is needed"),
        ([Bundle.of({})], [9], [5], "kind 0"),
        ([good], [8], [5], "8 is earlier than 9, the time that party 'b'"),
        ([good], [2**61 + 1], [5], "out of range"),
        ([good], [9.5], [5], "whole numbers"),
        ([good], [9], [0], "from 1 to 1000"),
        ([good], [9], [SPAN + 1], "from 1 to 1000"),
        (
            [good, Bundle.of({"a": ExponentialHistogram.create(CountParameters(1, 9)).to_bytes()})],
            [9, 9],
            [5],
            "equal parameters",
        ),
    ):
        with pytest.raises(SynopsisError, match=words):
            union_totals(bundles, times, spans)
    with pytest.raises(SynopsisError, match="merged histogram, which is no longer read: keep the"):
        Bundle.from_bytes(sealed(MERGED, varint(HISTOGRAM) + counted([1], 2)))
    with pytest.raises(SynopsisError, match="no time"):
        _ = Bundle.of({}).now


def states() -> dict[str, bytes]:
    kept = drawn("evenly", "prices", 2, 120, 3)
    counts = bundle("count", kept)
    return {
        "bundle": Bundle.of({part.party[-1]: part.data for part in counts.parts}).to_bytes(),
        "empty bundle": Bundle.of({}).to_bytes(),
        "bundle of sums": bundle("sum", kept).to_bytes(),
    }


@pytest.mark.parametrize("name", states())
def test_every_truncation_extension_and_changed_byte_is_refused(name: str) -> None:
    """No prefix is a merge, nor is one with something behind it; no wrong byte goes unseen."""
    data = states()[name]
    assert sealed_outside(data) == data
    bad = [data[:end] for end in range(len(data))]
    bad += [sealed_outside(data[:end]) for end in range(8, len(data))]
    bad += [data + tail for tail in (b"\0", b"\1", data)]
    bad += [sealed_outside(data + tail) for tail in (b"\0", b"\1", b"\x80", data)]
    for change in (1, 0x80, 0xFF):
        bad += [data[:at] + bytes([data[at] ^ change]) + data[at + 1 :] for at in range(len(data))]
    for other in [*bad, b"", b"{}", bytes(64)]:
        with pytest.raises(SynopsisError):
            Bundle.from_bytes(other)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [name for name in states() if name != "empty bundle"])
def test_hostile_bytes_are_refused_or_are_a_sound_state(name: str, damage: str) -> None:
    """With a right checksum, damage is refused by what is inside, or leaves a state that works.

    Checksums of the parts, too: what a hostile sender would do.
    """
    data = states()[name]
    last = data.rindex(b"\xa7\x53\1")  # the synopsis inside, or the last of them
    rng = np.random.default_rng(7)
    for case in range(2_000):
        body = bytearray(data)
        DAMAGES[damage](body, rng)
        changed = bytes(body)
        if case % 2 == 0 and len(changed) > last + 8:
            changed = changed[:last] + sealed_outside(changed[last:])
        changed = sealed_outside(changed)
        try:
            state = Bundle.from_bytes(changed)
        except SynopsisError:
            continue
        assert state.to_bytes() == changed
        if state.parts:
            now = state.now
            answer = union_totals([state], [now], [1])
            assert bool(np.all(answer.lowers <= answer.uppers))


def test_the_card_names_each_kind_that_is_merged() -> None:
    """Its table of answers over a union has the kinds that a bundle takes, no more and no fewer."""
    card = (ROOT / "app" / "slidestat" / "synopses" / "merge" / "README.md").read_text(
        encoding="utf-8"
    )
    rows = [row.split(" | ") for row in card.splitlines() if row.count(" | ") == 3]
    kinds = [row[2] for row in rows if "`union_" in row[1]]
    assert {int(kind) for cell in kinds for kind in cell.split(", ")} == {
        kind for family in MERGEABLE for kind in family.kinds
    }
