"""Records of other formats than JSON wait until the schema registry has given their schemas.

A registry that does not answer is no error of a record: it is asked again for as long as it takes,
and the worker logs each half minute that it waits.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from slidestat.engine.decoding.formats.source_schemas import Registry, SchemaId, framed_by_headers
from slidestat.engine.decoding.formats.translations import remarks_on
from slidestat.engine.records import RecordBatch
from slidestat.log import log_event
from slidestat.pauses import Pauses, Reminder

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
# A registry may get a schema later: a replica behind its leader, a schema restored.
_LACKING_S = 60.0


class SchemaWait:
    """A step before reading, which waits until the schemas of a source's records are known."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._since: float | None = None
        self._reminder = Reminder()
        self._forget_due = 0.0

    async def before(self, batch: RecordBatch, is_given_up: Callable[[], bool]) -> bool:
        """Return when the schemas of all values are known; False if the batch is given up first."""
        if time.monotonic() >= self._forget_due:
            self._registry.schemas.forget_lacking()
            self._forget_due = time.monotonic() + _LACKING_S
        values = framed_by_headers(batch.values, batch.headers)
        unknown = sorted(self._registry.schemas.unknown(values), key=str)
        for number in unknown:
            if is_given_up():
                return False
            pauses = Pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            while (why := await asyncio.to_thread(self._registry.look_up, number)) is not None:
                if is_given_up():
                    return False
                self._tell(batch, number, why)
                await asyncio.sleep(pauses.begin())
            _remark(batch, number, remarks_on(self._registry.schemas, number))
        if unknown and self._since is not None:
            self._since = None
            log_event("schema registry answers", "the schema registry answers again")
        return not (unknown and is_given_up())

    def _tell(self, batch: RecordBatch, number: SchemaId, why: str) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
            self._reminder.reset()
        if not self._reminder.is_due():
            return
        waited_s = round(now - self._since)
        log_event(
            "schema registry silent",
            f"records of {batch.topic} wait for schema {number}, for {waited_s} s now: {why}; this"
            " worker asks on, and goes on where it was once it is told",
            topic=batch.topic,
            partition=batch.partition,
            offset=int(batch.offsets[0]),
            schema=number,
            seconds=waited_s,
        )


def _remark(batch: RecordBatch, number: SchemaId, remarks: Sequence[str]) -> None:
    for remark in remarks:
        log_event(
            "schema not as written",
            f"schema {number} of {batch.topic}: {remark}",
            topic=batch.topic,
            schema=number,
            remark=remark,
        )
