"""The items that come most often, and how often items came."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, CombinableRunner, Listed, of_field
from slidestat.declare.runners.work import Float64s, Work, require_question
from slidestat.synopses.frequent.named_batch import run_named_items_batch
from slidestat.synopses.frequent.named_counts import run_item_counts
from slidestat.synopses.frequent_pairs.parameters import PairedParameters


@dataclass(frozen=True)
class TopRunner(CombinableRunner):
    """The items of a field that came most often: those with a share of epsilon, and maybe others
    with less. Where none has it and counts are exact, `instead` others, the most frequent ones.
    """

    parameters: PairedParameters
    field: FieldPath
    instead: int = 0

    @property
    def meaning(self) -> str:
        return of_field(
            self.field, f"frequent items in pairs, epsilon {float(self.parameters.epsilon)}"
        )

    def combined(self, other: Self) -> Self:
        return replace(self, instead=max(self.instead, other.instead))

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        batch, (items,) = work.items_of(self.field)
        result = run_named_items_batch(
            self.parameters,
            states,
            batch.holding(items.codes),
            items.texts,
            self.parameters.epsilon,
            self.instead,
        )
        found = [
            Listed(name, ((lower + upper) / 2, float(lower), float(upper)))
            for name, lower, upper in zip(
                result.names, result.lowers.tolist(), result.uppers.tolist(), strict=True
            )
        ]
        ends = result.ends.tolist()
        windows = len(work.windows)
        lists = [
            [
                sorted(found[ends[at] : ends[at + 1]], key=lambda item: (-item.numbers[0], item))
                for at in range(query * windows, (query + 1) * windows)
            ]
            for query in range(len(work.query_times))
        ]
        return Answered(result.states, {}, lists)


@dataclass(frozen=True)
class ItemCountRunner:
    """A question to the states of a `TopRunner`: how often each of `items` came. It takes no events
    in.
    """

    parameters: PairedParameters
    field: FieldPath
    items: tuple[str, ...]

    @property
    def meaning(self) -> str:
        return f"{TopRunner(self.parameters, self.field).meaning} counted of {list(self.items)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        require_question(work)
        states, counts = run_item_counts(self.parameters, states, *work.queries, self.items)
        return Answered(states, {}, self.listed(counts))

    def listed(self, counts: Float64s) -> list[list[list[Listed]]]:
        """Return float64[3, Q, W, items] as a list for each query and window, items in their
        order.
        """
        return [
            [
                [
                    Listed(item, (estimate, lower, upper))
                    for item, (estimate, lower, upper) in zip(self.items, row, strict=True)
                ]
                for row in windows
            ]
            for windows in np.moveaxis(counts, 0, 3).tolist()
        ]
