"""Norms of how often items came."""

from collections.abc import Sequence
from dataclasses import dataclass

from slidestat.declare.fields import FieldPath
from slidestat.declare.runners.runner import Answered, figures_of, of_field
from slidestat.declare.runners.work import Work
from slidestat.synopses.norm.lp_norm import LpNormParameters, run_lp_norm_batch


@dataclass(frozen=True)
class NormRunner:
    """The L_p norm of the items of a field, or of how much of a `weight` came of each."""

    parameters: LpNormParameters
    field: FieldPath
    weight: FieldPath | None = None

    @property
    def meaning(self) -> str:
        p = self.parameters
        what = of_field(
            self.field,
            f"norm, p {p.p}, epsilon {float(p.epsilon)}, delta {float(p.delta)}, seed {p.seed}",
        )
        return what if self.weight is None else f"{what} weighing {list(self.weight)}"

    def run(self, states: Sequence[bytes | None], work: Work) -> Answered:
        weights = None
        if self.weight is None:
            batch, (items,) = work.items_of(self.field)
        else:
            batch, items, weights = work.weighed(self.field, self.weight)
        result = run_lp_norm_batch(self.parameters, states, batch.holding(items.ids()), weights)
        return Answered(result.states, {"norm": figures_of(result)})
