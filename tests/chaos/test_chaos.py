"""Whatever happens to workers, broker and network: the results are those of an undisturbed run.

`make chaos` runs the long form. A failure is repeated, as far as time allows, with the seed that
was printed: CHAOS_SEED=... CHAOS_EVENTS=... CHAOS_ROUNDS=...
"""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from slidestat.local.broker import LocalBroker
from tests.broker.workers import Stage, events, produce, wait_until
from tests.chaos.faults import Group, series
from tests.chaos.network import Network
from tests.chaos.stored import check_databases

pytestmark = pytest.mark.long

EVENTS = int(os.environ.get("CHAOS_EVENTS", "120000"))
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))
SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
PARTITIONS = 6
CHUNK = 4_000
FEED_S = 120.0
BODY = (
    'span="10m", every="20s", windows=("1m", "10m"), lateness="5s", '
    "statistics=(Count(epsilon=0.1), Sum(epsilon=0.1, decimals=1), Quantiles(epsilon=0.1), "
    "Distinct(epsilon=0.2), TopItems(epsilon=0.1))"
)


@pytest.mark.timeout(3600)
def test_chaos_does_not_show(
    network: tuple[LocalBroker, Network],
    tmp_path: Path,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """While events flow, three workers are killed, lose their folders, and freeze for longer than
    their session; the broker ends and crashes, and connections are reset. Then emissions, letters,
    counters and tables equal those of one undisturbed run, and what the workers have on disk is
    what the changelog has.
    """

    def tell(text: str) -> None:
        with capsys.disabled():
            print(f"\n{time.strftime('%X')} {text}", end="")

    chance = random.Random(SEED)
    tell(f"CHAOS_SEED={SEED} CHAOS_EVENTS={EVENTS} CHAOS_ROUNDS={ROUNDS}")
    broker, lines = network
    bootstrap = broker.bootstrap_servers
    source = f"{topic_name}-source"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(source, PARTITIONS, 1)])[source].result()
    stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
    is_over = Event()
    # About as long as the faults of a round take on a quiet machine.
    pause_s = 45 * ROUNDS * CHUNK / EVENTS
    fed = 0

    def feed() -> None:
        nonlocal fed
        while fed < EVENTS or not is_over.is_set():
            some = events(CHUNK, start=fed, keys=200, late_share=0.001, jitter_ms=400)
            some[CHUNK // 2] = (b"k0", b"no event")
            produce(bootstrap, source, some)
            fed += CHUNK
            is_over.wait(pause_s)

    with ThreadPoolExecutor(1) as feeder, ExitStack() as cleanup:
        group = Group(stage, 3, chance, cleanup)
        for worker in group.workers:
            worker.await_ready()
        # Before the feeder is waited for, whatever happens.
        cleanup.callback(is_over.set)
        feeding = feeder.submit(feed)

        def more_is_fed(than: int) -> bool:
            assert not feeding.done(), feeding.exception()
            return fed > than

        for fault in series(group, broker, lines, ROUNDS, chance):
            fed_before = fed
            tell(fault())
            time.sleep(chance.uniform(1.0, 6.0))
            for said in group.start_ended():
                tell(said)
            wait_until(partial(more_is_fed, fed_before), "events flow at a fault", FEED_S)
        is_over.set()
        feeding.result()
        tell(f"all is fed: {fed} events")
        stage.await_settled(timeout_s=300)
        for said in group.start_ended():
            tell(said)
        for worker in group.workers:
            worker.await_ready()
        stage.await_settled(group.workers, timeout_s=300)
        for worker in group.workers:
            worker.stop(60)
    expected = stage.check()
    assert expected.counters.dead == fed // CHUNK
    assert expected.late
    assert stage.tables() == expected.tables
    databases = check_databases(stage, group.workers)
    tell(f"{expected.counters}, {len(expected.emissions)} emissions, {databases} databases\n")
