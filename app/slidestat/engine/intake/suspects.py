"""Records that wait and may yet be refused: those that lie ahead of the records around them."""

from collections.abc import Iterable, Sequence

import numpy as np

from slidestat.engine.clock.event_clock import EventClock, Refused
from slidestat.engine.decoding.event_columns import Refusal
from slidestat.engine.events import Events
from slidestat.engine.intake.letters import Decided, Letter, letter_of
from slidestat.engine.records import RecordBatch
from slidestat.engine.waiting.event_store import EventStore
from slidestat.schemas.dead_letter import Reason


class Suspects:
    """The suspects of a partition's clock, whole: a letter would have them."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._records: dict[int, Letter] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def offsets(self) -> Iterable[int]:
        """The offsets of the suspects."""
        return self._records

    def refuse(
        self,
        events: Events,
        waiting: EventStore,
        batch: RecordBatch,
        clock: EventClock,
        refused: Sequence[Refused],
    ) -> tuple[Events, list[Decided]]:
        """Return those left of `events`, which are on time, and the letters of the suspects that
        were refused, if they are among those or wait, each with the offset at which that was
        decided; what may be refused later is kept whole.
        """
        if not refused and not self._records and not clock.suspects:
            return events, []
        known = dict.fromkeys(events.offsets.tolist()) | self._records
        letters: list[Decided] = []
        for suspect in refused:
            if suspect.offset in known:
                letter = known[suspect.offset] or _suspect(batch, suspect.offset)
                detail = f"{suspect.ahead} {self._unit} ahead of the records around it"
                letters.append((suspect.decided_at, letter._replace(detail=detail)))
        offsets = [letter.offset for _, letter in letters]
        waiting.discard(offsets)
        self._records = {
            offset: known[offset] or _suspect(batch, offset)
            for offset in clock.suspects
            if offset in known
        }
        return events.take(np.flatnonzero(~np.isin(events.offsets, offsets))), letters


def _suspect(batch: RecordBatch, offset: int) -> Letter:
    row = int(np.searchsorted(batch.offsets, offset))
    return letter_of(batch, Refusal(row, Reason.FROM_THE_FUTURE, ""))
