"""Comparisons of what a partition puts out with the model: exact, nothing on top of the promise."""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from app.streaming.topology import Topology
from schemas.statistic import Statistic, statistic_key
from tests.streaming.memory import PARTITION, SOURCE, Output
from tests.streaming.model import Model

_decode = msgspec.json.Decoder(Statistic).decode


def statistics_of(outputs: Sequence[Output]) -> list[Statistic]:
    """The statistics among the outputs, each under the Kafka key and the timestamp it ought to
    have.
    """
    found = []
    for kind, kafka_key, rest in outputs:
        if kind == "statistic":
            value, timestamp = rest
            assert isinstance(value, bytes)
            s = _decode(value)
            assert kafka_key == statistic_key(
                s.topology, s.statistic, s.key, s.window_ms, s.window_end_ms
            )
            assert timestamp == s.window_end_ms
            found.append(s)
    return found


def offsets_of(kind: str, outputs: Sequence[Output]) -> list[int]:
    """Offsets of the letters of a kind."""
    return [offset for k, offset, _ in outputs if k == kind and isinstance(offset, int)]


def check_statistics(topology: Topology, model: Model, found: Sequence[Statistic]) -> None:
    """The figures are those of the model: each within its bounds and the promised error, under the
    same source position, in order of (tick, key), and no others.
    """
    expected = [
        (emission.tick, emission.key, emission.source_offset, statistic.name, n, figures[i])
        for emission in model.emissions
        for i, statistic in enumerate(topology.statistics)
        for n, figures in sorted(emission.figures.items())
    ]
    promised = {s.name: s.parameters(topology.span_ms).relative_error for s in topology.statistics}
    places = [(s.window_end_ms, s.key, s.source_offset, s.statistic, s.window_ms) for s in found]
    assert places == [e[:5] for e in expected]
    for s, (*_, exact) in zip(found, expected, strict=True):
        assert s.window_start_ms == s.window_end_ms - s.window_ms
        assert (s.topology, s.source_topic, s.source_partition) == (
            topology.name,
            SOURCE,
            PARTITION,
        )
        assert s.relative_error == promised[s.statistic] <= s.epsilon
        assert s.lower <= exact <= s.upper, s
        error = abs(Fraction(s.estimate) - exact)
        allowed = Fraction(s.relative_error) * exact + Fraction(s.absolute_error)
        assert error <= allowed, s
