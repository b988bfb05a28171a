"""Find the declarations that ship: inside the package where it comes from a wheel, else at the top
of the checkout.
"""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]


def shipped_topologies() -> Traversable:
    """Return the folder of the declarations that ship, `NAME.py` each."""
    inside = resources.files("slidestat") / "topologies"
    return inside if inside.is_dir() else _CHECKOUT / "topologies"
