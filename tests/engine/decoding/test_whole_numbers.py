"""Numbers from 2^53 on that no double is, as values, in conditions, as keys and as items: as
written, by both readers, however they are written.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import example, given, settings, strategies as st

from slidestat import (
    Above,
    Alert,
    Count,
    Histogram,
    Maximum,
    MeanHistogram,
    RankQuantiles,
    SumHistogram,
    TopItems,
    Topology,
    TopologyDriver,
)
from slidestat.declare.expressions.expression import condition
from slidestat.declare.expressions.nodes import Call, FieldValue, Literal, text_of
from slidestat.declare.forms.resolved import resolved
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.decoding.scan_reader import ScanReader
from slidestat.errors import SlidestatError
from slidestat.schemas.dead_letter import Reason
from slidestat.spark.audit.declaration import declaration_of
from slidestat.spark.audit.events.conditions import holds, number
from slidestat.spark.audit.events.reading import RawRecord, is_passed_over
from tests.engine.cases import laws

START = 1_600_000_000_000
E = 2**53
# For each reader: both have the same examples.
laws = settings(laws, max_examples=40)


@pytest.fixture(autouse=True, scope="module", params=["kernels", "msgspec"])
def _reader(request: pytest.FixtureRequest) -> Iterator[None]:
    """All that is tested here holds for both readers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScanReader, "FEWEST", 0 if request.param == "kernels" else 2**62)
        yield


def _near(power: int) -> st.SearchStrategy[int]:
    return st.integers(-4, 4).map(lambda off: 2**power + off)


WHOLE = st.one_of(*map(_near, (52, 53, 54, 62, 63, 64, 70, 99)), st.integers(-5, 5)).flatmap(
    lambda n: st.sampled_from([n, -n])
)
"""Whole numbers around the ends of doubles and of words of 64 bits."""

WRITTEN: list[Callable[[int], str]] = [str, lambda n: f"{n}.0", lambda n: f"{n}.00e0"]
"""The ways in which a whole number may be written."""

CONDITIONS: dict[str, Callable[[int], bool]] = {
    f"n = {E + 1}": lambda n: n == E + 1,
    f"n <> {E + 1}.0": lambda n: n != E + 1,
    f"n in (3, {E + 1}, {-E - 3})": lambda n: n in (3, E + 1, -E - 3),
    f"n > {2**63}": lambda n: n > 2**63,
    f"n >= {2**64 - 1}": lambda n: n >= 2**64 - 1,
    f"n between {-E - 1} and {E + 1}": lambda n: -E - 1 <= n <= E + 1,
    f"-n < {E + 3}": lambda n: -n < E + 3,
    "n % 10 = 3": lambda n: abs(n) % 10 == 3 and n > 0,
    f"n + 1 = {E + 2}": lambda n: n + 1 == E + 2,
    f"n * 3 - 1 > {3 * E + 2}": lambda n: n * 3 - 1 > 3 * E + 2,
    f"case when n > 0 then n else 0 end < {2**63 - 1}": lambda n: n < 2**63 - 1,
    f"coalesce(n, 0) <= {-E - 1}": lambda n: n <= -E - 1,
    "n / 2 > 0.75": lambda n: n > 1,
}


def _topology(**more: object) -> Topology:
    declared = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
    return Topology(**{**declared, "statistics": (Count(),), **more})  # type: ignore[arg-type]


def _event(text: str, field: str = "n", key: str = '"a"', at: int = 0) -> bytes:
    return f'{{"key":{key},"time":{START + at},"{field}":{text}}}'.encode()


@laws
@given(st.sampled_from(sorted(CONDITIONS)), st.lists(WHOLE, min_size=1), st.data())
def test_conditions_are_exact(where: str, numbers: list[int], data: st.DataObject) -> None:
    """In columns, and as an audit has it row by row."""
    texts = [data.draw(st.sampled_from(WRITTEN))(n) for n in numbers]
    topology = _topology(statistics=(Count(name="c", where=where),))
    columns = EventDecoder(topology).decode([_event(text) for text in texts])
    written = topology.columns.conditions[0].text
    assert not columns.refusals
    assert columns.conditions[0].tolist() == [CONDITIONS[where](n) for n in numbers]
    for text, n in zip(texts, numbers, strict=True):
        assert holds(written, {"n": number(Decimal(text))}) is CONDITIONS[where](n)


WRITTEN_NUMBERS = st.builds(
    lambda whole, part: Decimal(f"{whole}{part}"),
    WHOLE,
    st.sampled_from(("", ".0", ".5", ".25", ".99999999999999999999", ".0" + "0" * 70 + "1")),
).filter(lambda n: abs(n) >= E or n == Decimal(float(n)))
"""Numbers around the ends of doubles, also of more digits than two doubles have."""

COMPARED: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "n = {}": lambda n, m: n == m,
    "n <> {}": lambda n, m: n != m,
    "n < {}": lambda n, m: n < m,
    "{} <= n": lambda n, m: m <= n,
    "n in ({}, 0.5)": lambda n, m: n in (m, Decimal("0.5")),
    "n between {0} and {0}": lambda n, m: n == m,
    "case when n < 0 then n else coalesce(n, 1) end > {}": lambda n, m: n > m,
    "cast(t as double) >= {}": lambda n, m: n >= m,
    "-n = -{}": lambda n, m: n == m,
}


LONGEST = Decimal(f"{E}.0{'0' * 70}1")


@example("n = {}", [LONGEST], LONGEST)
@example("-n = -{}", [LONGEST], LONGEST)
@example("n in ({}, 0.5)", [LONGEST], LONGEST)
@example("n between {0} and {0}", [LONGEST], LONGEST)
@example("cast(t as double) >= {}", [LONGEST], LONGEST)
@laws
@given(st.sampled_from(sorted(COMPARED)), st.lists(WRITTEN_NUMBERS, min_size=1), WRITTEN_NUMBERS)
def test_comparisons_are_of_the_numbers_as_they_were_written(
    where: str, numbers: list[Decimal], literal: Decimal
) -> None:
    """Whole or not, by columns and by an audit, and for edges, where the literal is a double."""
    if "-{}" in where and literal < 0:
        literal = literal.copy_negate()
    topology = _topology(statistics=(Count(name="c", where=where.format(f"{literal:f}")),))
    texts = [f"{n:f}" for n in numbers]
    records = [_event(f'{text}, "t": "{text}"') for text in texts]
    columns = EventDecoder(topology).decode(records)
    meant = [COMPARED[where](n, literal) for n in numbers]
    assert columns.conditions[0].tolist() == meant
    condition_text = topology.columns.conditions[0].text
    fields = [{"n": number(n), "t": text} for n, text in zip(numbers, texts, strict=True)]
    assert [holds(condition_text, one) for one in fields] == meant
    edge = float(literal)
    counts = EventDecoder(_topology(statistics=(Above(field="n", thresholds=[edge]),)))
    if abs(edge) >= E:
        reached = (counts.decode(records).numbers[0] >= edge).tolist()
        assert reached == [n >= Decimal(edge) for n in numbers]


@laws
@given(st.lists(WRITTEN_NUMBERS, min_size=1, max_size=8))
def test_different_numbers_from_2_53_on_are_different_items(numbers: list[Decimal]) -> None:
    """With 60 of their digits; what is computed of such that are not whole is refused."""
    records = [_event(f"{n:f}") for n in numbers]
    decoder = EventDecoder(_topology(statistics=(TopItems(field="n"),)))
    for n, item in zip(numbers, decoder.decode(records).items[0].to_pylist(), strict=True):
        near = abs(Decimal(item) - n)
        assert near <= Decimal("1e-25")
        assert (Decimal(item) == Decimal(item).to_integral_value()) == (n == n.to_integral_value())
    for computed in ("n + 0 as m", "cast(n as varchar) as m"):
        decoder = EventDecoder(_topology(statistics=(TopItems(field="m"),), computed=(computed,)))
        columns = decoder.decode(records)
        items = dict(zip(columns.rows.tolist(), columns.items[0].to_pylist(), strict=True))
        for row, item in items.items():
            assert abs(Decimal(item) - numbers[row]) <= Decimal("1e-25")


@laws
@given(st.lists(WHOLE, min_size=1, max_size=12), WHOLE)
def test_edges_part_computed_numbers_as_they_are(numbers: list[int], edge: int) -> None:
    """Below 2^100: the double of one below an edge may be the edge."""
    least = float(edge)
    statistics = (Above(field="m", thresholds=[least]),)
    decoder = EventDecoder(_topology(statistics=statistics, computed=("n - 3 as m",)))
    columns = decoder.decode([_event(str(n)) for n in numbers])
    reached = (columns.numbers[0] >= least).tolist()
    for n, is_reached in zip(numbers, reached, strict=True):
        assert is_reached == (n - 3 >= least) or abs(n) >= 2**99 or abs(edge) < E


@pytest.mark.parametrize(
    "statistic",
    [
        lambda: Above(thresholds=[E + 1]),
        lambda: Histogram(edges=[0, 2**63 - 1]),
        lambda: SumHistogram(edges=[-E - 1, 0]),
        lambda: MeanHistogram(edges=[10**23], by="n"),
    ],
)
def test_an_edge_is_never_rounded_in_silence(statistic: Callable[[], object]) -> None:
    with pytest.raises(SlidestatError, match="a whole number that no double is"):
        statistic()


def test_an_edge_beyond_2_53_may_be_a_double() -> None:
    assert Above(thresholds=[E, 2**63, 10**22]).thresholds == (2.0**53, 2.0**63, 1e22)


@pytest.mark.parametrize("limit", [2.0**53, 2.0**63, -(2.0**63), 2.0**99, 1e18, 2.0**100, 1e300])
def test_the_text_of_a_double_is_read_as_that_double(limit: float) -> None:
    """The shortest text of 2^63 as a double, 9.223372036854776e+18, is another whole number."""
    text = text_of(Call(">", (FieldValue(("n",)), Literal(limit))))
    assert text_of(condition(text, "where").node) == text
    exact = Decimal(text.removeprefix("n > ").strip("()"))
    assert exact == Decimal(limit) or abs(limit) > 2**100


@laws
@given(st.lists(WHOLE, min_size=1, max_size=20), st.data())
def test_equal_numbers_are_one_item(numbers: list[int], data: st.DataObject) -> None:
    """Read as they are, and computed."""
    texts = [data.draw(st.sampled_from(WRITTEN))(n) for n in numbers]
    for computed, path in (((), "n"), (("n + 0 as m",), "m")):
        topology = _topology(statistics=(TopItems(field=path),), computed=computed)
        columns = EventDecoder(topology).decode([_event(text) for text in texts])
        items = dict(zip(columns.rows.tolist(), columns.items[0].to_pylist(), strict=True))
        assert all(text == str(numbers[row]) for row, text in items.items())
        # What is computed beyond 2^100 may be rounded.
        assert all(row in items or abs(n) >= 2**99 for row, n in enumerate(numbers))


@pytest.mark.parametrize(
    ("text", "item"),
    [
        *(("0", "0"), ("0.0", "0"), ("-0.0", "0"), ("-0", "0"), ("0e5", "0")),
        *(("1", "1"), ("1.0", "1"), ("1e0", "1"), ('"1"', "1"), ('"1.0"', "1.0")),
        *(("0.10", "0.1"), ("1e-7", "1e-7"), ("true", "true")),
        *(("1e20", "1" + "0" * 20), ("1e21", "1" + "0" * 21), ("1e31", "1e31")),
        (f"{E + 1}.0", str(E + 1)),
        (str(10**21 + 1), str(10**21 + 1)),
    ],
)
def test_what_an_item_is(text: str, item: str) -> None:
    columns = EventDecoder(_topology(statistics=(TopItems(field="n"),))).decode([_event(text)])
    assert columns.items[0].to_pylist() == [item]


@laws
@given(WHOLE)
def test_a_whole_number_is_the_key_of_its_digits(key: int) -> None:
    columns = EventDecoder(_topology()).decode([_event("1", key=str(key))])
    assert columns.keys.to_pylist() == [str(key)]


def test_an_item_of_too_many_digits_is_a_letter() -> None:
    """As a text of so many characters is one."""
    decoder = EventDecoder(_topology(statistics=(TopItems(field="n"), Count())))
    longest, longer = "9" * 256, "9" * 257
    columns = decoder.decode([_event(longest), _event(longer), _event(f'"{longer}"'), _event("-1")])
    assert columns.items[0].to_pylist() == [longest, "-1"]
    assert [(one.row, one.reason) for one in columns.refusals] == [
        (1, Reason.BAD_ITEM),
        (2, Reason.BAD_ITEM),
    ]


def test_what_is_beyond_all_doubles_is_a_letter() -> None:
    """Also where the double nearest to it is the largest one; of an item so many digits are too
    many.
    """
    largest = int(1.7976931348623157e308)
    beyond = Reason.VALUE_TOO_LARGE
    for statistics, reasons in (
        ((Maximum(field="n"),), [beyond]),
        ((Maximum(field="n"), TopItems(field="n")), [Reason.BAD_ITEM, beyond]),
    ):
        decoder = EventDecoder(_topology(statistics=statistics))
        columns = decoder.decode([_event(str(largest)), _event(str(-largest - 1)), _event("1")])
        assert columns.rows.tolist() == [0, 2][len(reasons) - 1 :]
        assert [one.reason for one in columns.refusals] == reasons


@pytest.mark.filterwarnings("error")
def test_bounds_of_the_largest_double_are_finite() -> None:
    driver = TopologyDriver(_topology(statistics=(Maximum(field="n"),), windows=("1h",)))
    driver.send_bytes(_event("1.7976931348623157e308"), key=b"a")
    driver.advance_to(START + 120_000)
    (figure,) = driver.emissions[0].figures
    assert figure.upper == 1.7976931348623157e308


def test_a_literal_is_never_rounded_in_silence() -> None:
    for text in (str(2**100 + 1), str(10**40 + 1)):
        with pytest.raises(SlidestatError, match="a whole number that no double is"):
            _topology(where=f"n = {text}")
    assert _topology(where=f"n = {E + 1}").condition.text == f"n = {E + 1}"  # type: ignore[union-attr]


@laws
@given(st.lists(WHOLE, min_size=1, max_size=12))
def test_a_computed_key_is_exact(numbers: list[int]) -> None:
    topology = _topology(computed=("n * 2 + 1 as k",), key_field="k")
    columns = EventDecoder(topology).decode([_event(str(n)) for n in numbers])
    wanted = [n * 2 + 1 for n in numbers]
    known = dict(zip(columns.rows.tolist(), columns.keys.to_pylist(), strict=True))
    for row, key in enumerate(wanted):
        # Beyond 2^100 nothing is sure.
        assert known.get(row, str(key)) == str(key)
        assert row in known or abs(key) >= 2**99


def test_a_quotient_beyond_2_53_is_no_key_and_no_item() -> None:
    topology = _topology(computed=("n / 3 as k",), key_field="k")
    found = EventDecoder(topology).decode([_event(str(2**60))]).refusals
    assert [one.reason for one in found] == [Reason.BAD_KEY]
    topology = _topology(computed=("n / 3 as k",), statistics=(TopItems(field="k"),))
    found = EventDecoder(topology).decode([_event(str(2**60))]).refusals
    assert [one.reason for one in found] == [Reason.BAD_ITEM]


def test_bounds_enclose_and_edges_part_neighbours() -> None:
    """Of a whole partition: ids beside each other, and an edge between them."""
    statistics = (
        Maximum(field="n", epsilon=0),
        RankQuantiles(field="n", quantiles=(0.5,)),
        Histogram(field="n", edges=(E + 4,)),
    )
    driver = TopologyDriver(_topology(statistics=statistics, windows=("1h",)))
    driver.send_bytes(_event(str(E + 3)), key=b"a")
    driver.advance_to(START + 120_000)
    for figure in driver.emissions[0].figures[:2]:
        assert Fraction(figure.lower or 0) <= E + 3 <= Fraction(figure.upper or 0)
    assert [figure.estimate for figure in driver.emissions[0].figures[2:]] == [1, 0]


DIGITS = ("9" * 309, "9" * 4_300, "9" * 4_301, "-" + "9" * 20_000, "1e400", "9" * 5_000 + ".5")
"""Numbers beyond all doubles, also of more digits than Python reads at once."""


@pytest.mark.parametrize("text", DIGITS)
def test_a_number_beyond_all_doubles_is_no_number_to_a_condition(text: str) -> None:
    """That is an error where it decides, whether a statistic reads the field, too, or not; an
    audit's condition has the same.
    """
    one = _event(text)
    wheres = {"n > 5": None, "n > 5 or time > 1": True, "n > 5 and time < 1": False}
    for where, meant in wheres.items():
        for statistics in ((Count(),), (Count(), TopItems(field="n", name="n", where="time < 1"))):
            topology = _topology(where=where, statistics=statistics)
            columns = EventDecoder(topology).decode([one, _event("7")])
            reasons = [refusal.reason for refusal in columns.refusals if refusal.row == 0]
            if len(statistics) == 1:
                assert reasons == ([Reason.NOT_COMPUTABLE] if meant is None else [])
                assert (0 in columns.rows) is (meant is True)
            assert (1 in columns.rows) is (meant is not False)
        tables = resolved(_topology(where=where))
        declared = declaration_of(msgspec.json.decode(msgspec.json.encode(tables)))
        record = RawRecord(None, one, 0)
        assert is_passed_over(declared, record) is (meant is False)


@pytest.mark.parametrize("text", ["1e400", "-1e309", "7" * 4_301, "7e9999"])
@pytest.mark.parametrize(
    "where", ["cast(n as varchar) like '1%'", "try_cast(n as double) is null", "n || '' <> '7'"]
)
def test_a_condition_never_reads_the_digits_of_another_number(where: str, text: str) -> None:
    """Of one that nobody reads in full it has none."""
    columns = EventDecoder(_topology(where=where)).decode([_event(text)])
    assert [refusal.reason for refusal in columns.refusals] == [Reason.NOT_COMPUTABLE]


@pytest.mark.parametrize("text", DIGITS)
def test_a_number_beyond_all_doubles_ends_no_reading(text: str) -> None:
    """As number and item at once, in a condition, computed, and where no statistic reads it."""
    many: list[dict[str, object]] = [
        {"statistics": (RankQuantiles(field="n"), TopItems(field="n")), "where": "n > 5"},
        {
            "statistics": (Maximum(field="n"), TopItems(field="n"), RankQuantiles(field="m")),
            "computed": ("n + 1 as m",),
        },
        {"statistics": (TopItems(field="n"),)},
        {"statistics": (Maximum(field="m"),), "computed": ("n + 1 as m",)},
        {"time_field": "n"},
        {"key_field": "n"},
    ]
    for more in many:
        decoder = EventDecoder(_topology(**more))
        together = [_event("7"), _event(text), _event(f"{2**53 + 1}"), _event(text)]
        columns = decoder.decode(together)
        assert {1, 3} <= {refusal.row for refusal in columns.refusals}
        # Batches never show.
        for row, record in enumerate(together):
            alone = decoder.decode([record])
            refused = [(one.reason, one.detail) for one in columns.refusals if one.row == row]
            assert [(one.reason, one.detail) for one in alone.refusals] == refused
    assert not EventDecoder(_topology()).decode([_event(text)]).refusals


def test_the_nearest_double_makes_no_number_of_one_beyond_all() -> None:
    """Alone as beside one that is no double at all."""
    largest = int(1.7976931348623157e308)
    decoder = EventDecoder(_topology(where="n > 5"))
    over, far = _event(str(largest + 1)), _event("9" * 400)
    for records in ([over], [over, far], [far, over]):
        columns = decoder.decode(records)
        assert [one.reason for one in columns.refusals] == [Reason.NOT_COMPUTABLE] * len(records)
    assert decoder.decode([_event(str(largest))]).rows.tolist() == [0]


@pytest.mark.parametrize("digits", [257, 4_300, 4_301, 20_000])
def test_a_letter_of_too_many_digits_has_the_limit(digits: int) -> None:
    number = "9" * digits
    for more, record, reason in (
        ({}, _event("1", key=number), Reason.BAD_KEY),
        ({"statistics": (TopItems(field="n"),)}, _event(number), Reason.BAD_ITEM),
    ):
        (refusal,) = EventDecoder(_topology(**more)).decode([record]).refusals  # type: ignore[arg-type]
        assert refusal.reason is reason
        assert refusal.detail.endswith(": it is a number of more than 256 characters")


@pytest.mark.parametrize("literal", ["1e-" + "9" * 30, "1e-" + "9" * 5_000, "0." + "0" * 5_000])
def test_a_literal_next_to_nothing_is_nothing(literal: str) -> None:
    """Its power may have more digits than a decimal's."""
    topology = _topology(
        where=f"n > {literal}",
        computed=(f"n + {literal} as m",),
        statistics=(RankQuantiles(field="m"),),
    )
    columns = EventDecoder(topology).decode([_event("0"), _event("1")])
    assert columns.rows.tolist() == [1]
    assert columns.numbers[0].tolist() == [1]
    assert holds(f"n > {literal}", {"n": 1})
    assert not holds(f"n > {literal}", {"n": 0})


def test_no_declaration_has_a_number_that_cannot_be_shown() -> None:
    huge = 10**5_000
    for make in (
        lambda: _topology(every=huge),
        lambda: _topology(windows=[huge]),
        lambda: RankQuantiles(quantiles=[huge]),
        lambda: Histogram(edges=[0, huge]),
        lambda: Alert(name="a", when="count > 1", for_=huge),
    ):
        with pytest.raises(SlidestatError, match="whole number of thousands of digits"):
            make()  # type: ignore[no-untyped-call]
