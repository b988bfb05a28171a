"""What a key costs is measured on its state, with as many events in the span as is said."""

from typing import Any

import numpy as np
import pytest

from benchmarks.harness.examples import example
from slidestat.declare.kinds import KINDS
from slidestat.declare.statistics import Count, Deviation, Mean, Quantiles, Rate, Sum, TopItems
from slidestat.declare.statistics.base import Statistic
from slidestat.declare.topology import Topology
from slidestat.engine import footprint as footprint_module
from slidestat.engine.footprint import EVENTS, measure
from slidestat.synopses.core.parameters import CountParameters
from slidestat.synopses.exponential_histogram.histogram import ExponentialHistogram


def declare(**changes: Any) -> Topology:
    return Topology(**{"name": "t", "source": "s", "span": "1h", "every": "1m", **changes})


@pytest.mark.parametrize("kind", KINDS)
def test_every_statistic_is_measured(kind: str) -> None:
    """Many events take more than few, and a state holds its synopses."""
    topology = declare(statistics=[example(KINDS[kind])])
    footprints = measure(topology)
    assert tuple(footprint.events for footprint in footprints) == EVENTS
    sizes = [footprint.state_bytes for footprint in footprints]
    assert sizes[0] == min(sizes) < sizes[-1]
    for footprint in footprints:
        (size,) = footprint.synopsis_bytes.values()
        assert 0 < size < footprint.state_bytes


def test_all_events_are_in_the_span() -> None:
    """A synopsis is as large as one that takes as many events of an hour by itself, all of which
    its longest window still has.
    """
    topology = declare(statistics=[Count(epsilon=0.0001)])
    span = topology.span_length.length
    for footprint in measure(topology)[:2]:
        alone = ExponentialHistogram.create(CountParameters(epsilon=0.0001, span=span))
        end = 1_700_000_000_000 + span
        alone.insert(np.arange(end - span, end - 1)[:: span // footprint.events])
        assert alone.query(span, end).upper == footprint.events
        (size,) = footprint.synopsis_bytes.values()
        assert abs(size - len(alone.to_bytes())) <= 0.01 * size


def test_shared_synopses_are_measured_once() -> None:
    """Statistics of equal runners have one size, and the state holds it once."""
    shared = measure(declare(statistics=[Mean(), Deviation(), Count(), Rate()]))
    alone = measure(declare(statistics=[Mean(), Count()]))
    assert shared == alone
    assert len(shared[0].synopsis_bytes) == 2


@pytest.mark.parametrize(
    ("span", "events"),
    [
        ("1 event", [1]),
        ("100 events", [5, 100]),
        ("1_000 events", [5, 1_000]),
        ("1_000_000 events", [5, 1_000, 100_000]),
    ],
)
def test_a_span_of_events_is_measured_up_to_its_fill(span: str, events: list[int]) -> None:
    """No key has more events in the span than the span."""
    topology = declare(span=span, statistics=[Count(), Sum()])
    assert [footprint.events for footprint in measure(topology)] == events


@pytest.mark.parametrize(
    "changes",
    [
        {"span": "1ms", "every": "1ms"},
        {"span": "36525d", "every": "1ms", "lateness": "36525d"},
        {"windows": ["1ms"] * 100, "every": "1ms"},
        {"key_field": "a.b.key", "time_field": ["a", "b", "t.t"], "value_field": "a.c"},
        {"statistics": [Sum(field="a", decimals=9), Mean(field="a", decimals=9), Count()]},
    ],
    ids=str,
)
def test_any_topology_is_measured(changes: dict[str, Any]) -> None:
    """Also at the limits of spans, ticks and values, and with fields anywhere."""
    footprints = measure(declare(**{"statistics": [Count(), Sum()], **changes}))
    assert [footprint.events for footprint in footprints] == list(EVENTS)


@pytest.mark.parametrize("statistic", [Count(epsilon=0.01), Quantiles(), TopItems(field="item")])
def test_the_largest_state_is_foreseen(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is foreseen for a million events is what a million events take, or more."""
    topology = declare(statistics=[statistic])
    monkeypatch.setattr(footprint_module, "FORESEEN_EVENTS", 1_000_000)
    measured = footprint_module._measure(topology, 1_000_000)
    assert footprint_module.largest_state(topology, measure(topology)) >= measured.state_bytes
