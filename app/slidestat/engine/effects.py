"""Outputs of a batch of records: emissions, letters and what is published."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from slidestat.engine.emissions.output_records import NO_RECORDS, AlertRecord, OutputRecord
from slidestat.engine.intake.letters import Letter
from slidestat.engine.publishing import Clock, Publication


@dataclass(slots=True)
class Effects:
    """The outputs of a batch, in addition to the key states."""

    emissions: Sequence[OutputRecord] = NO_RECORDS
    dead_letters: list[Letter] = field(default_factory=list)
    late: list[Letter] = field(default_factory=list)
    published: list[Publication | Clock] = field(default_factory=list)
    alerts: list[AlertRecord] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is to be sent."""
        said = self.emissions or self.dead_letters or self.late or self.published
        return not (said or self.alerts)
