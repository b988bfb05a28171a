"""Keys and values that are computed from fields of an event."""

import json
import math
from typing import Any

import numpy as np
import pytest

from slidestat import TopologyDriver
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.statistics import Count, Distinct, Maximum, Mean, Sum, TopItems
from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.footprint import measure
from slidestat.errors import SlidestatError
from slidestat.live.live_query import LiveQuery
from slidestat.schemas.dead_letter import Reason

START = 1_764_000_000_000
MINUTE = 60_000
WHO, SECONDS = "country || '+' || merchant as who", "took_ms / 1000 as took_s"


def payments(*computed: str, **changes: Any) -> Topology:
    """Payments by country and merchant, and how long they took."""
    declared: dict[str, Any] = {
        "name": "payments",
        "source": "payments",
        "span": "5m",
        "windows": ("1m",),
        "every": "1m",
        "key_field": "who",
        "value_field": "took_s",
        "statistics": (Count(), Mean(), Maximum()),
        "computed": computed or (WHO, SECONDS),
    }
    return Topology(**declared | changes)


def payment(**changes: object) -> dict[str, object]:
    fields = {"time": START, "country": "NL", "merchant": "m1", "took_ms": 1500}
    return {name: value for name, value in (fields | changes).items() if value is not ...}


def decoded(topology: Topology, *events: object) -> Any:
    return EventDecoder(topology).decode([json.dumps(event).encode() for event in events])


def refusals(topology: Topology, *events: object) -> list[tuple[Reason, str]]:
    found = decoded(topology, *events).refusals
    return [(refusal.reason, refusal.detail) for refusal in found]


def test_a_key_of_two_fields_and_a_value_in_another_unit() -> None:
    driver = TopologyDriver(payments(), partitions=3)
    driver.send(payment(), payment(took_ms=2500), payment(merchant="m2"))
    driver.advance_to(START + MINUTE)
    assert {emission.key for emission in driver.emissions} == {"NL+m1", "NL+m2"}
    assert driver.figure("NL+m1", "mean", "1m").estimate == 2.0
    assert driver.figure("NL+m1", "maximum", "1m").estimate == pytest.approx(2.5, rel=0.01)
    assert not driver.dead_letters
    driver.restart()
    driver.send(payment(time=START + MINUTE, took_ms=4500))
    driver.advance_to(START + 2 * MINUTE)
    assert driver.figure("NL+m1", "mean", "1m").estimate == 4.5


def test_null_is_nothing_and_lacked() -> None:
    """As in SQL: an event without the field counts for what does not read it."""
    driver = TopologyDriver(payments())
    driver.send(payment(took_ms=None), payment(took_ms=...), payment())
    driver.advance_to(START + MINUTE)
    assert driver.figure("NL+m1", "count", "1m").estimate == 3
    assert driver.figure("NL+m1", "mean", "1m").estimate == 1.5
    assert driver.left_out == {"mean": 2, "maximum": 2}


def test_what_cannot_be_computed_is_a_letter() -> None:
    topology = payments(WHO, "took_ms / parts as took_s")
    assert refusals(topology, payment(parts=0)) == [
        (
            Reason.NOT_COMPUTABLE,
            "took_s: a division by zero, or a number beyond those of doubles",
        )
    ]
    assert refusals(topology, payment(parts="two")) == [
        (Reason.WRONG_TYPE, "parts: Expected `float`, got `str`")
    ]
    assert refusals(topology, payment(parts=1, merchant=None)) == [
        (Reason.BAD_KEY, "who: it is NULL")
    ]


@pytest.mark.parametrize(
    ("key", "event", "outcome"),
    [
        ("shop + 0", {"shop": 12}, "12"),
        ("shop + 0", {"shop": -7.0}, "-7"),
        ("shop + 0", {"shop": 1.5}, Reason.BAD_KEY),
        ("shop + 0", {"shop": 2**60 + 1}, "1152921504606846977"),
        ("shop * 3", {"shop": -(2**60) - 1}, "-3458764513820540931"),
        ("shop / 3", {"shop": 2**60}, Reason.BAD_KEY),
        ("shop * 3", {"shop": 2**99}, Reason.BAD_KEY),
        ("lower(shop)", {"shop": "ÄB"}, "äb"),
        ("lower(shop)", {"shop": ""}, Reason.BAD_KEY),
        ("shop || shop", {"shop": "x" * 600}, Reason.BAD_KEY),
        ("coalesce(shop, 'none')", {}, "none"),
        ("case when shop > 3 then 'big' else 'small' end", {"shop": 4}, "big"),
        ("shop || ''", {"shop": {"id": 1}}, Reason.WRONG_TYPE),
    ],
)
def test_keys(key: str, event: dict[str, object], outcome: object) -> None:
    topology = payments(f"{key} as who", SECONDS)
    columns = decoded(topology, payment() | event)
    found = [*columns.keys.to_pylist(), *(refusal.reason for refusal in columns.refusals)]
    assert found == [outcome]


@pytest.mark.parametrize(
    ("to", "value", "outcome"),
    [
        ("double", "0.01230000", 0.0123),
        ("double", " +12. ", 12.0),
        ("double", "-.5e1", -5.0),
        ("double", 2.5, 2.5),
        ("double", "1e999", None),
        ("double", "", None),
        ("double", "NaN", None),
        ("double", "1_000", None),
        ("double", "0x10", None),
        ("double", "١٢", None),
        ("double", True, None),
        ("bigint", "12", 12.0),
        ("bigint", 1e3, 1000.0),
        ("bigint", 2.5, None),
        ("bigint", "9223372036854775808", None),
        ("bigint", "-9223372036854775809", None),
        ("bigint", "9007199254740993.5", None),
        ("timestamp", "2025-11-25T12:00:00.2505Z", 1_764_072_000_250.5),
        ("timestamp", "2025-11-25 12:00", 1_764_072_000_000.0),
        ("timestamp", "20251125T173000+0530", 1_764_072_000_000.0),
        ("timestamp", "2025-02-30T12:00:00Z", None),
        ("timestamp", "2025-11-25T12:00:00+05:75", None),
        ("timestamp", 1_764_072_000_000, None),
    ],
)
def test_texts_are_cast_to_numbers(to: str, value: object, outcome: float | None) -> None:
    """What is no such number makes a letter that names it; with try_cast it is NULL."""
    topology = payments(WHO, f"cast(x as {to}) as n", statistics=(Maximum(field="n"), Count()))
    found = decoded(topology, payment(x=value))
    assert found.numbers[0].tolist() == ([] if outcome is None else [outcome])
    reasons = [(refusal.reason, refusal.detail) for refusal in found.refusals]
    shown = repr(value if isinstance(value, str) else json.dumps(value))
    if outcome is None:
        ((reason, detail),) = reasons
        assert reason is Reason.NOT_COMPUTABLE
        assert detail.startswith(f"n: cast(x as {to}) of {shown}: that is no ")
    tried = payments(WHO, f"try_cast(x as {to}) as n", statistics=(Maximum(field="n"), Count()))
    (number,) = decoded(tried, payment(x=value)).numbers[0].tolist()
    assert number == outcome or (outcome is None and math.isnan(number))


def test_a_cast_keeps_whole_numbers() -> None:
    """Ids of 64 bits and more, in texts and as JSON has them, are the same keys, and compare."""
    ids = [2**53 + 1, str(2**53 + 1), 2**64 - 1, f"{2**64 - 1}", f"{2**64 - 1}.0", -(2**63)]
    topology = payments(
        "cast(id as double) as who", SECONDS, where="cast(id as double) <> 9007199254740992"
    )
    columns = decoded(topology, *(payment(id=id_) for id_ in ids))
    assert columns.keys.to_pylist() == [str(i).removesuffix(".0") for i in ids]
    as_text = payments("cast(id as varchar) as who", SECONDS)
    columns = decoded(as_text, *(payment(id=i) for i in (7, 7.0, "7.0", 1e22, True, 2**64 + 1)))
    assert columns.keys.to_pylist() == ["7", "7", "7.0", str(10**22), "true", str(2**64 + 1)]


def test_the_letter_of_a_number_as_a_text_names_the_cast() -> None:
    cast = ", the text of a number, which cast(took_ms as double) reads in a computed field"
    wrong = "took_ms: Expected `float`, got `str`"
    assert refusals(payments(), payment(took_ms="12.50"), payment(took_ms="n/a")) == [
        (Reason.WRONG_TYPE, wrong + cast),
        (Reason.WRONG_TYPE, wrong),
    ]


def test_items_are_texts_as_json_has_them() -> None:
    topology = payments(
        WHO,
        "took_ms / 2 as half",
        "lower(card) as brand",
        statistics=(Distinct(field="half"), TopItems(field="brand")),
    )
    columns = decoded(
        topology,
        payment(card="VISA"),
        payment(took_ms=3, card=None),
        payment(card="x" * 257),
    )
    items = [column.to_pylist() for column in columns.items]
    assert items == [["750", "1.5"], ["visa", None]]
    assert [refusal.reason for refusal in columns.refusals] == [Reason.BAD_ITEM]


def test_limits_hold_for_what_is_computed() -> None:
    topology = payments(WHO, "0 - took_ms as took_s", statistics=(Sum(), Count()))
    assert refusals(topology, payment()) == [
        (Reason.NEGATIVE_VALUE, "took_s: Expected `float` >= 0.0")
    ]
    assert refusals(topology, payment(took_ms=-1e300))[0][0] is Reason.VALUE_TOO_LARGE


def test_what_no_statistic_takes_is_no_error() -> None:
    """A share of nothing is asked for by nobody, and a payment that is passed over is not read."""
    topology = payments(
        WHO,
        "took_ms / parts as took_s",
        where="country = 'NL'",
        statistics=(Count(), Mean(name="mean", where="parts > 0")),
    )
    columns = decoded(
        topology,
        payment(parts=0),
        payment(parts=2),
        payment(parts=0, country="DE"),
        payment(parts="two", country="DE"),
        payment(parts="two"),
    )
    assert columns.rows.tolist() == [0, 1]
    np.testing.assert_array_equal(columns.numbers[0], [np.nan, 750.0])
    assert columns.passed_over.tolist() == [2, 3]
    assert [refusal.row for refusal in columns.refusals] == [4]


def test_one_field_serves_itself_and_what_is_computed_of_it() -> None:
    topology = payments(WHO, SECONDS, statistics=(Mean(field="took_ms"), Mean()))
    columns = decoded(topology, payment(), payment(took_ms=None))
    raw, computed = (
        columns.numbers[[c.path[0] for c in topology.columns.numbers].index(name)]
        for name in ("took_ms", "took_s")
    )
    np.testing.assert_array_equal(raw / 1000, computed)


def test_states_and_fingerprints_know_what_is_computed() -> None:
    """However it is written; a declaration without any has the fingerprint that it had."""
    one, same = payments(), payments("country||'+'||merchant as who", "(took_ms/1000.0) as took_s")
    other = payments(WHO, "took_ms / 1024 as took_s")
    assert one.state_meaning == same.state_meaning != other.state_meaning
    assert fingerprint_of(one) == fingerprint_of(same) != fingerprint_of(other)


def test_a_key_is_measured_with_its_computed_fields() -> None:
    assert [footprint.events for footprint in measure(payments())]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key_field": "country+merchant"}, "key_field is 'country+merchant', which is an express"),
        ({"computed": "took_ms / 1000 as took_s"}, "which is not a list"),
        ({"computed": (WHO, "took_ms / 1000")}, "which is not one expression as a name"),
        ({"computed": (WHO, "a as b, c as d")}, "which is not one expression as a name"),
        ({"computed": (WHO, "a + 1 as took_s from t")}, "which is not one expression as a name"),
        ({"computed": (WHO, "a + as took_s")}, "which is no SQL"),
        ({"computed": (WHO, "sqrt(a) as took_s")}, "cannot be computed here"),
        ({"computed": (WHO, "1 + 1 as took_s")}, "which reads no field"),
        ({"computed": (WHO, "a as took_s")}, "nothing shows whether it is a number or a text"),
        ({"computed": (WHO, SECONDS, SECONDS)}, "computed has 'took_s' twice"),
        ({"computed": (WHO, "took_s / 2 as took_s")}, "reads the computed field 'took_s'"),
        ({"computed": (WHO, SECONDS, "a + 1 as b")}, "neither the key nor a statistic reads"),
        ({"computed": (WHO, "lower(a) as took_s")}, "which is a text"),
        ({"computed": ("a = 1 as who", SECONDS)}, "which is a truth value"),
        ({"time_field": "took_s", "value_field": "x"}, "which is computed"),
        ({"time_field": "at * 1000"}, "which is an expression"),
        ({"where": "took_s > 1"}, "a condition reads 'took_s', which is computed"),
        ({"computed": (WHO, 7)}, "which is no text"),
        ({"computed": (WHO, "cast(a as int) as took_s")}, "there is no cast to int here"),
        ({"computed": (WHO, "cast(a as varchar(9)) as b")}, "there is no cast to varchar"),
        ({"computed": (WHO, "cast(a > 1 as double) as took_s")}, "a > 1 is a truth value"),
        ({"computed": (WHO, "cast(a + 1 as timestamp) as took_s")}, "a + 1 is a number"),
    ],
)
def test_what_cannot_be_is_refused_when_declared(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SlidestatError) as refused:
        payments(**changes)
    assert message in refused.value.message
    assert refused.value.advice


@pytest.mark.parametrize("asked", [{"statistics": ["count"]}, {"items": ["visa"]}])
def test_a_question_needs_no_other_statistics_field(asked: dict[str, Any]) -> None:
    """The computed fields that it is not of are not asked for."""
    topology = payments(
        WHO, SECONDS, "lower(card) as brand", statistics=(Count(), Mean(), TopItems(field="brand"))
    )
    driver = TopologyDriver(topology)
    driver.send(payment(card="VISA"), payment(card="VISA"))
    (view,) = (processor.view() for processor in driver._processors)
    answer = LiveQuery(topology, ["1m"], **asked).answer(view.alone("NL+m1"), "NL+m1")
    assert answer is not None
    assert [figure.estimate for figure in answer.figures] == [2]
