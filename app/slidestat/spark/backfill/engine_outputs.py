"""The outputs of an engine for a partition of history, as rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from slidestat.declare.forms.resolved import fingerprint_of
from slidestat.declare.topology import Topology
from slidestat.engine.clock import closing_tick
from slidestat.engine.effects import Effects
from slidestat.engine.emissions.emission_codec import JsonCodec, JsonWithNumbers
from slidestat.engine.emissions.output_records import NO_RECORDS, OutputRecords
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import Clock, Publication, SynopsisTopic, published_statistics
from slidestat.faust.local_states import FLUSH_RECORDS, LocalStates
from slidestat.schemas.emission import DECLARATION_HEADER
from slidestat.schemas.synopsis import SynopsisHeaders, SynopsisKey, encode_key, party_name
from slidestat.spark.backfill.emissions import EmissionFolder
from slidestat.spark.backfill.record_rows import Out, arrow_rows, rows_of_effects

KEYS = "_keys"
"""Not a real topic: the keys that each partition has counted, to be compared."""

READ = "_read"
"""Nor is this: how many records of a partition were read, as a text."""

EngineOf = Callable[[LocalStates, JsonCodec | None], PartitionProcessor]


def read_row(partition: int, records: int) -> Out:
    """Return the row with the number of records of a partition that were read."""
    return READ, partition, 0, None, str(records).encode(), []


class EngineOutputs:
    """The outputs of one engine, for a whole partition or some of its keys."""

    def __init__(
        self,
        topology: Topology,
        number: int,
        published: SynopsisTopic,
        engine_of: EngineOf,
        folder: EmissionFolder | None = None,
    ) -> None:
        """Create the outputs; `engine_of` makes the engine over a store of states, with a codec.
        With a `folder` emissions go to files there, and are no rows.
        """
        self._files = None if folder is None else folder.files(topology, number)
        codec = None if folder is None else JsonWithNumbers()
        self._topology = topology
        self._number = number
        self._published = published
        self._states = LocalStates()
        self._processor = engine_of(self._states, codec)
        self._unflushed = 0
        self._declared_by = [(DECLARATION_HEADER, fingerprint_of(topology).encode())]

    def write(self, steps: Iterable[Effects], records: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that result from the next records."""
        yield from self._rows(steps)
        self._unflushed += records
        if self._unflushed >= FLUSH_RECORDS:
            yield from self._flush()

    def _rows(self, steps: Iterable[Effects]) -> Iterator[pa.RecordBatch]:
        for effects in steps:
            if effects.emissions and self._files is not None:
                self._files.write(OutputRecords.of(effects.emissions))
                effects = replace(effects, emissions=NO_RECORDS)
            yield from rows_of_effects(effects, self._topology, self._number, self._declared_by)
            yield from self._publish(effects.published)

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield the synopses of the keys that a window still sees, as the end of history leaves
        them; of those at an interval, the ones since its last tick; nothing more of a topology that
        publishes them itself.
        """
        yield from self._flush()
        if self._files is not None:
            self._files.close()
        if self._topology.synopses:
            for published in self._processor.synopses_left():
                yield from self._publish(published)
        elif not self._topology.has_referee:
            yield from arrow_rows(self._synopses())
        self._states.close()

    def _publish(self, published: Iterable[Publication | Clock]) -> Iterator[pa.RecordBatch]:
        return arrow_rows(
            (self._published.name, it.partition, it.timestamp, it.key, it.value, it.headers)
            for it in self._published.records(published, self._number)
        )

    def _synopses(self) -> Iterator[Out]:
        topology, tick = self._topology, self._processor.watermark + 1
        party = party_name(topology.events_topic, self._number)
        headers = [
            SynopsisHeaders(meaning, self._processor.next_offset - 1).encode()
            for meaning in dict.fromkeys(runner.meaning for runner in topology.runners)
        ]
        names = published_statistics(topology)
        for key, stored in self._states.scan():
            state = decode_key_state(stored)
            if _is_silent(topology, state.last_time, tick):
                continue
            for name, header, synopsis in zip(names, headers, state.synopses, strict=True):
                place = encode_key(SynopsisKey(topology.name, name, key, party))
                yield topology.synopsis_topic, self._number, tick, place, synopsis, header

    def _flush(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows(self._processor.kept_back())
        yield from arrow_rows(self._put_away())

    def _put_away(self) -> Iterator[Out]:
        """Write the states; yield their keys, if a topology needs each key in one partition."""
        snapshot = self._processor.snapshot()
        self._unflushed = 0
        if snapshot is None:
            return
        self._states.write(snapshot)
        self._processor.written()
        if not self._topology.publishes_partitions:
            for key in snapshot.states.keys() - set(self._topology.publish):
                yield KEYS, self._number, 0, key.encode(), None, []


def _is_silent(topology: Topology, last_time: int, tick: int) -> bool:
    """Return whether a key is forgotten: its state may not be deleted by then."""
    if topology.forget_ms is None:
        return False
    return closing_tick(last_time, topology.forget_ms, topology.every_ms) < tick
