"""Events in Avro from real topics, with schemas from a registry that is away for a while."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from slidestat.declare.forms.files import load_topology
from slidestat.engine.decoding.formats.source_schemas import framed
from slidestat.schemas.emission import Emission
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import DRAIN_S, events, produce, wait_until
from tests.registry.stand_in import stand_in

EVENTS = 6_000
read = msgspec.json.decode
FIELDS = [
    {"name": "key", "type": "string"},
    {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "value", "type": ["null", "double"]},
]
OLDER = {"type": "record", "name": "Event", "fields": FIELDS}
NEWER = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "region", "type": "string", "default": ""}, *FIELDS],
}


def test_events_wait_for_a_registry_that_is_away(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two versions of a schema, as Confluent's serializer writes them: ids are before the values,
    and of the later half of the events in a header. While the registry is away,
    and while it fails, the worker commits nothing, writes no letter, says so, and can be stopped;
    then its emissions are those of the same events in JSON. A schema that the registry does not
    have makes letters. `init` reads the topic, too.
    """
    plain = make_stage(body=BODY)
    sent = events(EVENTS)
    produce(plain.bootstrap, plain.topology.source, sent)
    plain.drain()

    stage = make_stage(body=BODY + 'source_format="avro",', name="avro")
    source = stage.topology.source
    with stand_in() as registry:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
        client = SchemaRegistryClient({"url": registry.url})
        headers: list[tuple[str, bytes]] = []
        context = SerializationContext(source, MessageField.VALUE, headers)
        strategy = {"subject.name.strategy.type": "TOPIC"}
        by_header = strategy | {"schema.id.serializer": header_schema_id_serializer}
        serializers = [
            AvroSerializer(client, json.dumps(schema), conf=conf)
            for schema, conf in ((OLDER, strategy), (NEWER, strategy), (NEWER, by_header))
        ]
        values = [
            (key, serializers[place % 2 if place < EVENTS // 2 else 2](read(value), context))
            for place, (key, value) in enumerate(sent)
        ]
        guid = registry.guid(2)
        schemas, port = registry.schemas, registry.server_address[1]
    assert set(headers) == {("__value_schema_id", framed(guid, b""))}
    assert isinstance(port, int)
    unknown = [(b"k0", framed(99, b"abc"))] * 3
    produce(stage.bootstrap, source, values[: EVENTS // 2])
    produce(stage.bootstrap, source, values[EVENTS // 2 :], headers=headers[:1])
    produce(stage.bootstrap, source, unknown)

    with stage.worker("a").await_ready() as worker:
        wait_until(lambda: "wait for schema 1" in worker.said(), "it is told", DRAIN_S)
        assert "no schema registry answers at http://127.0.0.1" in worker.said()
        worker.stop()
    assert sum(stage.committed().values()) == 0
    with stand_in(port) as registry:
        registry.schemas, registry.fail = schemas, 500
        with stage.worker("a").await_ready() as worker:
            wait_until(lambda: "in the backend" in worker.said(), "it is told", DRAIN_S)
            assert sum(stage.committed().values()) == 0
            registry.fail = None
            goal = plain.committed()
            wait_until(
                lambda: sum(stage.committed().values()) == sum(goal.values()) + len(unknown),
                "all is committed",
                DRAIN_S,
            )
            assert "the schema registry answers again" in worker.said()
            worker.stop()
        assert _proposed(source, stage.bootstrap, registry.url, tmp_path) == "avro"
        asked = [path for path in registry.asked if path.startswith("GET")]
        by_number = {f"GET schemas/ids/{number}" for number in (1, 2, 99)}
        assert set(asked) == by_number | {f"GET schemas/guids/{guid}"}

    def figures(emissions: dict[bytes, bytes]) -> list[Emission]:
        read = (msgspec.json.decode(value, type=Emission) for value in emissions.values())
        named = (msgspec.structs.replace(e, topology="", source_topic="") for e in read)
        return sorted(named, key=lambda emission: (emission.window_end_ms, emission.key))

    assert figures(stage.emissions()) == figures(plain.emissions())
    letters = [record for records in stage.dead_letters().values() for record in records]
    assert [letter.headers["reason"] for letter in letters] == [b"bad-schema"] * 3
    assert all(letter.value == framed(99, b"abc") for letter in letters)


def _proposed(topic: str, bootstrap: str, registry: str, folder: Path) -> str:
    """The format of a topic's values that `init` finds."""
    command = [sys.executable, "-m", "slidestat", "init", topic, "--schema-registry", registry]
    options = ["--file", str(folder / "found.toml"), "--bootstrap", bootstrap, "--yes"]
    subprocess.run([*command, *options], check=True, timeout=60, capture_output=True)
    return load_topology(str(folder / "found.toml")).source_format


def test_a_worker_says_which_registry_it_takes(make_stage: MakeStage) -> None:
    """Before it joins its group."""
    stage = make_stage(body=BODY + 'source_format="avro",', name="avro")
    with stage.worker() as worker:
        assert worker.await_end() == 2
        assert "Avro or Protobuf need a schema registry, and none is given" in worker.said()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with stage.worker("a", None, "--schema-registry", url).await_ready() as worker:
        worker.stop()
