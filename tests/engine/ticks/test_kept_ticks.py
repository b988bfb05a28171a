"""A partition that is behind keeps ticks back, to absorb the events of many in one go: that never
shows, and ends before anything is made durable.
"""

import asyncio
from random import Random
from typing import cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

from slidestat.engine.emissions.output_records import OutputRecords
from slidestat.engine.emissions.placed_answers import PlacedAnswers
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.ticks.ticker import LAST, in_order
from slidestat.faust.fencing import SupersededError
from slidestat.faust.pipeline import Pipeline, flush_all
from slidestat.faust.progress import Progress
from slidestat.faust.table import StateTable
from slidestat.kafka.producer import BulkProducer
from tests.engine.cases import Case, cases, laws
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore as Stored,
    Output,
    SmallMemoryProcessor,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.faust.test_slices import TOPOLOGY, Offsets, Outputs, Table, batch, nothing

FAR = 1_000_000


def run(
    kind: type[PartitionProcessor], case: Case, random: Random | None
) -> tuple[list[Output], Stored]:
    """All that a case leads to, in batches cut by chance that may keep ticks back; in one batch
    without a `random`.
    """
    store, outputs = Stored(), []
    processor = kind(case.topology, SOURCE, PARTITION, store)
    left = list(case.records)
    while left:
        size = random.randint(1, len(left)) if random else len(left)
        more_follows = random is not None and random.random() < 0.8
        for effects in processor.steps(batch_of(left[:size]), more_follows=more_follows):
            outputs += outputs_of(effects)
        del left[:size]
        if random is not None and random.random() < 0.2:
            outputs += [it for effects in processor.kept_back() for it in outputs_of(effects)]
    outputs += [it for effects in processor.kept_back() for it in outputs_of(effects)]
    snapshot = processor.snapshot()
    assert snapshot is not None
    store.write(rows_of(snapshot))
    return outputs, store


@laws
@given(cases(), st.sampled_from([PartitionProcessor, SmallMemoryProcessor]))
def test_ticks_kept_back_change_no_byte(case: Case, kind: type[PartitionProcessor]) -> None:
    """Emissions, letters, publications, synopses and checkpoint are those of a single batch."""
    whole, stored = run(PartitionProcessor, case, None)
    parts, stored_by_parts = run(kind, case, case.random)
    for what in ("emission", "alert", "dead letter", "late", "published"):
        assert [it for it in parts if it[0] == what] == [it for it in whole if it[0] == what]
    assert stored_by_parts.synopses(case.topology) == stored.synopses(case.topology)
    checkpoints = (store.newest_checkpoint(case.topology) for store in (stored_by_parts, stored))
    assert next(checkpoints) == next(checkpoints)


class Behind(Offsets):
    """The partition goes on far behind what was read, up to `last`."""

    last: int | None = FAR

    def end(self, _partition: int) -> int | None:
        return self.last

    def waiting(self, _partition: int) -> int:
        return 0

    async def earliest(self, _partition: int) -> int:
        return FAR


def pipeline(outputs: Outputs, offsets: Offsets) -> Pipeline:
    table, producer = cast(StateTable, Table()), cast(BulkProducer, outputs)
    return Pipeline(
        TOPOLOGY,
        table,
        producer,
        offsets,
        Progress("kept"),
        checkpoint_interval_s=0.0,
        allow_loss=True,
    )


FIRST = batch(0, ("a", 0), ("b", 0), ("a", 1))
SECOND = batch(3, ("a", 2), ("b", 3))


def test_a_partition_that_is_behind_emits_when_it_has_come_near_the_end() -> None:
    """Until then its ticks wait; one that keeps up emits with each batch."""
    outputs, offsets = Outputs(nothing), Behind()
    behind = pipeline(outputs, offsets)

    async def read() -> None:
        assert await behind.steps.process(FIRST)
        assert outputs.sent == []
        offsets.last = 5
        assert await behind.steps.process(SECOND)

    asyncio.run(read())
    near = Outputs(nothing)
    asyncio.run(pipeline(near, Offsets()).steps.process(FIRST))
    assert len(near.sent) == 2
    assert near.sent == outputs.sent[:2]
    assert len(outputs.sent) == 4


def test_a_flush_emits_first() -> None:
    """No state may be written behind a tick that is not acknowledged."""
    outputs = Outputs(nothing)
    behind = pipeline(outputs, Behind())

    async def read() -> None:
        assert await behind.steps.process(FIRST)
        with pytest.raises(RuntimeError, match="kept back"):
            behind.snapshots()
        with pytest.raises(SupersededError):
            await flush_all([behind], cast(BulkProducer, outputs), asyncio.Lock())

    behind.write = superseded  # type: ignore[method-assign]  # It is not what is tested.
    asyncio.run(read())
    assert outputs.acknowledged == len(outputs.sent) == 2


async def superseded(_snapshots: object) -> None:
    """Ends a flush where it would write."""
    raise SupersededError


def test_a_loss_comes_behind_what_was_read_before_it() -> None:
    """The ticks before lost records are emitted without a word of them."""
    outputs = Outputs(nothing)
    behind = pipeline(outputs, Behind())

    async def read() -> None:
        assert await behind.steps.process(FIRST)
        assert await behind.order.check(batch(FAR, ("a", 9)))

    asyncio.run(read())
    assert len(outputs.sent) == 2
    assert not any(b"lost" in cast(bytes, record[3]) for record in outputs.sent)


def test_what_is_kept_back_is_bounded() -> None:
    """However much follows, ticks that would come to many emissions are not kept back."""
    processor = SmallMemoryProcessor(TOPOLOGY, "events", 0, Stored())
    most = SmallMemoryProcessor.LIMITS.kept_emissions
    second = batch(0, *((f"key-{number}", number // 2) for number in range(2 * most + 2)))
    emitted = [len(effects.emissions) for effects in processor.steps(second, more_follows=True)]
    assert sum(emitted) == 2 * most
    assert not processor.keeps_ticks


def test_many_emissions_are_given_some_at_a_time() -> None:
    """Whoever sends those of many ticks is not held up for long by what comes at the end."""
    ticks = np.arange(12_345)
    answers = PlacedAnswers(ticks, ["key"], np.zeros_like(ticks), ticks, ticks)

    def write(some: PlacedAnswers) -> OutputRecords:
        return OutputRecords.of((b"", b"", tick) for tick in some.ticks.tolist())

    given = [said.emissions for said in in_order(write, iter([(answers, LAST)]))]
    assert max(map(len, given)) <= 5_000
    assert [record[2] for records in given for record in records] == ticks.tolist()
