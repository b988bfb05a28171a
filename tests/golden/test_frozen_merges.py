"""Merges of format version 1, written once: they are read back forever, and written the same."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slidestat.synopses import (
    Bundle,
    CountParameters,
    ExponentialHistogram,
    MergedHistogram,
    QuantileParameters,
    Quantiles,
    SumParameters,
    SumWave,
    WaveParameters,
    union_quantiles,
    union_totals,
)

FROZEN = Path(__file__).parent / "frozen" / "merge-1"
HOUR = 3_600_000
NOON = 1_700_000_000_000

# What each file was made of, in arithmetic alone: another NumPy may draw other random numbers.
STEPS = np.arange(3_000, dtype=np.int64)
TIMES = NOON + np.cumsum(STEPS * STEPS % 1_999)
VALUES = (STEPS * 7_919 % 100_003) / 100


def _parts(make: Callable[[np.ndarray, np.ndarray], bytes], parties: int) -> dict[str, bytes]:
    """What parties sent who saw the events by turns."""
    return {
        f"partition-{party}": make(TIMES[party::parties], VALUES[party::parties])
        for party in range(parties)
    }


def _count(times: np.ndarray, _: np.ndarray) -> bytes:
    histogram = ExponentialHistogram.create(CountParameters(0.1, HOUR))
    histogram.insert(times)
    return histogram.to_bytes()


def _sum(times: np.ndarray, values: np.ndarray) -> bytes:
    histogram = ExponentialHistogram.create(SumParameters(0.05, HOUR, 2))
    histogram.insert(times, values)
    return histogram.to_bytes()


def _thirds(times: np.ndarray, values: np.ndarray) -> bytes:
    return _sum(times, values / 3)


def _sum_wave(times: np.ndarray, values: np.ndarray) -> bytes:
    wave = SumWave.create(WaveParameters(0.1, HOUR))
    wave.insert(times, values.astype(np.int64))
    return wave.to_bytes()


def _quantiles(times: np.ndarray, values: np.ndarray) -> bytes:
    summary = Quantiles.create(QuantileParameters(0.3, HOUR))
    summary.insert(times, values)
    return summary.to_bytes()


def _merged(parts: dict[str, bytes]) -> MergedHistogram:
    return MergedHistogram.of(list(parts.values()))


STATES: dict[str, Callable[[], Bundle | MergedHistogram]] = {
    "bundle-empty": lambda: Bundle.of({}),
    "bundle-counts": lambda: Bundle.of(_parts(_count, 3)),
    "bundle-sums": lambda: Bundle.of(_parts(_sum, 2)),
    "bundle-names": lambda: Bundle.of(
        {"Zürich/\N{BLACK STAR}": _count(TIMES, VALUES), " ": _count(TIMES[:5], VALUES)}
    ),
    "merged-counts": lambda: _merged(_parts(_count, 5)),
    "merged-sums": lambda: _merged(_parts(_sum, 5)),
    "merged-thirds": lambda: _merged(_parts(_thirds, 2)),
    "merged-waves": lambda: _merged(_parts(_sum_wave, 3)),
    "merged-twice": lambda: _merged(_parts(_count, 2)).merge(_merged(_parts(_count, 3))),
}


def facts(state: Bundle | MergedHistogram) -> dict[str, object]:
    found: dict[str, object] = {"made with": repr(state.parameters)}
    if isinstance(state, MergedHistogram):
        answers = [[repr(figure) for figure in state.query(n)] for n in (1, HOUR // 10, HOUR)]
        return {**found, "now": state.now, "depth": state.depth, "answers": answers}
    found["parts"] = [[part.party, part.now] for part in state.parts]
    if state.parts:
        over = union_totals([state], [state.now], [1, HOUR // 10, HOUR])
        found["answers"] = [repr(x) for x in (over.estimates.tolist(), over.lowers.tolist())]
    return found


@pytest.mark.parametrize("name", STATES)
def test_frozen_bytes_are_read_back(name: str) -> None:
    """A merge of version 1 is what it was: its time, its parameters, its answers."""
    state = type(STATES[name]()).from_bytes((FROZEN / f"{name}.bin").read_bytes())
    state.check()
    assert facts(state) == json.loads((FROZEN / "facts.json").read_text())[name]


@pytest.mark.parametrize("name", STATES)
def test_the_same_parts_write_the_same_bytes(name: str) -> None:
    """While version 1 is what is written, equal parts give the bytes that they gave then."""
    assert STATES[name]().to_bytes() == (FROZEN / f"{name}.bin").read_bytes()


def test_two_hand_made_streams() -> None:
    """Small enough to follow: l = 1, four and three events; what is replayed, what is answered.

    With l = 1 the first has buckets of 2, 1 and 1 events (edges at 2, 3, 4), so its estimates of
    windows from 4, 3 and 2 on are 1, 2 and 3.5; the second has 2 and 1 (edges at 6, 7): 1 and 2.5.
    So half units are replayed: 3, 2, 2 at times 2, 3, 4, and 3, 2 at 6, 7.
    """
    sent = []
    for times in ([1, 2, 3, 4], [5, 6, 7]):
        histogram = ExponentialHistogram.create(CountParameters(0.5, 100))
        histogram.insert(times)
        sent.append(histogram.to_bytes())
    assert ExponentialHistogram.from_bytes(sent[0]).buckets() == [(2, 2), (1, 3), (1, 4)]
    assert ExponentialHistogram.from_bytes(sent[1]).buckets() == [(2, 6), (1, 7)]
    halves = ExponentialHistogram.create(SumParameters(0.5, 100, 0))
    halves.insert([2, 3, 4, 6, 7], [3, 2, 2, 3, 2])
    merged = MergedHistogram.of(sent)
    assert halves.to_bytes() in merged.to_bytes()
    for n, exact in ((1, 1), (2, 2), (3, 3), (4, 4), (7, 7)):
        found = merged.query(n)
        inner = halves.query(n)
        assert found.lower <= exact <= found.upper
        assert found.lower >= inner.lower / 2 / 1.5
        assert found.upper <= inner.upper / 2 / 0.5
    together = Bundle.of({"a": sent[0], "b": sent[1]})
    assert union_totals([together], [8], [100]).estimates[0, 0] == 3.5 + 2.5


def test_quantiles_of_two_exact_parts_are_those_of_all_their_values() -> None:
    """While parts are exact, so is their union: nearest-rank quantiles of all values together."""
    parts = {
        name: _quantiles(TIMES[at], VALUES[at])
        for name, at in (("a", slice(9)), ("b", slice(9, 20)))
    }
    together = Bundle.of(parts)
    found = union_quantiles([together], [together.now], [HOUR], [0, 0.25, 0.5, 1])
    ordered = np.sort(VALUES[:20])
    expected = [ordered[0], ordered[4], ordered[9], ordered[19]]
    assert found.estimates[0, 0].tolist() == expected
    assert found.rank_errors[0, 0].tolist() == [0, 0, 0, 0]
