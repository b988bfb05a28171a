"""Events in Protobuf from a real topic, as Confluent's serializer writes them."""

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from slidestat.engine.decoding.formats.proto_files import registered_files
from slidestat.engine.decoding.formats.source_schemas import framed
from slidestat.schemas.emission import Emission
from tests.broker.conftest import BODY, MakeStage
from tests.broker.workers import DRAIN_S, events, produce, wait_until
from tests.registry.stand_in import stand_in

EVENTS = 3_000
SCHEMA = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Other { string x = 1; }
message Event {
  message Inner { string key = 1; google.protobuf.Timestamp time = 2; optional double value = 3; }
}
"""


def test_events_wait_for_a_registry_that_fails(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nested message with Google's Timestamp, by the descriptor that the serializer registers.
    While the registry fails, nothing is committed and no letter written; then the emissions are
    those of the same events in JSON. A schema that there is not, and bytes that are none, make
    letters.
    """
    plain = make_stage(body=BODY)
    sent = events(EVENTS)
    produce(plain.bootstrap, plain.topology.source, sent)
    plain.drain()

    stage = make_stage(body=BODY + 'source_format="protobuf",', name="protobuf")
    source = stage.topology.source
    pool = DescriptorPool()
    for file in registered_files(SCHEMA, ()).file:
        pool.AddSerializedFile(file.SerializeToString())
    kind = GetMessageClass(pool.FindMessageTypeByName("Event.Inner"))
    with stand_in() as registry:
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
        conf = {
            "use.deprecated.format": False,
            "subject.name.strategy.type": "TOPIC",
            "skip.known.types": True,
        }
        client = SchemaRegistryClient({"url": registry.url})
        serialize = ProtobufSerializer(kind, client, conf=conf)
        context = SerializationContext(source, MessageField.VALUE)
        values = []
        for key, value in sent:
            event = msgspec.json.decode(value)
            message = kind(key=event["key"], value=event["value"])
            message.time.FromMilliseconds(event["time"])
            values.append((key, serialize(message, context)))
        bad = [(b"k0", framed(99, b"\0")), (b"k0", values[0][1][:-1])]
        produce(stage.bootstrap, source, [*values, *bad])
        registry.fail = 500
        with stage.worker("a").await_ready() as worker:
            wait_until(lambda: "wait for schema 1" in worker.said(), "it is told", DRAIN_S)
            assert sum(stage.committed().values()) == 0
            registry.fail = None
            goal = sum(plain.committed().values()) + len(bad)
            wait_until(lambda: sum(stage.committed().values()) == goal, "all is committed", DRAIN_S)
            worker.stop()

    def figures(emissions: dict[bytes, bytes]) -> list[Emission]:
        read = (msgspec.json.decode(value, type=Emission) for value in emissions.values())
        named = (
            msgspec.structs.replace(e, topology="", source_topic="", source_offset=0) for e in read
        )
        return sorted(named, key=lambda emission: (emission.window_end_ms, emission.key))

    assert figures(stage.emissions()) == figures(plain.emissions())
    letters = [record for records in stage.dead_letters().values() for record in records]
    assert {letter.value: letter.headers["reason"] for letter in letters} == {
        bad[0][1]: b"bad-schema",
        bad[1][1]: b"not-protobuf",
    }
