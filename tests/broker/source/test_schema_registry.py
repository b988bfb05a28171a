"""What a schema registry says, and what is made of it."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from slidestat.declare.topology import Topology
from slidestat.engine.decoding.formats.source_schemas import (
    NamedText,
    SchemaText,
    UnusableSchemaError,
    framed,
)
from slidestat.engine.decoding.formats.translations import parsed_schema
from slidestat.engine.records import RecordBatch
from slidestat.errors import SlidestatError
from slidestat.faust.source.schema_wait import SchemaWait
from slidestat.faust.worker.app import batch_app
from slidestat.faust.worker.settings import WorkerSettings
from slidestat.kafka.schema_registry import SchemaRegistry
from tests.registry.stand_in import StandIn, stand_in

CITY = {"type": "enum", "name": "City", "symbols": ["OSLO", "BERN"]}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "City"}]}
EVENT = {"type": "record", "name": "E", "fields": [{"name": "at", "type": "Place"}]}


def put(server: StandIn, schema: Any, **more: object) -> int:
    """The number of a schema that the registry has from now on."""
    server.schemas.append({"schema": json.dumps(schema), **more})
    return len(server.schemas)


def reference(subject: str) -> dict[str, object]:
    return {"name": subject, "subject": subject, "version": 1}


def batch(*numbers: int) -> RecordBatch:
    values = [framed(number, b"") for number in numbers]
    offsets = np.arange(len(values), dtype=np.int64)
    keys, times = [None] * len(values), [0] * len(values)
    return RecordBatch("events", 0, offsets, keys, values, times, 0)


def test_references_are_had_each_before_what_takes_it() -> None:
    """Also by way of others; each schema is asked for once."""
    with stand_in() as server:
        registry = SchemaRegistry(server.url)
        server.versions = {"city": [put(server, CITY)]}
        place = put(server, PLACE, references=[reference("city")])
        server.versions["place"] = [place]
        event = put(server, EVENT, references=[reference("place"), reference("city")])
        assert registry.look_up(event) is None
        assert registry.schemas.of(event) == SchemaText(
            json.dumps(EVENT),
            (NamedText("city", json.dumps(CITY)), NamedText("place", json.dumps(PLACE))),
        )
        assert len(server.asked) == 3
        lame = put(server, EVENT, references=[reference("nowhere")])
        assert registry.look_up(lame) is None
        with pytest.raises(UnusableSchemaError, match="Version not found"):
            registry.schemas.of(lame)


def test_protobuf_imports_what_is_registered_and_what_is_confluents() -> None:
    """By the names of the references; Confluent's own files are in no registry."""
    city = 'syntax = "proto3"; enum City { OSLO = 0; BERN = 1; }'
    event = """syntax = "proto3"; import "geo/city.proto"; import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        message E { City at = 1; confluent.type.Decimal price = 2; }"""
    with stand_in() as server:
        registry = SchemaRegistry(server.url)
        of_type = {"schemaType": "PROTOBUF"}
        server.schemas.append({"schema": city, **of_type})
        server.versions = {"city": [1]}
        named = [{"name": "geo/city.proto", "subject": "city", "version": 1}]
        server.schemas.append({"schema": event, "references": named, **of_type})
        assert registry.look_up(2) is None
    schema = parsed_schema(registry.schemas.of(2), "protobuf")
    assert schema.json(b"\0\x08\1\x12\5\x0a\1\x7b\x18\1") == b'{"at":"BERN","price":12.3}'


@pytest.mark.parametrize("status", [404, 401, 500, 503])
def test_an_error_of_the_registry_is_none_of_the_schema(status: int) -> None:
    """Also a 404 that does not say that there is no such schema: what answers may be no registry,
    or one that is starting.
    """
    with stand_in() as server:
        registry = SchemaRegistry(server.url.replace("//", "//user:secret@"))
        number = put(server, CITY)
        server.fail = status
        said = registry.look_up(number)
        assert said is not None
        assert "in the backend" in said
        assert "secret" not in said
        assert registry.schemas.unknown([framed(number, b"")]) == {number}
        server.fail = None
        assert registry.look_up(number) is None
    said = registry.look_up(99)
    assert said is not None
    assert said.startswith("no schema registry answers at http://127.0.0.1")


def test_schemas_that_are_not_there_or_of_another_type_are_known_as_such() -> None:
    """What of another type there is, is no schema to read this format by."""
    with stand_in() as server:
        registry = SchemaRegistry(server.url)
        message = put(server, "", schemaType="JSON")
        for number, said in ((message, "it is of the type JSON, not AVRO"), (7, "not found")):
            assert registry.look_up(number) is None
            with pytest.raises(UnusableSchemaError, match=said):
                parsed_schema(registry.schemas.of(number), "avro")


def test_a_batch_waits_until_all_of_its_schemas_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it is given up. What there was not is asked for again after a minute."""

    async def waiting(server: StandIn) -> None:
        registry = SchemaRegistry(server.url)
        wait = SchemaWait(registry)
        number = put(server, CITY)
        server.fail = 503
        assert not await wait.before(batch(number), lambda: True)
        task = asyncio.create_task(wait.before(batch(number, 50), lambda: False))
        await asyncio.sleep(0.2)
        assert not task.done()
        server.fail = None
        assert await task
        assert not registry.schemas.unknown(batch(number, 50).values)
        asked = len(server.asked)
        assert await wait.before(batch(number, 50), lambda: True)
        assert len(server.asked) == asked
        registry.schemas.lack(101, "no")
        assert not registry.schemas.unknown(batch(101).values)
        monkeypatch.setattr(wait, "_forget_due", 0.0)  # A minute has passed.
        assert await wait.before(batch(number), lambda: False)
        assert registry.schemas.unknown(batch(101, number).values) == {101}

    with stand_in() as server:
        asyncio.run(waiting(server))


def test_an_invalid_decimal_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its schema comes, not at each record."""
    logged: list[str] = []
    monkeypatch.setattr(
        "slidestat.faust.source.schema_wait.log_event",
        lambda _event, text, **_fields: logged.append(text),
    )
    invalid = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}
    schema = {"type": "record", "name": "E", "fields": [{"name": "total", "type": invalid}]}

    async def waiting(server: StandIn) -> None:
        registry = SchemaRegistry(server.url)
        wait = SchemaWait(registry)
        number = put(server, schema)
        for _ in range(3):
            assert await wait.before(batch(number), lambda: False)

    with stand_in() as server:
        asyncio.run(waiting(server))
    assert len(logged) == 1
    assert logged[0].startswith("schema 1 of ")
    assert "the decimal of total is ignored" in logged[0]


@pytest.mark.parametrize(
    ("first", "second", "asked_as"),
    [
        ("", "", (None, None)),
        ("ada:pw-ada@", "", ("ada:pw-ada", "ada:pw-ada")),
        ("ada:pw-ada@", "ada:pw-ada@", ("ada:pw-ada", "ada:pw-ada")),
        ("", "bea:p%2Cw%40bea@", ("bea:p,w@bea", "bea:p,w@bea")),
        ("ada:pw-ada@", "bea:pw%2Fbea@", ("ada:pw-ada", "bea:pw/bea")),
    ],
)
def test_each_address_of_a_registry_is_asked_as_its_user(
    first: str, second: str, asked_as: tuple[str | None, str | None]
) -> None:
    """One without a user as the first that there is; the next address when one does not answer."""
    wanted = [None if user is None else f"Basic {encoded(user)}" for user in asked_as]
    with stand_in() as one, stand_in() as other:
        address = f"http://{first}{one.url[7:]}, http://{second}{other.url[7:]},"
        number = put(one, CITY)
        assert put(other, CITY) == number
        assert SchemaRegistry(address).look_up(number) is None
        one.fail = 503
        registry = SchemaRegistry(address)
        assert registry.look_up(number) is None
        assert set(one.users) == {wanted[0]}
        assert set(other.users) == {wanted[1]}
        other.fail = 503
        said = SchemaRegistry(address).look_up(number)
        assert said is not None
        assert f"at {one.url},{other.url} " in said


def test_a_user_of_variables_is_that_of_all_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password may be in a file, and has any characters; half of both is refused, and so is a
    second user.
    """
    monkeypatch.setenv("SCHEMA_REGISTRY_USERNAME", "svc@stat")
    with stand_in() as server:
        with pytest.raises(SlidestatError, match="SCHEMA_REGISTRY_PASSWORD is not"):
            SchemaRegistry(server.url)
        (tmp_path / "secret").write_text("a:/%b, c\n")
        monkeypatch.setenv("SCHEMA_REGISTRY_PASSWORD_FILE", str(tmp_path / "secret"))
        number = put(server, CITY)
        assert SchemaRegistry(f"http://127.0.0.1:9,{server.url}").look_up(number) is None
        assert set(server.users) == {f"Basic {encoded('svc@stat:a:/%b, c')}"}
        with pytest.raises(SlidestatError, match="address has a user in it"):
            SchemaRegistry(server.url.replace("//", "//ada:pw@"))
    monkeypatch.setenv("SCHEMA_REGISTRY_CA_FILE", str(tmp_path / "secret"))
    with pytest.raises(SlidestatError, match="SCHEMA_REGISTRY_CA_FILE has no certificates"):
        SchemaRegistry("https://registry")


def encoded(user: str) -> str:
    return b64encode(user.encode()).decode()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://ada:secret-1@a:1,b:2", "'http://a:1,b:2' is no schema registry's address"),
        ("http://a:1,b:2", "'http://a:1,b:2' is no schema registry's address"),
        ("http://a:1,ftp://bea:secret-2@b", "not escaped"),
        ("http://ada:secret,1@a:1", "a comma in its user or password"),
        ("http://ada:secret-1@a:1,http://bea:sec@ret-2@b", "not escaped"),
        ("http://ada:secret-1@a:1,http://", "'http://' is no schema registry's address"),
        (",", "is no schema registry's address"),
    ],
)
def test_no_secret_of_any_address_is_shown(address: str, said: str) -> None:
    with pytest.raises(SlidestatError, match=said) as caught:
        SchemaRegistry(address)
    assert "secret" not in str(caught.value)
    assert "ret-2" not in str(caught.value)


def test_an_address_is_checked_at_once() -> None:
    for url, said in (("", "none is given"), ("registry:8081", "no schema registry's address")):
        with pytest.raises(SlidestatError, match=said):
            SchemaRegistry(url)


def test_a_worker_may_wait_for_days(tmp_path: Path) -> None:
    """aiokafka would have it leave its group when it has taken in nothing for 1,000 s, and wait for
    a poll that Faust does not make before it is back.
    """
    settings = WorkerSettings(
        topologies=[Topology(name="t", source="s", span="1h", every="1m")],
        bootstrap_servers="127.0.0.1:9",
        data_dir=tmp_path,
        partitions=1,
        web=cast(Any, SimpleNamespace(canonical_url="http://127.0.0.1:9")),
    )
    assert batch_app(settings).conf.broker_max_poll_interval > 365 * 86_400
