"""Rows that follow each other with the same values."""

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt


def equal_runs(*columns: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield where each run of rows with the same values in all columns starts and ends; none of no
    rows. Cost: a look at each row.
    """
    count = len(columns[0])
    if count:
        changes = reduce(or_, (column[1:] != column[:-1] for column in columns))
        yield from pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), count])
