"""Events that wait: given back in order, none twice, none lost, whatever is asked between."""

from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from slidestat.declare.columns import Column, Columns, Limits
from slidestat.engine import waiting as waiting_module
from slidestat.engine.checkpoints.checkpoint import Checkpoint
from slidestat.engine.checkpoints.ledger import COUNTED, Ledger
from slidestat.engine.events import Events, texts
from slidestat.engine.waiting import EventStore

COLUMNS = Columns((Column(("value",), Limits()),), (Column(("page",), None),))


class Event(NamedTuple):
    time: int
    offset: int
    key: str
    value: float
    page: str


def as_events(rows: list[Event]) -> Events:
    times, offsets, keys, values, pages = (list(c) for c in zip(*rows, strict=True))
    return Events(
        np.array(offsets, np.int64),
        np.array(times, np.int64),
        texts(keys),
        (np.array(values),),
        (texts(pages),),
    )


def rows_of(events: Events) -> list[Event]:
    columns = (
        events.times.tolist(),
        events.offsets.tolist(),
        events.keys.to_pylist(),
        events.numbers[0].tolist(),
        events.items[0].to_pylist(),
    )
    return [Event(*row) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize(
    ("run_events", "memory_bytes"), [(1, 10**6), (1, 0), (7, 10**6), (7, 500), (7, 0), (10**6, 0)]
)
def test_what_is_taken_is_what_lies_before_in_order(
    seed: int, run_events: int, memory_bytes: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Against a plain list: with times in order or in none, texts of any sort, questions between,
    keys taken on their own, records dropped; in memory and in files.
    """
    monkeypatch.setattr(waiting_module, "_RUN_EVENTS", run_events)
    monkeypatch.setattr(waiting_module, "_MEMORY_BYTES", memory_bytes)
    random = Random(seed)
    store, waiting, until, offset = EventStore(COLUMNS, tmp_path / "file"), list[Event](), 0, 0
    keys = ["", "a", "ключ", "\0", "a/b"]
    disorder = random.choice([0, 5, 300])
    for _ in range(60):
        some = []
        for _ in range(random.randrange(9)):
            offset += random.choice([1, 1, 5])
            # What comes is on time: at the watermark or after it.
            time = until + random.randint(0, disorder) + (0 if disorder else offset // 9)
            some.append(Event(time, offset, random.choice(keys), offset / 7, f"p{offset % 3}"))
        if some:
            store.add(as_events(some))
        waiting = sorted([*waiting, *some])
        assert len(store) == len(waiting)
        assert store.first_offset() == min((e.offset for e in waiting), default=None)
        start, end = sorted((random.randint(0, 400), random.randint(0, 400)))
        assert store.has_between(start, end) == any(start <= e.time < end for e in waiting)
        key = random.choice(keys)
        due = [event for event in waiting if event.time <= until]
        assert store.keys(until) == {event.key for event in due}
        assert rows_of(store.of_keys([key], until)) == [e for e in due if e.key == key]
        if random.random() < 0.2:
            assert rows_of(store.copy().take(until)) == due
        if random.random() < 0.3:
            assert rows_of(store.take_keys(until, key.__eq__)) == [e for e in due if e.key == key]
            waiting = [event for event in waiting if event.time > until or event.key != key]
        if waiting and random.random() < 0.2:
            dropped = random.sample([event.offset for event in waiting], 1)
            store.discard(dropped)
            waiting = [event for event in waiting if event.offset not in dropped]
        if random.random() < 0.5:
            until += random.randint(0, 40)
            taken = rows_of(store.take(until))
            assert taken == [event for event in waiting if event.time <= until]
            waiting = waiting[len(taken) :]
    assert not list(tmp_path.iterdir())


def test_a_waiting_event_takes_64_bytes_at_most() -> None:
    """Beside its texts, of which each run has each different one once; with what became of it, for
    the checkpoint. Also while they are taken bit by bit.
    """
    random, store, ledger = np.random.default_rng(5), EventStore(COLUMNS), Ledger(Checkpoint(0))
    events, batch = 1_000_000, 10_000
    for first in range(0, events, batch):
        times = random.integers(0, 3_600_000, batch)
        keys, pages = random.integers(0, 500, batch), random.integers(0, 50, batch)
        offsets = np.arange(first, first + batch)
        names = texts([f"key-{key}" for key in keys])
        items = texts([f"page-{page}" for page in pages])
        store.add(Events(offsets, times, names, (random.random(batch),), (items,)))
        ledger.append(offsets, times, np.full(batch, COUNTED, np.uint8))
    for until in range(0, 3_600_000, 60_000):
        held = len(store)
        size = sum(
            entry.offsets.nbytes + entry.max_times.nbytes + entry.outcomes.nbytes
            for entry in ledger._entries
        )
        size = size * held // events + _held_bytes(store)
        assert size <= 64 * held + 4 * 2**20
        store.take(until)


def test_what_is_in_files_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken of it can be written, as kernels want it; all columns are as they were."""
    monkeypatch.setattr(waiting_module, "_RUN_EVENTS", 1_000)
    monkeypatch.setattr(waiting_module, "_MEMORY_BYTES", 100_000)
    store, rows = EventStore(COLUMNS, tmp_path / "file"), []
    for first in range(0, 20_000, 500):
        offsets = np.arange(first, first + 500)
        names, values = texts([f"k{offset % 7}" for offset in offsets]), offsets / 3
        events = Events(offsets, offsets + 5, names, (values,), (names,), (offsets % 2 == 0,))
        store.add(events)
        rows += rows_of(events)
    assert sum(part.memory_bytes for part in store._parts()) <= 100_000 + 1_500 * 100
    assert sum(part.is_filed for part in store._parts()) >= 15
    for until in (4_000, 4_700, 15_000, 40_000):
        taken = store.take(until)
        assert rows_of(taken) == [row for row in rows if row.time <= until]
        assert (taken.conditions[0] == (taken.offsets % 2 == 0)).all()
        for array in (taken.offsets, taken.times, *taken.numbers, *taken.conditions):
            assert array.flags.writeable
        rows = rows[len(taken) :]


def _held_bytes(store: EventStore) -> int:
    """Of the arrays that the parts are views of."""
    per_event = 8 + 8 + 8 + 4 + 4
    runs = sum(part.whole * per_event for part in store._runs)
    newest = sum(part.events.nbytes * part.whole // len(part.events) for part in store._newest)
    return runs + newest
