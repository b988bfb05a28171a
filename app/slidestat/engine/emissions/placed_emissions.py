"""Answers of many keys as records, each with its place in the order of emissions."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from slidestat.declare.runners import Answered, Runner
from slidestat.engine.checkpoints.loss import Loss
from slidestat.engine.emissions.emission import EmissionEncoder
from slidestat.engine.emissions.in_order import Placed
from slidestat.engine.keys.key_timers import Place

Int64s = npt.NDArray[np.int64]


class PlacedEmissions:
    """Writes the emissions of a partition; none of the keys that a referee answers for."""

    def __init__(
        self, encoder: EmissionEncoder, hidden: frozenset[str], *, provisional: bool = False
    ) -> None:
        """`hidden` are the keys that a referee answers for."""
        self._encoder = encoder
        self._hidden = hidden
        self._provisional = provisional

    def provisional(self) -> "PlacedEmissions":
        """The same, which say that they are provisional."""
        return PlacedEmissions(self._encoder, self._hidden, provisional=True)

    def write(
        self,
        keys: Sequence[str],
        groups: Int64s,
        ticks: Int64s,
        source_offsets: Int64s,
        answered: Mapping[Runner, Answered],
        loss: Loss | None,
        emitted: int,
    ) -> list[Placed]:
        """The emission of each query, by (tick, key), but for ticks up to `emitted`, which were
        emitted before; `groups` says of which key each query is.
        """
        shown = ticks > emitted
        by_name = sorted(range(len(keys)), key=keys.__getitem__)
        ranks = np.empty(len(keys), np.int64)
        ranks[by_name] = np.arange(len(keys))
        order = np.lexsort((ranks[groups], ticks))
        if self._hidden:
            shown &= np.array([key not in self._hidden for key in keys], bool)[groups]
        order = order[shown[order]]
        if not len(order):
            return []
        names = [keys[group] for group in groups[order].tolist()]
        ticks = ticks[order]
        records = self._encoder.encode(
            answered,
            order,
            names,
            ticks,
            source_offsets[order],
            provisional=self._provisional,
            loss=loss,
        )
        places: Iterable[Place] = zip(ticks.tolist(), names, strict=True)
        each = self._encoder.records_each
        if each > 1:
            places = (place for place in places for _ in range(each))
        return list(zip(places, records, strict=True))
