"""The keys in hand, of which something is computed."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slidestat.engine.states.states import States

Int64s = npt.NDArray[np.int64]


class Hand(NamedTuple):
    """G keys in work, their numbers int64[G], and their states before the work."""

    names: list[str]
    numbers: Int64s
    states: States
