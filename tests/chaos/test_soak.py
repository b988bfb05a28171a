"""Latencies and distinct items for an hour of bad days: nothing grows, and no figure is another.

`make chaos` runs the hour. SOAK_MINUTES=... SOAK_RATE=... (events a second) set another length, and
a failure is repeated, as far as time allows, with the seed that was printed: SOAK_SEED=...
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.local.broker import LocalBroker
from tests.broker.workers import Stage, events, produce
from tests.chaos.faults import Group
from tests.chaos.idle_clients import keep_asking
from tests.chaos.network import Network
from tests.chaos.usage import UsageLog, thirds

pytestmark = pytest.mark.long

MINUTES = float(os.environ.get("SOAK_MINUTES", "0"))
RATE = float(os.environ.get("SOAK_RATE", "400"))
SEED = int(os.environ.get("SOAK_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
PARTITIONS = 4
CHUNK = 1_000
CLIENTS = 300
BROKER_AWAY_S = 30.0
DAY_MS = 86_400_000
# From here on all is to be as it is; a shorter run says nothing of it.
SETTLED_S = 600.0
BODY = (
    'span="10m", every="20s", windows=("1m", "10m"), lateness="5s", '
    "statistics=(Count(), Quantiles(relative_error=0.02), Distinct(epsilon=0.2))"
)


def day_of(start: int, chance: random.Random) -> list[tuple[bytes, bytes]]:
    """Events, of which one in a thousand has a clock that is up to a day ahead, or behind."""
    some = events(CHUNK, start=start, keys=100, late_share=0.001, jitter_ms=400)
    place = chance.randrange(CHUNK)
    key, value = some[place]
    event = msgspec.json.decode(value)
    event["time"] += chance.choice((-1, 1)) * chance.randrange(60_000, DAY_MS)
    some[place] = key, msgspec.json.encode(event)
    return some


@pytest.mark.timeout(1200 + 90 * MINUTES)
def test_nothing_grows(
    network: tuple[LocalBroker, Network],
    tmp_path: Path,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two of three workers are killed now and then, or get a disk that fills; all are frozen,
    their connections reset, the broker restarted, killed and away; clocks jump; and clients of the
    third worker never finish their headers. From the tenth minute on that worker uses no more
    memory, files or threads, and outputs, counters and tables are those of an undisturbed run.
    Without SOAK_MINUTES three faults come once.
    """

    def tell(text: str) -> None:
        with capsys.disabled():
            print(f"\n{time.strftime('%X')} {text}", end="")

    chance = random.Random(SEED)
    tell(f"SOAK_SEED={SEED} SOAK_MINUTES={MINUTES:g} SOAK_RATE={RATE:g}")
    broker, lines = network
    bootstrap, source = broker.bootstrap_servers, f"{topic_name}-source"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(source, PARTITIONS, 1)])[source].result()
    stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
    is_over = Event()
    fed = 0

    def feed() -> None:
        nonlocal fed
        # A series of its own: what is fed does not depend on when faults come.
        clocks = random.Random(SEED)
        while not is_over.wait(CHUNK / RATE):
            produce(bootstrap, source, day_of(fed, clocks), **{"message.timeout.ms": 0})
            fed += CHUNK

    with ThreadPoolExecutor(3) as threads, ExitStack() as cleanup:
        cleanup.callback(is_over.set)
        group = Group(stage, 3, chance, cleanup, spared=1)
        for worker in group.workers:
            worker.await_ready()
        lasting = group.workers[0]
        usage = UsageLog(lasting.pid)
        beside = [
            threads.submit(feed),
            threads.submit(usage.watch, is_over),
            threads.submit(keep_asking, lasting.url, CLIENTS, is_over),
        ]
        cleanup.callback(lambda: tell(f"every five minutes: {usage.samples[::60]}"))
        end = time.monotonic() + 60 * MINUTES
        for fault in faults(group, broker, lines, chance, end):
            tell(fault())
            time.sleep(chance.uniform(1.0, 6.0))
            for said in group.start_ended():
                tell(said)
            for one in beside:
                assert not one.done(), one.exception()
            assert group.workers[0] is lasting, "the worker that is spared has ended"
        is_over.set()
        for one in beside:
            one.result()
        tell(f"all is fed: {fed} events")
        stage.await_settled(timeout_s=300)
        for worker in group.workers:
            worker.stop(60)
    expected = stage.check()
    assert expected.counters.dead
    assert expected.late
    assert stage.tables() == expected.tables
    tell(f"{expected.counters}, {len(expected.emissions)} emissions\n")
    if 60 * MINUTES >= 2 * SETTLED_S:
        early, late = thirds(usage.since(SETTLED_S))
        tell(f"early {early}, late {late}\n")
        assert late.memory <= 1.05 * early.memory
        assert late.descriptors <= early.descriptors + 16
        assert late.threads <= early.threads + 2


def faults(
    group: Group, broker: LocalBroker, network: Network, chance: random.Random, end: float
) -> Iterator[Callable[[], str]]:
    """Rounds of all faults, each in another order, until the time has come; without any, those that
    `test_chaos.py` does not have.
    """

    def away() -> str:
        broker.kill()
        time.sleep(BROKER_AWAY_S)
        broker.restart()
        return f"broker away for {BROKER_AWAY_S:.0f} s"

    def restart() -> str:
        broker.restart()
        return "broker restarted"

    def reset() -> str:
        network.reset()
        return "connections reset"

    if not MINUTES:
        yield from (group.fill_disk, group.kill, reset)
        return
    while time.monotonic() < end:
        one = [group.kill, group.kill, group.freeze, group.fill_disk, reset, reset, restart, away]
        chance.shuffle(one)
        yield from one
