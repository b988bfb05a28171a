"""What cannot be exactly once is refused, and what figures mean does not change with it."""

import pytest

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError


def declared(**fields: object) -> Topology:
    base: dict[str, object] = {"name": "t", "source": "s", "span": "1h", "every": "1m"}
    return Topology(**{**base, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"exactly_once": "yes"}, "exactly_once is 'yes'"),
        ({"exactly_once": True, "publish": ["a"]}, "publish is"),
        ({"exactly_once": True, "idle": "30s"}, "idle is '30s'"),
    ],
)
def test_what_cannot_hold_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(SlidestatError, match=said):
        declared(**fields)


def test_figures_mean_the_same() -> None:
    """The header of emissions and the meaning of states are those of the default."""
    plain, once = declared(), declared(exactly_once=True)
    assert fingerprint_of(plain) == fingerprint_of(once)
    assert plain.state_meaning == once.state_meaning
