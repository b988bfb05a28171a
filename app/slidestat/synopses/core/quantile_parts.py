"""Quantiles as kernels take them: in whole millionths."""

import numpy as np
import numpy.typing as npt

from slidestat.synopses.core.errors import SynopsisError

_PARTS = 1_000_000


def parts_of(quantiles: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return quantiles from 0 to 1 in millionths; raises SynopsisError for any other number, and
    for one of more than six decimals: bounds of the nearest one that has fewer are not its own.
    """
    array = np.atleast_1d(np.asarray(quantiles, np.float64))
    if array.ndim != 1 or not np.all((array >= 0) & (array <= 1)):
        raise SynopsisError(f"a quantile must be a number from 0 to 1, not {quantiles!r}")
    parts = np.ascontiguousarray(np.rint(array * _PARTS), np.int64)
    if np.any(parts / _PARTS != array):
        raise SynopsisError(f"a quantile must have at most six decimals, not {quantiles!r}")
    return parts
