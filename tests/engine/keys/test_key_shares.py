"""A partition's keys over several engines, with the partition's clock: the bytes of one engine."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from random import Random
from zlib import crc32

import numpy as np
import pytest
from hypothesis import assume, given

from slidestat.declare.topology import Topology
from slidestat.engine import shares as judging
from slidestat.engine.clock import closing_tick
from slidestat.engine.events import Events, joined
from slidestat.engine.keys.key_state import decode_key_state
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.shares import Judge, Judged, KeyShare, SharedRecords
from tests.engine.cases import Case, cases, laws, topology, with_synopses
from tests.engine.memory import (
    PARTITION,
    SOURCE,
    MemoryStore,
    Output,
    batch_of,
    outputs_of,
    rows_of,
)
from tests.engine.model import Record
from tests.engine.streams import encode

Synopses = dict[str, tuple[int, tuple[bytes, ...]]]


def _cut(records: Sequence[Record], random: Random) -> Iterator[Sequence[Record]]:
    cuts = sorted(random.sample(range(1, len(records)), random.randint(0, len(records) - 1) // 3))
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        yield records[start:end]


def _synopses(topology: Topology, store: MemoryStore, watermark: int) -> Synopses:
    """Of the keys that are not forgotten."""
    forget = topology.forget_ms
    states = {key: decode_key_state(state) for key, state in store.scan()}
    return {
        key: (state.number, state.synopses)
        for key, state in states.items()
        if forget is None or closing_tick(state.last_time, forget, topology.every_ms) > watermark
    }


def _kept(processor: PartitionProcessor, topology: Topology, store: MemoryStore) -> Synopses:
    snapshot = processor.snapshot()
    if snapshot is not None:
        store.write(rows_of(snapshot))
        processor.written()
    return _synopses(topology, store, processor.watermark)


def _of_one_engine(case: Case) -> tuple[list[Output], Synopses, list]:
    store, outputs = MemoryStore(), []
    whole = PartitionProcessor(case.topology, SOURCE, PARTITION, store)
    for batch in _cut(case.records, case.random):
        outputs += outputs_of(whole.process(batch_of(batch)))
    synopses = _kept(whole, case.topology, store)
    return outputs, synopses, [*chain(*whole.synopses_left())]


def _judged(case: Case) -> list[Judged]:
    judge = Judge(case.topology)
    found = [judge.take(batch_of(batch)) for batch in _cut(case.records, case.random)]
    return [*found, judge.rest()]


def _letters(judged: Sequence[Judged]) -> list[Output]:
    dead = [("dead letter", it.offset, it[1:]) for part in judged for it in part.dead_letters]
    return dead + [("late", it.offset, it[1:]) for part in judged for it in part.late]


def _shared(
    judged: Sequence[Judged], topology: Topology, share: int, shares: int, random: Random
) -> Iterator[SharedRecords]:
    """The records of a share in order, cut anywhere."""
    events = joined([part.events for part in judged], topology.columns)
    clocks = np.concatenate([part.clocks for part in judged])
    mine = [crc32(key.encode()) % shares == share for key in events.keys.to_pylist()]
    rows = np.flatnonzero(np.array(mine, bool))
    events, clocks = events.take(rows), clocks[rows]
    tick_offsets = np.concatenate([part.tick_offsets for part in judged])
    tick_clocks = np.concatenate([part.tick_clocks for part in judged])
    offsets = np.concatenate((events.offsets, tick_offsets))
    clocks = np.concatenate((clocks, tick_clocks))
    order = np.lexsort((np.arange(len(offsets)), offsets))
    cuts = sorted(random.sample(range(len(order)), random.randint(0, len(order)) // 3))
    for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
        part = order[start:end]
        is_event = part < len(events)
        taken: Events = events.take(part[is_event])
        yield SharedRecords(
            offsets[part],
            clocks[part],
            np.flatnonzero(is_event),
            taken.keys,
            taken.times,
            taken.numbers,
            taken.items,
            taken.conditions,
        )


def _check(case: Case) -> None:
    shares = case.random.randint(1, 4)
    outputs, synopses, rest = _of_one_engine(case)
    judged = _judged(case)
    letters = [output for output in outputs if output[0] in ("dead letter", "late")]
    assert sorted(_letters(judged), key=repr) == sorted(letters, key=repr)
    for kind in ("dead letter", "late"):
        assert [o for o in _letters(judged) if o[0] == kind] == [o for o in letters if o[0] == kind]

    found: list[Output] = []
    kept: Synopses = {}
    found_rest = []
    for share in range(shares):
        store = MemoryStore()
        engine = KeyShare(case.topology, SOURCE, PARTITION, store)
        for records in _shared(judged, case.topology, share, shares, case.random):
            for effects in engine.steps(records):
                assert not effects.dead_letters
                assert not effects.late
                found += outputs_of(effects)
        assert engine.processor.next_offset == case.records[-1].offset + 1
        kept |= _kept(engine.processor, case.topology, store)
        found_rest += chain(*engine.processor.synopses_left())
    others = [output for output in outputs if output[0] not in ("dead letter", "late")]
    assert sorted(found, key=repr) == sorted(others, key=repr)
    assert kept == synopses
    assert sorted(found_rest) == sorted(rest)


@laws
@given(cases())
def test_shares_of_keys_come_to_what_one_engine_does(case: Case) -> None:
    """Emissions with their offsets, letters in their order, and the synopses at the end, whatever
    the topology, the disorder, and how records were batched.
    """
    assume(not case.topology.has_referee)
    _check(case)


@laws
@given(cases(max_size=120))
def test_synopses_at_an_interval_are_the_same_in_shares(case: Case) -> None:
    """Those of each tick of the interval, and the last ones."""
    assume(not case.topology.has_referee and not case.topology.windows_of_events)
    assume(2 * case.topology.every_ms <= case.topology.span_length.length)
    _check(replace(case, topology=with_synopses(case.topology, 2)))


@pytest.mark.parametrize("quotas", [0, 100_000])
def test_what_a_keys_windows_cannot_hold_is_refused_before_keys_are_shared(
    monkeypatch: pytest.MonkeyPatch, quotas: int
) -> None:
    """Also where quotas that are of no use any more are dropped, and in each stretch anew."""
    monkeypatch.setattr("slidestat.engine.quota.QUOTA", 5 << 16)
    monkeypatch.setattr(judging, "_QUOTAS", quotas)
    largest = 1.7e10
    events = [
        (key, 1_600_000_000_000 + 90 * step, largest if step % 4 else 1.0)
        for step in range(60)
        for key in "ab"
    ]
    records = [
        Record(offset, None, encode(key, time, value), time)
        for offset, (key, time, value) in enumerate(events)
    ]
    case = Case(topology(lateness="150ms"), records, Random(5))
    _check(case)
    refused = [letter for part in _judged(case) for letter in part.dead_letters]
    assert 20 < len(refused) < 100
    assert {letter.reason for letter in refused} == {"window-full"}
