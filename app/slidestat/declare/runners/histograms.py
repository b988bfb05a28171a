"""Counts between edges, and of items that are named beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.core.parameters import CountParameters
from slidestat.synopses.value_histogram.value_histogram import (
    ValueHistogramParameters,
    run_value_histogram_batch,
)


@dataclass(frozen=True)
class HistogramRunner:
    """Counts between edges; an answer has one more axis, a place for each range."""

    parameters: ValueHistogramParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        parameters = self.parameters
        edges = ", ".join(map(str, parameters.edges))
        return of_field(
            self.field, f"histogram, epsilon {float(parameters.epsilon)}, edges {edges}"
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        result = run_value_histogram_batch(self.parameters, states, work.values_of(self.field))
        return Answered(result.states, {"histogram": figures_of(result)})


@dataclass(frozen=True)
class ItemsRunner:
    """Counts of `items` that are named beforehand, rising; an answer has a place for each of them.

    They are the bins of a histogram: bin i + 1 is that of the i-th item.
    """

    parameters: CountParameters
    field: FieldPath
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        counts = f"counts of {list(self.items)}, epsilon {float(self.parameters.epsilon)}"
        return of_field(self.field, counts)

    @property
    def histogram(self) -> ValueHistogramParameters:
        """The histogram of the items' places, from 1 on."""
        edges = tuple(map(float, range(1, len(self.items) + 1)))
        return ValueHistogramParameters(self.parameters.epsilon, self.parameters.span, edges)

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        batch, (items,) = work.items_of(self.field)
        place_of = {item: float(place) for place, item in enumerate(self.items, 1)}
        places = np.array([place_of.get(text, 0.0) for text in items.texts])
        places = places[items.codes] if len(items.codes) else np.empty(0)
        rows = np.flatnonzero(places)
        result = run_value_histogram_batch(
            self.histogram,
            states,
            batch.taking(rows, places[rows]),
        )
        return Answered(result.states, {"items": figures_of(result)[..., 1:]})
