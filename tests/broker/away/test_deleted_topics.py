"""Topics that somebody deletes or changes under a worker: it says what has happened, not what came
of it, and what it advises leads on.
"""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from slidestat.errors import SlidestatError
from slidestat.kafka.producer import BulkProducer
from slidestat.local.broker import LocalBroker
from slidestat.local.settings import pick_free_ports
from tests.broker.away.test_worker_errors import complaint
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import Stage, Worker, events, produce, wait_until


def delete_topic(admin: AdminClient, name: str) -> None:
    admin.delete_topics([name])[name].result()


def feeding(stage: Stage, worker: Worker) -> Callable[[], bool]:
    """Whether a worker has ended, while it is given more and more."""
    start = 10_000

    def has_ended() -> bool:
        nonlocal start
        produce(stage.bootstrap, stage.topology.source, events(3_000, start=start))
        start += 3_000
        return not worker.is_running()

    return has_ended


def test_who_waits_for_a_deleted_topic_is_told_at_once(
    make_topic: Callable[..., str], admin: AdminClient, bootstrap_servers: str
) -> None:
    """A client keeps what it has for it for half a minute, and a worker would end only then."""
    topic = make_topic("gone")
    producer = BulkProducer(bootstrap_servers)
    producer.produce(topic, 0, b"k", b"v")

    async def queue_for_what_is_gone() -> None:
        await producer.flush()
        delete_topic(admin, topic)
        producer.produce(topic, 0, b"k", b"v")
        flush = asyncio.ensure_future(producer.flush())
        await asyncio.sleep(0)
        producer.fail(SlidestatError("it is gone", "go on"))
        async with asyncio.timeout(10):
            await flush

    with pytest.raises(SlidestatError, match="it is gone"):
        asyncio.run(queue_for_what_is_gone())


@pytest.mark.long
def test_no_worker_makes_a_deleted_topic_anew(tmp_path: Path) -> None:
    """Brokers would, by default, for whoever asks for it: with one partition, and retention."""
    with LocalBroker(secured_settings={"auto.create.topics.enable": "true"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("source", 2, 1)])["source"].result(30)
        stage = Stage(broker.bootstrap_servers, tmp_path, "t", "source", BODY)
        produce(stage.bootstrap, "source", events(10_000))
        with stage.worker().await_ready() as worker:
            stage.await_settled([worker])
            delete_topic(admin, stage.topology.output_topic)
            wait_until(feeding(stage, worker), "the worker ends", 60)
        assert stage.topology.output_topic not in admin.list_topics(timeout=30).topics
        with stage.worker().await_ready() as worker:
            stage.await_settled([worker])
            delete_topic(admin, "source")
            wait_until(lambda: not worker.is_running(), "the worker ends", 60)
        assert "source" not in admin.list_topics(timeout=30).topics


@pytest.mark.long
def test_an_output_topic_that_is_deleted(make_stage: MakeStage, admin: AdminClient) -> None:
    """The worker says that it is gone and how to have its records again; started again, it says
    that it makes the topic anew, once, and goes on.
    """
    stage = make_stage(partitions=1)
    output = stage.topology.output_topic
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        before = stage.emissions()
        delete_topic(admin, output)
        wait_until(feeding(stage, worker), "the worker ends", 60)
        said = complaint(worker)
    assert f"The topic {output!r} was deleted while this worker wrote to it" in said
    assert f"slidestat replay {stage.name}" in said
    assert "MiB" not in said
    told = stage.drain().said()
    assert f"the topic {output!r} was deleted, and is made anew: what it had is gone" in told
    assert not before.keys() & stage.emissions().keys()
    assert "made anew" not in stage.drain().said()


@pytest.mark.long
def test_a_changelog_that_is_deleted(make_stage: MakeStage, admin: AdminClient) -> None:
    """The worker says that the states are in its folder alone; without the folder, as it advises,
    all is counted anew, each record once.
    """
    stage = make_stage(partitions=1)
    produce(stage.bootstrap, stage.topology.source, events(10_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        delete_topic(admin, stage.changelog)
        wait_until(feeding(stage, worker), "the worker ends", 60)
        said = complaint(worker)
    assert f"The changelog {stage.changelog!r} was deleted while this worker wrote to it" in said
    assert f"delete their folders ({stage.data_dir()} is this one's)" in said
    # One that starts all the same is told the same.
    with stage.worker() as worker:
        said = complaint(worker)
    assert f"delete their folders ({stage.data_dir()} is this one's)" in said
    shutil.rmtree(stage.data_dir())
    stage.drain()
    stage.check()


def test_a_source_that_is_given_a_partition(make_stage: MakeStage, admin: AdminClient) -> None:
    """The worker says so, and that keys have moved; so does one that is started then."""
    stage = make_stage(partitions=1)
    source = stage.topology.source
    produce(stage.bootstrap, source, events(10_000))
    with stage.worker().await_ready() as worker:
        stage.await_settled([worker])
        admin.create_partitions([NewPartitions(source, 2)])[source].result()
        wait_until(feeding(stage, worker), "the worker ends", 60)
        said = complaint(worker)
    assert f"The source {source!r} had 1 partition when this worker began, and has 2" in said
    assert "another name" in said
    assert "MiB" not in said


@pytest.mark.parametrize("registry", [(), ("--schema-registry", "http://127.0.0.1:{port}")])
def test_avro_without_a_registry(make_stage: MakeStage, registry: tuple[str, ...]) -> None:
    """It is what is said first, whether none is named or none answers."""
    stage = make_stage(partitions=1, body=BODY + 'output_format="avro",')
    (port,) = pick_free_ports(1)
    options = [option.format(port=port) for option in registry]
    with stage.worker("a", None, *options) as worker:
        said = complaint(worker)
        assert worker.said().startswith("error: ")
    assert "schema registry" in said
    assert "--schema-registry" in said
