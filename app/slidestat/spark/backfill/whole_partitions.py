"""Each partition of history in one task, through the very engine that a worker has."""

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.decoder import EventDecoder
from slidestat.engine.emissions.emission_codec import JsonCodec
from slidestat.engine.garbage_collector import calm_garbage_collector
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisTopic, TickPublisher
from slidestat.engine.states.stored_keys import PartitionStore
from slidestat.spark.backfill.emissions.emission_files import EmissionFolder
from slidestat.spark.backfill.engine_outputs import EngineOutputs, read_row
from slidestat.spark.backfill.partition_batches import by_number, one_after_another
from slidestat.spark.backfill.reading.partition_history import History, HistoryBatch
from slidestat.spark.backfill.record_rows import RECORD_SCHEMA, arrow_rows


def by_partition(
    topology: Topology,
    history: History,
    partitions: int,
    synopses_ms: int | None,
    folder: EmissionFolder | None = None,
) -> DataFrame:
    """Compute what the topology writes, those of one topic and partition in the order in which a
    worker would write them; and, as of topics `KEYS` and `READ`, the keys of each partition and how
    many records it had. With a `folder` emissions go to files there instead.
    """
    read = history.read

    def run(rows: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        decoder, published = EventDecoder(topology), SynopsisTopic(topology, partitions)
        begin = partial(_Partition, topology, decoder, published, synopses_ms, folder)
        with calm_garbage_collector():
            yield from one_after_another(by_number(read(rows, decoder)), begin)

    return history.rows.mapInArrow(run, RECORD_SCHEMA)


class _Partition:
    """A partition of history while it is read."""

    def __init__(
        self,
        topology: Topology,
        decoder: EventDecoder,
        published: SynopsisTopic,
        synopses_ms: int | None,
        folder: EmissionFolder | None,
        number: int,
    ) -> None:
        self._topology = topology
        self._number = number
        self._read = 0
        self._decoder = decoder
        self._outputs = EngineOutputs(
            topology, number, published, synopses_ms, self._engine, folder
        )

    def take(self, part: HistoryBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch in."""
        self._read += len(part.records)
        steps = self._processor.steps(part.records, part.events, more_follows=True)
        yield from self._outputs.write(steps, len(part.records))

    def close(self) -> Iterator[pa.RecordBatch]:
        """Yield the synopses in the end, and how many records were read."""
        yield from self._outputs.close()
        yield from arrow_rows([read_row(self._number, self._read)])

    def _engine(
        self, states: PartitionStore, publisher: TickPublisher | None, codec: JsonCodec | None
    ) -> PartitionProcessor:
        place = self._topology, self._topology.events_topic, self._number
        self._processor = PartitionProcessor(
            *place, states, self._decoder, codec, publisher=publisher
        )
        return self._processor
