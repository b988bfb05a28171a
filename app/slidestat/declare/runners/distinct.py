"""The number of different items."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work, require_question
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.distinct_batch import run_distinct_batch
from slidestat.synopses.distinct.distinct_parameters import DistinctParameters
from slidestat.synopses.distinct.distinct_wave import DistinctWave, Predicate
from slidestat.synopses.distinct.paired_ids import paired_ids, second_is
from slidestat.synopses.lean_distinct.batch import run_lean_distinct_batch
from slidestat.synopses.lean_distinct.parameters import LeanDistinctParameters


@dataclass(frozen=True)
class DistinctRunner:
    """The number of different items of a field, or of pairs of an item and the value of the field
    `by`.
    """

    parameters: DistinctParameters
    field: FieldPath
    by: FieldPath | None = None

    @property
    def meaning(self) -> str:
        p = self.parameters
        what = of_field(
            self.field,
            f"distinct, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )
        # As a list: no other field's path is written so.
        return what if self.by is None else f"{what} by {list(self.by)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        if self.by is None:
            batch, (items,) = work.items_of(self.field)
            ids = items.ids()
        else:
            batch, (firsts, seconds) = work.items_of(self.field, self.by)
            ids = paired_ids(firsts.ids(), seconds.ids(self.parameters.seed))
        result = run_distinct_batch(self.parameters, states, batch.holding(ids))
        return Answered(result.states, {"distinct": figures_of(result)})


@dataclass(frozen=True)
class LeanDistinctRunner:
    """The number of different items of a field, by bitmaps."""

    parameters: LeanDistinctParameters
    field: FieldPath

    @property
    def meaning(self) -> str:
        p = self.parameters
        return of_field(
            self.field,
            f"lean distinct, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        batch, (items,) = work.items_of(self.field)
        result = run_lean_distinct_batch(self.parameters, states, batch.holding(items.ids()))
        return Answered(result.states, {"lean_distinct": figures_of(result)})


@dataclass(frozen=True)
class DistinctWhereRunner:
    """A question to the states of a `DistinctRunner`: how many of the items have `text` in the
    field `by`. It takes no events in.
    """

    parameters: DistinctParameters
    field: FieldPath
    by: FieldPath | None
    text: str

    @property
    def meaning(self) -> str:
        asked_of = DistinctRunner(self.parameters, self.field, self.by)
        return f"{asked_of.meaning} where it is {self.text!r}"

    @property
    def is_meant(self) -> Predicate:
        """The predicate that an item has the text."""
        return second_is(self.text, self.parameters.seed)

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        require_question(work)
        answers = np.empty((3, len(work.query_times), len(work.windows)))
        waves, is_meant = list(map(self._wave, states)), self.is_meant
        for wave, queries in zip(waves, pairwise(work.query_starts.tolist()), strict=True):
            for query in range(*queries):
                for place, window in enumerate(work.windows.tolist()):
                    found = wave.query(window, int(work.query_times[query]), is_meant)
                    answers[:, query, place] = found.estimate, found.lower, found.upper
        return Answered([wave.to_bytes() for wave in waves], {"distinct": answers})

    def _wave(self, state: bytes | None) -> DistinctWave:
        if state is None:
            return DistinctWave.create(self.parameters)
        wave = DistinctWave.from_bytes(state)
        if wave.parameters != self.parameters:
            raise SynopsisError("the state was made with other parameters")
        return wave
