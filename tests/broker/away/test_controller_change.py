"""Controllers of the cluster die one after the other: workers go on as if nothing had been."""

from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.conftest import BODY
from tests.broker.quorum import broker_of_a_quorum
from tests.broker.workers import DRAIN_S, Stage, events, produce

pytestmark = pytest.mark.long

CHUNK = 2_000


@pytest.mark.timeout(900)
def test_workers_go_on_through_each_change_of_the_controller(
    tmp_path: Path, topic_name: str
) -> None:
    """Each of three controllers is killed under load and comes back, so the active one is among
    them, and another is elected. Two workers commit on while it is away and after, and all comes
    out as if nothing had been.
    """
    with broker_of_a_quorum(tmp_path / "cluster") as (broker, controllers):
        bootstrap, source = broker.bootstrap_servers, f"{topic_name}-source"
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(source, 4, 1)])[source].result()
        stage = Stage(bootstrap, tmp_path, topic_name, source, BODY)
        is_over = Event()

        def feed() -> None:
            start = 0
            while not is_over.wait(0.2):
                produce(bootstrap, source, events(CHUNK, start=start))
                start += CHUNK

        feeding = Thread(target=feed, daemon=True)
        with stage.worker("a").await_ready() as one, stage.worker("b").await_ready() as two:
            feeding.start()
            stage.await_commit_after(CHUNK)
            for controller in controllers:
                controller.kill()
                stage.await_commit_after(sum(stage.committed().values()) + 2 * CHUNK)
                controller.start()
                stage.await_commit_after(sum(stage.committed().values()) + 2 * CHUNK)
            assert feeding.is_alive()
            is_over.set()
            feeding.join(DRAIN_S)
            stage.await_settled((one, two))
            for worker in (one, two):
                worker.stop()
        stage.check()
    elections = [it.log.read_text().count("Becoming the active controller") for it in controllers]
    assert sum(elections) > 1, "the active controller was not killed"
