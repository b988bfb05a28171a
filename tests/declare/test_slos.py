"""Service-level objectives: what they become, in each form, and which cannot be."""

import json
import tomllib
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from slidestat import Alert, Count, Maximum, Slo, Topology
from slidestat.declare.forms.flags import topology_of_flags
from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.forms.tables import topology_of
from slidestat.declare.slos import USUAL_ALERTS
from slidestat.errors import SlidestatError

NEEDED: dict[str, Any] = {"name": "t", "source": "s", "span": "7d", "every": "1m"}
GOOD: dict[str, Any] = {"name": "up", "good": "status < 500", "objective": 0.999}


def test_an_objective_is_what_could_be_written_by_hand() -> None:
    """Two counts, burn rates, what is left, and alerts; it is the same declaration."""
    known = "(status < 500) is not null"
    windows = ("7d", "1h", "5m", "6h", "30m", "3d")
    by_length = ("5m", "30m", "1h", "6h", "3d", "7d")
    by_hand = Topology(
        **NEEDED,
        windows=windows,
        statistics=(
            Count(name="up_events", where=known),
            Count(name="up_bad", where=f"{known} and not (status < 500)"),
        ),
        derived=(
            *(f"up_bad_{it} / up_events_{it} / 0.001 as up_burn_{it}" for it in by_length),
            "1 - up_burn_7d as up_budget_left",
        ),
        alerts=(
            Alert(
                name="up_page_1h", when="up_burn_1h > 14.4 and up_burn_5m > 14.4", severity="page"
            ),
            Alert(name="up_page_6h", when="up_burn_6h > 6 and up_burn_30m > 6", severity="page"),
            Alert(name="up_ticket_3d", when="up_burn_3d > 1 and up_burn_6h > 1", severity="ticket"),
        ),
    )
    topology = Topology(**NEEDED, slos=[Slo(**GOOD)])
    assert topology == by_hand
    assert fingerprint_of(topology) == fingerprint_of(by_hand)
    assert replace(topology, output="other") == replace(by_hand, output="other")


def test_what_is_declared_stays_in_front() -> None:
    """Windows are added where they are not there, however a length was written; the budget is that
    of the longest.
    """
    topology = Topology(
        **NEEDED,
        windows=["60m", "5m"],
        statistics=[Maximum()],
        derived=["maximum_5m * 2 as twice"],
        alerts=[Alert(name="a", when="maximum_5m > 3")],
        slos=[
            Slo(
                **GOOD,
                alerts=["2.5 over 1h and 5 m as page"],
                least_events=30,
                labels={"team": "shop"},
                runbook="https://wiki.example.com/up",
            )
        ],
    )
    assert topology.windows == ("60m", "5m", "1h", "5 m")
    assert topology.labels == ("maximum", "up_events", "up_bad")
    assert [it.name for it in topology.derived_figures] == [
        *("twice", "up_burn_5m", "up_burn_60m", "up_budget_left")
    ]
    assert topology.alerts[1] == Alert(
        name="up_page_1h",
        when="up_burn_60m > 2.5 and up_burn_5m > 2.5 and up_events_60m >= 30",
        severity="page",
        labels={"team": "shop"},
        runbook="https://wiki.example.com/up",
    )
    none = Topology(**NEEDED, slos=[Slo(**GOOD, alerts=[])])
    assert (none.windows, none.alerts) == (("7d",), ())
    assert [it.name for it in none.derived_figures] == ["up_burn_7d", "up_budget_left"]


def test_objectives_in_each_form() -> None:
    """A table in TOML, a flag with colons; lists in a flag have commas."""
    alerts = ["14.4 over 1h and 5m as page", "3 over 1d and 2h as ticket"]
    wanted = Topology(
        **NEEDED,
        slos=(Slo(**GOOD), Slo(name="fast", good="a.ms <= 5", objective=0.9, alerts=alerts[1:])),
    )
    in_toml = tomllib.loads(
        "".join(
            f"[[slos]]\n{text}\n"
            for text in (
                'name = "up"\ngood = "status < 500"\nobjective = 0.999',
                'name = "fast"\ngood = "a.ms <= 5"\nobjective = 0.9\nalerts = '
                + json.dumps(alerts[1:]),
            )
        )
    )
    flags = ["up:status < 500:objective=0.999", f"fast:a.ms <= 5:objective=0.9:alerts={alerts[1]}"]
    assert topology_of({**NEEDED, **in_toml}) == wanted
    assert topology_of_flags({**NEEDED, "slos": flags}) == wanted
    both = topology_of_flags({**NEEDED, "slos": [f"{flags[0]}:alerts={','.join(alerts)}"]})
    assert both == Topology(**NEEDED, slos=[Slo(**GOOD, alerts=alerts)])
    none = topology_of_flags({**NEEDED, "slos": [f"{flags[0]}:alerts=:least_events=5"]})
    assert none == Topology(**NEEDED, slos=[Slo(**GOOD, alerts=[], least_events=5)])


@pytest.mark.parametrize("objective", [0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 0.99999, 1e-6])
def test_a_budget_is_the_difference_of_decimals(objective: float) -> None:
    """That of doubles is 1.0000000000000009 times 0.001."""
    assert Fraction(Slo(**{**GOOD, "objective": objective}, alerts=[]).budget) == 1 - Fraction(
        repr(objective)
    )


def test_windows_may_be_numbers_of_events_or_of_a_sequence() -> None:
    """The usual alerts are over times, so others are asked for."""
    alerts = ["14.4 over 1000 events and 100 events as page"]
    for more in ({}, {"time_format": "sequence"}):
        given = {**NEEDED, "span": "10000 events", "every": "100 events" if more else "1m", **more}
        topology = Topology(**given, slos=[Slo(**GOOD, alerts=alerts)])
        assert [it.name for it in topology.alerts] == ["up_page_1000_events"]
        with pytest.raises(SlidestatError):
            Topology(**given, slos=[Slo(**GOOD)])


def test_the_longest_window_may_be_of_the_calendar() -> None:
    """By the longest that it may be: a day has up to 25 hours."""
    for windows, longest in ((["today"], "today"), (["5m", "this_week", "6d"], "this_week")):
        topology = Topology(
            **{**NEEDED, "span": "8d"},
            windows=windows,
            time_zone="UTC",
            slos=[Slo(**GOOD, alerts=["14.4 over 1h and 5m as page"])],
        )
        *_, burn, left = topology.derived_figures
        assert (burn.name, left.name) == (f"up_burn_{longest}", "up_budget_left")
        assert left.parts == burn.parts
    # A day has 24 hours in each zone whose clocks are never changed.
    Topology(
        **{**NEEDED, "span": "24h"},
        time_zone="UTC",
        slos=[Slo(**GOOD, alerts=["5 over today and 1h as page"])],
    )


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"name": "a-b"}, {}, "slos[0].name is 'a-b'", "letters, digits and '_'"),
    ({"name": 5}, {}, "slos[0].name is 5", "letters"),
    ({"good": ""}, {}, "slos[0].good is ''", '"status < 500"'),
    ({"good": "status <"}, {}, "slos[0].good is 'status <', which is no SQL", "Write a condition"),
    ({"good": "true"}, {}, "slos[0].good is 'true', which reads no field", "status >= 500"),
    ({"objective": 99.9}, {}, "slos[0].objective is 99.9", "Give it as a share: 0.999."),
    ({"objective": 1}, {}, "slos[0].objective is 1", "no budget"),
    ({"objective": 1.0}, {}, "slos[0].objective is 1.0", "no budget"),
    ({"objective": 0}, {}, "slos[0].objective is 0", "more than 0"),
    ({"objective": float("nan")}, {}, "slos[0].objective is nan", "more than 0"),
    ({"objective": "0.999"}, {}, "slos[0].objective is '0.999'", "more than 0"),
    ({"objective": True}, {}, "slos[0].objective is True", "more than 0"),
    ({"objective": 0.9}, {}, "the burn rate is at most 10, of nothing but bad", "lower burn rates"),
    ({"alerts": "1 over 1h and 5m as page"}, {}, "which is not a list", "also of a single one"),
    ({"alerts": ["0.0 over 1h and 5m as page"]}, {}, "slos[0].alerts has '0.0 over", "above 0"),
    ({"alerts": ["\uff12 over 1h and 5m as page"]}, {}, "slos[0].alerts has", "a burn rate above"),
    ({"alerts": ["1h and 5m"]}, {}, "slos[0].alerts has '1h and 5m'", '"14.4 over 1h and 5m as'),
    ({"alerts": ["2 over 5m and 1h as page"]}, {}, "whose first window is the shorter one", "14.4"),
    (
        {"alerts": ["2 over 1h and 5m as a", "3 over 1h and 10m as a"]},
        {},
        "slos[0].alerts has 'up_a_1h' twice",
        "windows that differ",
    ),
    ({"least_events": -1}, {}, "slos[0].least_events is -1", "0 or more"),
    ({"goood": "a"}, {}, "slos[0].goood is no field of an objective", "Did you mean good?"),
    (
        {},
        {"span": "6h"},
        "'1 over 3d and 6h as ticket', longer than the span '6h'",
        f"alerts = [{json.dumps(USUAL_ALERTS[0])}, {json.dumps(USUAL_ALERTS[1])}]",
    ),
    (
        {"alerts": ["5 over today and 1h as page"]},
        {},
        "as page', of which a window is 'today', and there is no time_zone",
        "Europe/Berlin",
    ),
    ({}, {"span": "30m"}, "'14.4 over 1h and 5m as page'", "that fit: alerts = []"),
    ({}, {"publish": "partition"}, "slos are given, and publish is 'partition'", "not publish"),
    ({}, {"span": "1000 events"}, "and the span is '1000 events'", "all as numbers of events"),
    ({}, {"windows": "5m"}, "windows is '5m', which is not a list", '["1h"]'),
    ({}, {"derived": "a as b"}, "derived is 'a as b', which is not a list", "list"),
]


@pytest.mark.parametrize(
    ("slo", "more", "error", "advice"), REFUSED, ids=[str(i) for i in range(len(REFUSED))]
)
def test_what_cannot_be_is_refused(
    slo: dict[str, Any], more: dict[str, Any], error: str, advice: str
) -> None:
    """With the field, and what would be right."""
    table = {**GOOD, **slo}
    with pytest.raises(SlidestatError) as refused:
        topology_of({**NEEDED, **more, "slos": [table]})
    assert error in refused.value.message
    assert advice in refused.value.advice


def test_a_field_that_is_missing_and_names_that_are_taken() -> None:
    """Two objectives of one name, and figures and alerts that have an objective's names."""
    with pytest.raises(SlidestatError, match=r"slos\[0\].objective is missing"):
        topology_of({**NEEDED, "slos": [{"name": "up", "good": "a > 1"}]})
    for more in (
        {"slos": [GOOD, GOOD]},
        {"slos": [GOOD], "statistics": [{"kind": "count", "name": "up_bad", "where": "a > 1"}]},
        {"slos": [GOOD], "alerts": [{"name": "up_page_1h", "when": "up_bad_1h > 3"}]},
        {"slos": GOOD},
        {"slos": [5]},
    ):
        with pytest.raises(SlidestatError):
            topology_of({**NEEDED, **more})
    with pytest.raises(SlidestatError, match="--slo 'up': there is no condition"):
        topology_of_flags({**NEEDED, "slos": ["up"]})


def test_a_budget_is_of_the_window_that_slides_where_one_of_the_calendar_is_as_long() -> None:
    """An hour that begins anew is hardly ever as long as the last 60 minutes."""
    for windows, longest in (
        (("5m", "1h", "this_hour"), "1h"),
        (("this_hour", "60m"), "60m"),
        (("today", "24h", "this_hour"), "24h"),
        (("5m", "today"), "today"),
        (("1h", "today", "48h"), "48h"),
    ):
        slo = Slo(name="up", good="status < 500", objective=0.99, alerts=())
        given = {**NEEDED, "span": "48h", "windows": windows}
        topology = Topology(**given, time_zone="UTC", slos=(slo,))
        assert topology.derived[-1] == f"1 - up_burn_{longest} as up_budget_left"
