"""Alerts that are added judge all keys once, at the first tick: a condition may have come to hold
before, at which nobody looked.
"""

from dataclasses import replace
from random import Random

import msgspec
import numpy as np
from hypothesis import given, settings, strategies as st

from slidestat import Alert, Count, Topology, TopologyDriver
from slidestat.engine.partition import PartitionProcessor
from slidestat.engine.records import RecordBatch
from slidestat.testing.records import MemoryStore
from tests.engine.cases import laws

START, TICK = 1_764_072_000_000, 1_000
SPAN, WINDOW = 10, 2
BEFORE = Topology(
    name="law",
    source="events",
    span=f"{SPAN}s",
    every="1s",
    windows=("1s", f"{WINDOW}s", f"{SPAN}s"),
    statistics=(Count(),),
    alerts=(Alert(name="many", when="count > 1000", window="10s"),),
)
SILENT = Alert(name="silent", when="count = 0", window=f"{WINDOW}s")
KEYS = ("busy", "a", "b", "c", "new")


@settings(laws, max_examples=12)
@given(st.integers(0, 2**32), st.booleans())
def test_an_added_alert_fires_for_each_key_of_which_it_holds(seed: int, begins: bool) -> None:
    """By the exact events, whenever workers are restarted before the tick, and after it; of keys
    that come meanwhile as of those that were silent.
    """
    random = Random(seed)
    before = BEFORE if begins else replace(BEFORE, alerts=())
    driver, now = TopologyDriver(before), 0
    events: dict[str, list[int]] = {key: [] for key in KEYS}

    def send(key: str, at: int) -> None:
        driver.send({"key": key, "time": START + at, "value": 1})
        events[key].append(START + at)

    for _ in range(random.randint(1, 40)):
        now += random.choice([0, 90, 400, 900, 2_100])
        send(random.choice(KEYS[:-1]), now)
    for _ in range(3):
        send("busy", now)  # One record that is ahead of all others may yet be refused.
    tick = START + (now // TICK + 1) * TICK
    driver.change_statistics(replace(before, alerts=(*before.alerts, SILENT)))
    while START + (now := now + random.choice([0, 90, 400])) < tick:
        send(random.choice(KEYS), now)
        if random.random() < 0.3:
            driver.commit()
        if random.random() < 0.3:
            driver.restart()
    send("busy", now)
    if random.random() < 0.5:
        driver.commit()
        driver.restart()
        send("busy", now + 1)
    expected = {
        key
        for key, times in events.items()
        if any(tick - SPAN * TICK <= time < tick for time in times)
        and not any(tick - WINDOW * TICK <= time < tick for time in times)
    }
    told = {(it.key, it.state) for it in driver.alerts if it.window_end_ms == tick}
    assert told == {(key, "firing") for key in expected}


def test_alerts_that_were_there_are_not_judged_once_more() -> None:
    """A worker that starts again with the same alerts writes what one that goes on writes."""
    courses = []
    for restarts in (False, True):
        driver = TopologyDriver(replace(BEFORE, alerts=(*BEFORE.alerts, SILENT)))
        for at in (0, 100, 2_600, 4_900, 5_300, 8_700):
            driver.send({"key": "busy" if at else "quiet", "time": START + at, "value": 1})
            if restarts:
                driver.commit()
                driver.restart()
        driver.close_windows()
        courses.append([*map(repr, driver.alerts)])
    assert courses[0] == courses[1]


def test_a_crash_while_records_are_read_again_keeps_the_tick() -> None:
    """States are durable key by key: those of the others are judged again at the same tick."""
    declared = replace(BEFORE, lateness="1500ms", alerts=())
    store, records = MemoryStore(), [("a", 0), ("b", 0), *(("busy", 500 * i) for i in range(14))]
    first = len(records)
    records += [("late", 5_600), ("busy", 7_200), *(("busy", 500 * i) for i in range(15, 24))]

    def started(topology: Topology, until: int) -> PartitionProcessor:
        processor = PartitionProcessor(topology, "events", 0, store)
        keys = [key.encode() for key, _ in records[processor.next_offset : until]]
        values = [
            msgspec.json.encode({"key": key, "time": START + at, "value": 1})
            for key, at in records[processor.next_offset : until]
        ]
        offsets = np.arange(processor.next_offset, until)
        times = [START + at for _, at in records[processor.next_offset : until]]
        processor.process(RecordBatch("events", 0, offsets, keys, values, times, 0))
        return processor

    def keep(processor: PartitionProcessor, *slots: list[int]) -> None:
        taken = processor.snapshot(*slots)
        assert taken is not None
        store.write([*taken.states.items(), (None, taken.checkpoint)], taken.told)
        processor.written()

    keep(started(declared, first))
    added = replace(declared, alerts=(SILENT,))
    processor = started(added, len(records))
    busy = processor._keys.numbers.of(["busy"])
    keep(processor, processor._keys.numbers.slots[busy].tolist())
    keep(started(added, first + 2))
    assert started(added, len(records)).firing == {"silent": 3}
