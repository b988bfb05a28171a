"""Traces of simulated workers are steps of the model, by rules that are its own; each schedule of
the simulation is checked in this way, too.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slidestat.engine.checkpoints.checkpoint import CHECKPOINT_KEY
from slidestat.faust.fencing import FENCE_KEY, epoch_header
from tests.faust.simulation.brokers import Written
from tests.faust.simulation.schedule import Schedule
from tests.faust.simulation.trace import RULES, BrokenRuleError, Trace

MODEL = Path(__file__).parent / "protocol.qnt"


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_are_the_model_s(rule: str) -> None:
    """Who changes one changes the other."""
    assert RULES[rule] in MODEL.read_text("utf-8")


@pytest.fixture(scope="module")
def trace() -> Trace:
    schedule = Schedule(1, exactly_once=True)
    schedule.run()
    return schedule.trace(0)


def without(kind: bytes) -> Callable[[list[Written]], list[Written]]:
    return lambda log: [one for one in log if not (one.key or b"").startswith(kind)]


def positions_first(log: list[Written]) -> list[Written]:
    """All fences, then all positions, before the states."""
    first = {FENCE_KEY: 0, CHECKPOINT_KEY: 1}
    return sorted(log, key=lambda one: first.get(one.key or b"", 2))


def positions_back(log: list[Written]) -> list[Written]:
    """The first position once more, at the end."""
    first = next(one for one in log if one.key == CHECKPOINT_KEY)
    return [*log, replace(first, headers=log[-1].headers, moment=log[-1].moment)]


def epochs_back(log: list[Written]) -> list[Written]:
    """With the states of a zombie's epoch, which do not count."""
    return [
        one if one.key in (FENCE_KEY, CHECKPOINT_KEY) else replace(one, headers=epoch_header(1))
        for one in [replace(log[0], key=FENCE_KEY, headers=epoch_header(1)), *log]
    ]


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("fence", without(FENCE_KEY)),
        ("counted", without(b"k")),
        ("counted", positions_first),
        ("counted", epochs_back),
        ("p stays", positions_back),
    ],
)
def test_a_trace_that_breaks_a_rule_is_refused(
    trace: Trace, rule: str, change: Callable[[list[Written]], list[Written]]
) -> None:
    """And the trace itself is not."""
    assert trace.check()
    with pytest.raises(BrokenRuleError, match=f"^{rule}:"):
        replace(trace, changelog=change(trace.changelog)).check()


def test_an_emission_that_is_missing_is_refused(trace: Trace) -> None:
    """Or comes after the position that takes it for emitted."""
    key, first = next(iter((key, one) for key, one in trace.emitted.items() if b"k0" in key))
    late = replace(first, moment=10**9, transaction=None)
    others = {other: one for other, one in trace.emitted.items() if other != key}
    for emitted in (others, {**others, key: late}):
        with pytest.raises(BrokenRuleError, match=r"^emitted:"):
            replace(trace, emitted=emitted).check()
