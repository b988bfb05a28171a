"""Answers of many keys as emissions, each with its place in their order."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from slidestat.declare.statistics.runner import Answered, Runner
from slidestat.engine.checkpoints.checkpoint import Loss
from slidestat.engine.emissions.emission import EmissionEncoder
from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.engine.emissions.placed_answers import NOTHING, PlacedAnswers
from slidestat.engine.keys.keyed_events import ranked
from slidestat.synopses.core.arrays import Bools, Floats, Integers


class PlacedEmissions:
    """The emissions of a partition; none of the keys that a referee answers for."""

    def __init__(
        self, encoder: EmissionEncoder, hidden: frozenset[str], *, provisional: bool = False
    ) -> None:
        """Create the writer; `hidden` are the keys that a referee answers for."""
        self._encoder = encoder
        self._hidden = hidden
        self._provisional = provisional

    def provisional(self) -> "PlacedEmissions":
        """Return a writer that marks its emissions as provisional."""
        return PlacedEmissions(self._encoder, self._hidden, provisional=True)

    def place(
        self,
        keys: list[str],
        groups: Integers,
        ticks: Integers,
        source_offsets: Integers,
        answered: Mapping[Runner, Answered],
        shown: Bools,
        table: Floats | None = None,
    ) -> PlacedAnswers:
        """Return the answers to the queries that are `shown`, in order; `groups` has the key of
        each query, and `table` the numbers of all figures, if they were computed before.
        """
        names, ranks = ranked(keys)
        order = np.lexsort((ranks[groups], ticks))
        if self._hidden:
            shown = shown & np.array([key not in self._hidden for key in keys], bool)[groups]
        order = order[shown[order]]
        if not len(order):
            return NOTHING
        return PlacedAnswers(
            ticks[order],
            names,
            ranks[groups[order]],
            self._encoder.figures(answered, table)[order],
            source_offsets[order],
        )

    def writer(self, loss: Loss | None) -> Callable[[PlacedAnswers], OutputRecords]:
        """Return a function that writes answers as records; those whose windows may lack records of
        `loss` are marked.
        """
        return partial(self._encoder.encode, provisional=self._provisional, loss=loss)
