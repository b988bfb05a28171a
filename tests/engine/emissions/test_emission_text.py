"""Emissions written by the thousand are the bytes of the same ones written one by one."""

import math

import msgspec
import numpy as np
from hypothesis import example, given, settings, strategies as st

from slidestat.engine.emissions.emission_text import EmissionText
from slidestat.schemas.emission import Emission, Figure, emission_key

_ODD = [0.0, -0.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 0.1]
_INTS = st.integers(-(2**63), 2**63 - 1)
_FIGURES = st.builds(
    Figure,
    statistic=st.text(max_size=8),
    estimate=st.none(),
    lower=st.none(),
    upper=st.none(),
    window_ms=st.none() | _INTS,
    quantile=st.none() | st.floats(0, 1),
    relative_error=st.floats(0, 1),
    confidence=st.sampled_from([1.0, 0.95]),
)
_QUOTED = (
    '","window_end_ms":0,"figures":[],"source_offset":0,"estimate":0.5,"lower":0.5,"upper":0.5'
)


@st.composite
def emissions(draw: st.DrawFn) -> list[Emission]:
    """Emissions that differ where those of a partition do."""
    names = st.text(max_size=8) | st.just(_QUOTED)
    topology, topic = draw(names), draw(names)
    provisional = draw(st.booleans())
    models = draw(st.lists(_FIGURES, min_size=1, max_size=4))
    numbers = st.floats() | st.sampled_from(_ODD)
    return [
        Emission(
            topology,
            draw(names),
            draw(_INTS),
            [
                msgspec.structs.replace(
                    model, **{name: draw(numbers) for name in ("estimate", "lower", "upper")}
                )
                for model in models
            ],
            topic,
            7,
            draw(_INTS),
            provisional,
        )
        for _ in range(draw(st.integers(1, 4)))
    ]


@settings(max_examples=120, deadline=None)
@given(emissions())
@example([Emission(_QUOTED, _QUOTED, 0, [Figure(_QUOTED, 0.5, 0.5, 0.5)], _QUOTED, 0, 0)])
# Of many sizes.
@example(
    [Emission("t", f"k{n}", n, [Figure("n", n / 3, n / 7, n / 2)], "s", 7, n) for n in range(300)]
)
def test_the_texts_are_those_of_the_schema(expected: list[Emission]) -> None:
    """Keys and values are, byte for byte, what msgspec writes of each emission, whatever the names,
    the keys and the numbers.
    """
    numbers = [[(f.estimate, f.lower, f.upper) for f in e.figures] for e in expected]
    names = sorted({emission.key for emission in expected})
    records = EmissionText(expected[0]).write(
        names,
        np.array([names.index(emission.key) for emission in expected], np.int64),
        np.array([emission.window_end_ms for emission in expected], np.int64),
        np.array(numbers, np.float64),
        np.array([emission.source_offset for emission in expected], np.int64),
    )
    assert list(records) == [
        (emission_key(e.topology, e.key, e.window_end_ms), msgspec.json.encode(e), e.window_end_ms)
        for e in expected
    ]
