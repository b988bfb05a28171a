"""A partition that brings nothing: provisional emissions; and events of clocks that are ahead."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from random import Random

import pytest
from hypothesis import given

from slidestat.declare.topology import Topology
from slidestat.engine.emissions.output_records import OutputRecord
from slidestat.engine.partition import PartitionProcessor
from slidestat.schemas.dead_letter import Reason
from slidestat.schemas.emission import Emission
from tests.engine.cases import Case, cases, laws, topology
from tests.engine.checks import emissions_of
from tests.engine.memory import PARTITION, SOURCE, MemoryStore, batch_of, outputs_of
from tests.engine.model import Model, Record
from tests.engine.streams import START_MS, confirmed, encode

LONG_AFTER = START_MS + 10_000_000


def run(
    topology: Topology, records: Sequence[Record], random: Random, idle: float
) -> tuple[list[Emission], list[Emission]]:
    """(emissions, provisional ones) of batches with idle moments between them."""
    processor = PartitionProcessor(topology, SOURCE, PARTITION, MemoryStore())
    sent, provisional = [], []
    rows = list(records)
    while rows:
        size = random.randint(1, 30)
        sent += outputs_of(processor.process(batch_of(rows[:size])))
        rows = rows[size:]
        while random.random() < idle:
            now = processor.watermark + topology.lateness_ms + random.randrange(2_000)
            looked = looked_ahead(processor, now)
            provisional += [("emission", key, (value, time)) for key, value, time in looked]
    return emissions_of(sent), emissions_of(provisional)


def looked_ahead(processor: PartitionProcessor, now: int) -> list[OutputRecord]:
    """The provisional emissions up to a time."""
    return list(chain.from_iterable(it.emissions for it in processor.provisional(now)))


def keys_of_suspects(topology: Topology, records: Sequence[Record]) -> set[str]:
    """The keys of events that waited, and were refused in the end."""
    model = Model(topology, records)
    return {
        event.key
        for record, event in zip(model.records, model.events, strict=True)
        if event is not None and record.offset in model.ahead
    }


def came_after_all(case: Case, emission: Emission) -> bool:
    """Return whether an event of the key, from before the tick, was read after its emission."""
    model = Model(case.topology, case.records)
    return any(
        event is not None
        and event.key == emission.key
        and event.time < emission.window_end_ms
        and record.offset > emission.source_offset
        for record, event in zip(model.records, model.events, strict=True)
    )


@laws
@given(cases())
def test_looking_ahead_leaves_no_trace(case: Case) -> None:
    """Whenever a partition was idle, what is emitted in the end is the same; and for each
    provisional emission that the watermark passed another one came, under the same key, unless a
    silence ended after all.
    """
    records = [*case.records, *confirmed(case.records[-1].offset + 1, LONG_AFTER)]
    busy, _ = run(case.topology, records, case.random, 0)
    idle, provisional = run(case.topology, records, case.random, 0.6)
    assert idle == busy
    refused = keys_of_suspects(case.topology, records)
    final = {(e.key, e.window_end_ms) for e in busy if not e.provisional}
    assert len(final) == len(busy)
    for emission in provisional:
        assert emission.provisional
        is_passed = emission.window_end_ms <= LONG_AFTER - case.topology.lateness_ms
        ended = case.topology.emits_silence and came_after_all(case, emission)
        if is_passed and emission.key not in refused and not ended:
            assert (emission.key, emission.window_end_ms) in final


@laws
@given(cases())
def test_a_provisional_emission_is_the_final_one_if_nothing_else_comes(case: Case) -> None:
    """The figures are those that the watermark brings when it passes; asked again, none comes."""
    processor = PartitionProcessor(case.topology, SOURCE, PARTITION, MemoryStore())
    processor.process(batch_of(case.records))
    looked = looked_ahead(processor, LONG_AFTER)
    assert looked_ahead(processor, LONG_AFTER) == []
    provisional = emissions_of([("emission", key, (value, t)) for key, value, t in looked])
    flush = confirmed(case.records[-1].offset + 1, LONG_AFTER)
    final = emissions_of(outputs_of(processor.process(batch_of(flush))))
    refused = keys_of_suspects(case.topology, [*case.records, *flush])
    provisional = [emission for emission in provisional if emission.key not in refused]
    figures = {(e.key, e.window_end_ms): e.figures for e in final}
    assert {e.figures is not None for e in provisional} <= {True}
    for emission in provisional:
        assert figures[emission.key, emission.window_end_ms] == emission.figures
    with_events = {place for place in figures if place[0] != "~"}
    assert {(e.key, e.window_end_ms) for e in provisional} <= with_events


def test_an_event_far_ahead_of_its_record_is_a_dead_letter() -> None:
    """Five minutes more than the record's Kafka timestamp are taken, a millisecond more is not: it
    has no part in the clock. Without a timestamp, nothing can be said.
    """
    minutes = 5 * 60_000
    far = START_MS + minutes
    records = [
        *(Record(i, None, encode("a", far, 1), START_MS) for i in (0, 1)),
        *(Record(i, None, encode("a", far + 1, 1), START_MS) for i in (2, 3)),
        *(Record(i, None, encode("a", far + 500, 1), -1) for i in (4, 5)),
    ]
    processor = PartitionProcessor(topology(), SOURCE, PARTITION, MemoryStore())
    letters = processor.process(batch_of(records[:4])).dead_letters
    assert [letter.offset for letter in letters] == [2, 3]
    assert {letter.reason for letter in letters} == {Reason.FROM_THE_FUTURE}
    assert letters[0].detail == "300001 ms after the record's own timestamp"
    assert processor.watermark == far
    assert processor.process(batch_of(records[4:])).dead_letters == []
    assert processor.watermark == far + 500


@pytest.mark.parametrize("time_field", ["time", "kafka:timestamp"])
def test_a_timestamp_in_seconds_is_said_to_be_one(time_field: str) -> None:
    """A letter has the date that it is as milliseconds, and the one that it seems to mean."""
    seconds = 1_764_072_072
    meant = "1970-01-21T10:01:12Z: it seems to be in seconds, 2025-11-25T12:01:12Z"
    record = Record(0, None, encode("a", seconds * 1_000, 1), seconds)
    declared = replace(topology(), time_field=time_field)
    processor = PartitionProcessor(declared, SOURCE, PARTITION, MemoryStore())
    (letter,) = processor.process(batch_of([record])).dead_letters
    assert letter.detail.endswith(meant)
    assert letter.reason is (
        Reason.BAD_TIME if time_field == "kafka:timestamp" else Reason.FROM_THE_FUTURE
    )
