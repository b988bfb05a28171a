"""A key audited while its events go by: the same findings as with all of them, in less memory."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, strategies as st

from slidestat.declare.statistics import AgeOfLast, Count, LandmarkCount, LandmarkSum
from slidestat.schemas.emission import Emission
from slidestat.spark.audit import key
from slidestat.spark.audit.columns import Column, ExactNumbers
from slidestat.spark.audit.key import Emitted, Finding, KeyEvents, KeyJudge, RunningAudit
from tests.audit.test_audit_key import NEVER_MS, Partition
from tests.engine.cases import BY_FIGURES, TOPOLOGIES, Case, cases, laws, topology
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode


def in_pieces(partition: Partition, name: str, size: int) -> list[Finding]:
    """What an audit finds that gets a key's events and emissions in order, `size` at a time."""
    rows = partition.rows[name]
    emitted = [
        (emission.window_end_ms, 0, Emitted(emission.window_end_ms, 0, encoded(emission), ""))
        for emission in partition.emissions[name].values()
    ]
    in_order: list[tuple[int, int, object]] = sorted(
        [*emitted, *((time, 1, row) for row in rows for time in row[:1])], key=lambda row: row[:2]
    )
    judge = KeyJudge(partition.declaration, name, partition.watermark, NEVER_MS)
    audit = RunningAudit(judge, "")
    found: list[Finding] = []
    for start in range(0, len(in_order), size):
        piece = in_order[start : start + size]
        events = [row for _, _, row in piece if isinstance(row, tuple) and len(row) == 3]
        found += audit.go_on(
            KeyEvents(
                np.array([row[0] for row in events], np.int64),
                np.array([row[1] for row in events], np.int64),
                {
                    column: pa.array([row[2][place] for row in events], pa.string())
                    for place, column in enumerate(partition.declaration.columns)
                },
            ),
            [row for _, _, row in piece if isinstance(row, Emitted)],
            piece[-1][0],
        )
    nothing = np.zeros(0, np.int64)
    no_texts = {column: pa.array([], pa.string()) for column in partition.declaration.columns}
    return [*found, *audit.end(KeyEvents(nothing, nothing, no_texts))]


def encoded(emission: Emission) -> bytes:
    return msgspec.json.encode(emission)


def as_text(findings: Sequence[Finding]) -> Counter[str]:
    return Counter(map(repr, findings))


@pytest.fixture
def drops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key, "_WORTH_DROPPING", 1)


@laws
@given(cases(max_size=120, topologies=[*TOPOLOGIES, *BY_FIGURES]), st.sampled_from([1, 3, 50]))
@pytest.mark.usefixtures("drops_at_once")
def test_pieces_find_what_the_whole_key_does(case: Case, size: int) -> None:
    """Every statistic, whatever pieces its events come in, all being dropped as soon as they can:
    the same findings, also where emissions are missing, or wrong.
    """
    assume(not case.topology.publishes_partitions)
    partition = Partition(case.topology, case.records)
    random = Random(len(case.records))
    for name, emissions in partition.emissions.items():
        for tick in list(emissions):
            if random.random() < 0.1:
                del emissions[tick]
            elif random.random() < 0.2:
                figures = list(emissions[tick].figures)
                place = random.randrange(len(figures))
                figures[place] = msgspec.structs.replace(figures[place], estimate=1e9)
                emissions[tick] = msgspec.structs.replace(emissions[tick], figures=figures)
        assert as_text(in_pieces(partition, name, size)) == as_text(partition.audit(name))


@pytest.mark.usefixtures("drops_at_once")
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_what_is_asked_of_dropped_events_is_kept(size: int) -> None:
    """Totals since the first event, since a key was forgotten, and ages beyond the window."""
    asked = replace(
        topology(
            statistics=(
                Count(),
                LandmarkCount(),
                LandmarkSum(),
                LandmarkCount(name="large", where="value > 2"),
                AgeOfLast(number=30, epsilon=1),
                AgeOfLast(number=9, where="value > 2", name="age_of_large", epsilon=1),
            )
        ),
        forget_after="3s",
    )
    chance, time, records = Random(5), START_MS, []
    for offset in range(700):
        time += chance.choice([0, 1, 40, 160] + [4_000] * (offset % 100 == 99))
        records.append(Record(offset, b"", encode("a", time, chance.choice([0.5, 3])), START_MS))
    partition = Partition(asked, records)
    found = in_pieces(partition, "a", size)
    assert as_text(found) == as_text(partition.audit("a"))
    assert not [finding for finding in found if finding.violation]
    ages = [f for f in found if f.figure and f.figure.statistic == "age_of_last_30"]
    assert any(f.verdict and f.verdict.exact is not None for f in ages)


NUMBERS = st.one_of(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9
    ),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40),
    st.integers(-(2**70), 2**70).map(Decimal),
    st.sampled_from([Decimal("1E+5"), Decimal("9007199254740992"), Decimal("-1E-9")]),
)


@laws
@given(
    st.lists(st.lists(NUMBERS, max_size=20), max_size=5),
    st.integers(0, 10),
    st.integers(0, 40),
    st.integers(1, 300),
)
def test_sums_are_exact(parts: list[list[Decimal]], gone: int, start: int, times: int) -> None:
    """Of decimals of any size and places, in any parts, some dropped, sums beyond 2^63."""
    numbers, all_of = ExactNumbers(), []
    for part in parts:
        numbers.extend(pa.array([str(n) for n in part * times], pa.string()))
        all_of += part * times
    gone = min(gone, len(all_of))
    numbers.drop(gone)
    exact = [Fraction(n) for n in all_of[gone:]][start:]
    chosen, scale = slice(start, len(all_of) - gone), numbers.scale
    if start > len(all_of) - gone:
        return
    assert Fraction(numbers.total(chosen), scale) == sum(exact)
    assert Fraction(numbers.total_of_magnitudes(chosen), scale) == sum(map(abs, exact))
    assert Fraction(numbers.total_of_squares(chosen), scale**2) == sum(x * x for x in exact)


def test_a_number_of_thousands_of_decimal_places_is_exact() -> None:
    """More digits than Python reads at once."""
    for text in ("0." + "9" * 5_000, "-12." + "0" * 6_000 + "1", "1" * 300 + "." + "1" * 5_000):
        numbers = ExactNumbers()
        numbers.extend(pa.array(["1", text]))
        assert numbers.at(1) == Fraction(Decimal(text))


def test_numbers_that_every_double_reads_as_zero_are_zero() -> None:
    """A short text must not take as many digits as its exponent says."""
    numbers = ExactNumbers()
    numbers.extend(pa.array(["1e-999999999", "0e-999999999", "-3E-400", "2.5"], pa.string()))
    assert Fraction(numbers.total(slice(0, 4)), numbers.scale) == Fraction(5, 2)
    assert numbers.scale == 10


def test_items_that_no_window_has_are_forgotten() -> None:
    """However many different ones came; those that are there are counted as before."""
    column = Column(is_item=True)
    for start in range(0, 100_000, 1_000):
        names = [f"item {n}" if n % 10 else None for n in range(start, start + 1_000)]
        column.extend(pa.array(names, pa.string()))
        column.drop(1_000 if start else 0)
    assert len(column.items) < 5_000
    tallies = column.tallies(slice(0, 900))
    there = {name for name, tally in zip(column.items, tallies.tolist(), strict=True) if tally}
    assert there == {name for name in names if name}
    assert column.code_of("item 1") is None
