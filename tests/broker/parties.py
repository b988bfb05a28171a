"""What the parties of a topology publish, and a referee that has it all, without a broker."""

import numpy as np

from slidestat.declare.referee import Referee
from slidestat.engine.effects import Effects
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.publishing import SynopsisTopic
from slidestat.engine.records import RecordBatch
from slidestat.referee.referee_partition import RefereeProcessor
from slidestat.testing.records import MemoryStore
from tests.broker.workers import Records, as_batch


def of_parties(referee: Referee, source: Records) -> tuple[RefereeProcessor, Effects]:
    """A referee whose parties come to each tick at once, and what it writes."""
    topology = referee.of
    topic = SynopsisTopic(topology, len(source))
    published = []
    for partition, records in source.items():
        processor = PartitionProcessor(topology, topology.source, partition, MemoryStore())
        effects = processor.process(as_batch(topology.source, partition, records))
        published += topic.records(effects.published, partition)
    # By tick, and of one tick each party's synopses before its clock.
    published.sort(key=lambda record: record.timestamp)
    batch = RecordBatch(
        referee.source,
        0,
        np.arange(len(published)),
        [record.key for record in published],
        [record.value for record in published],
        [record.timestamp for record in published],
        0,
    )
    judge = RefereeProcessor(referee, referee.source, 0, MemoryStore())
    effects = judge.process(batch)
    assert not effects.dead_letters
    return judge, effects
