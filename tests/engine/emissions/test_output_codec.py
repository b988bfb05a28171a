"""Emissions in JSON and in Avro: the same ones come back, from any version, and garbage is told."""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import fastavro
import msgspec
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings, strategies as st

from slidestat.declare.topology import Topology
from slidestat.engine.emissions.emission_codec import JsonCodec, NotAnEmissionError
from slidestat.engine.emissions.output_codec import AnyFormat, emission_codec
from slidestat.errors import SlidestatError
from slidestat.schemas.avro import avro_schema, emission_schema
from slidestat.schemas.emission import Emission, Figure
from tests.registry.stand_in import StandIn, stand_in

EMISSION = Emission(
    topology="flights",
    key="ATL",
    window_end_ms=978_393_600_000,
    figures=[
        Figure("sum", 1_000.5, 990.0, 1_011.0, window_ms=86_400_000, relative_error=0.01),
        Figure("mean", None, None, None, window_ms=1, absolute_error=0.5, deviation_error=0.1),
        Figure("quantile", -3.0, -4.0, -2.5, window_events=1_000, quantile=0.99, share_error=0.01),
        Figure("top", 12.0, 10.0, 15.0, item='a "quoted" é', confidence=0.95),
        Figure("histogram", 7.0, 7.0, 7.0, at_least=10.0, below=20.0),
    ],
    source_topic="flights",
    source_partition=3,
    source_offset=2**53,
)


def declared(output_format: str, name: str = "flights") -> Topology:
    return Topology(name=name, source="s", span="1h", every="1m", output_format=output_format)


AVRO = declared("avro")


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as server:
        yield server


def _floats() -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False)


def _counts() -> st.SearchStrategy[int]:
    return st.integers(-(2**63), 2**63 - 1)


FIGURES = st.builds(
    Figure,
    statistic=st.text(),
    estimate=_floats() | st.none(),
    lower=_floats() | st.none(),
    upper=_floats() | st.none(),
    window_ms=_counts() | st.none(),
    window_events=_counts() | st.none(),
    quantile=_floats() | st.none(),
    item=st.text() | st.none(),
    at_least=_floats() | st.none(),
    below=_floats() | st.none(),
    relative_error=_floats(),
    absolute_error=_floats(),
    share_error=_floats(),
    deviation_error=_floats(),
    confidence=_floats(),
)
EMISSIONS = st.builds(
    Emission,
    topology=st.text(),
    key=st.text(),
    window_end_ms=_counts(),
    figures=st.lists(FIGURES, max_size=5),
    source_topic=st.text(),
    source_partition=_counts(),
    source_offset=_counts(),
    provisional=st.booleans(),
)

CODECS = {name: emission_codec(declared(name), "mock://codecs") for name in ("json", "avro")}


@pytest.mark.parametrize("name", CODECS)
@settings(derandomize=True, deadline=None)
@given(emission=EMISSIONS)
def test_any_emission_comes_back(name: str, emission: Emission) -> None:
    """Equal, and encoded again to the same bytes."""
    codec = CODECS[name]
    value = codec.encode(emission)
    assert codec.decode(value) == emission
    assert codec.encode(codec.decode(value)) == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_do_not_exist_are_null_in_both(number: float) -> None:
    """NaN of no events in a window is null on the wire, in Avro as in JSON."""
    figure = Figure("quantile", number, number, 3.0, quantile=0.5)
    emission = msgspec.structs.replace(EMISSION, figures=[figure])
    for codec in CODECS.values():
        (read,) = codec.decode(codec.encode(emission)).figures
        assert (read.estimate, read.lower, read.upper) == (None, None, 3.0)


def test_the_schema_is_that_of_the_structs() -> None:
    """Valid Avro, in our namespace, with a text for each field and the structs' own defaults."""
    schema = json.loads(emission_schema())
    fastavro.parse_schema(schema)
    assert (schema["namespace"], schema["name"]) == ("slidestat", "Emission")
    figure = next(f for f in schema["fields"] if f["name"] == "figures")["type"]["items"]
    for struct, record in ((Emission, schema), (Figure, figure)):
        assert record["doc"]
        assert [field["name"] for field in record["fields"]] == list(struct.__struct_fields__)
        for field, info in zip(record["fields"], msgspec.structs.fields(struct), strict=True):
            assert field["doc"]
            default = field.get("default", msgspec.NODEFAULT)
            assert default is msgspec.NODEFAULT or default == info.default
            assert (default is msgspec.NODEFAULT) == (info.default is msgspec.NODEFAULT)


def test_a_struct_of_other_types_has_no_avro_schema() -> None:
    """Told with the field, when the schema is made."""

    class Odd(msgspec.Struct):
        when: dict[str, int]

    with pytest.raises(TypeError, match=r"Odd\.when"):
        avro_schema(Odd)


def _without(schema: dict[str, object], *names: str) -> dict[str, object]:
    """The schema as it was before these fields, also of records in it."""
    changed = dict(schema)
    fields = [dict(f) for f in schema["fields"] if f["name"] not in names]  # type: ignore[index,attr-defined]
    for field in fields:
        if field["name"] == "figures":
            field["type"] = {"type": "array", "items": _without(field["type"]["items"], *names)}
    changed["fields"] = fields
    return changed


def test_records_of_other_versions_are_read(registry: StandIn) -> None:
    """One written before fields with defaults came, and one with a field that we do not know."""
    older = _without(avro_schema(Emission), "provisional", "deviation_error", "item")
    newer = avro_schema(Emission)
    newer["fields"].append({"name": "mood", "type": "string", "default": ""})
    client = SchemaRegistryClient({"url": registry.url})
    context = SerializationContext("flights-statistics", MessageField.VALUE)
    naming = {"subject.name.strategy.type": "TOPIC"}
    for schema in (older, newer):
        serialize = AvroSerializer(client, Schema(json.dumps(schema), "AVRO"), conf=naming)
        value = serialize(msgspec.to_builtins(EMISSION) | {"mood": "fine"}, context)
        assert value is not None
        read = AnyFormat(registry.url).decode(value)
        known = [figure if schema is newer else _older(figure) for figure in EMISSION.figures]
        assert read == msgspec.structs.replace(EMISSION, figures=known)


def _older(figure: Figure) -> Figure:
    return msgspec.structs.replace(figure, item=None, deviation_error=0.0)


def test_a_topic_of_both_formats_is_read(registry: StandIn) -> None:
    """Told apart by the first byte; the schema is registered once, asked for once, and a topic of
    JSON alone takes no registry.
    """
    codec = emission_codec(AVRO, registry.url)
    assert registry.asked == ["POST subjects/flights-statistics-value/versions"]
    avro = [codec.encode(EMISSION) for _ in range(3)]
    assert {value[:5] for value in avro} == {b"\0\0\0\0\1"}
    assert [schema["schema"] for schema in registry.schemas] == [
        emission_schema(without=("derived", "window"))
    ]
    reader = AnyFormat(registry.url)
    plain = JsonCodec().encode(EMISSION)
    assert [reader.decode(value) for value in (*avro, plain)] == [EMISSION] * 4
    assert registry.asked[1:] == ["GET schemas/ids/1"]
    assert AnyFormat("").decode(plain) == EMISSION


def test_derived_figures_are_marked_in_avro(registry: StandIn) -> None:
    """By a field that only topologies which derive figures have in their schema."""
    codec = emission_codec(replace(AVRO, derived=("count * 2 as twice",)), registry.url)
    written = emission_schema(without=("window",))
    assert [schema["schema"] for schema in registry.schemas] == [written]
    figures = [*EMISSION.figures, Figure("twice", 2.0, None, 4.0, derived=True)]
    emission = msgspec.structs.replace(EMISSION, figures=figures)
    assert AnyFormat(registry.url).decode(codec.encode(emission)) == emission


def test_damaged_bytes_are_no_emission() -> None:
    """Whatever is on the topic: an emission, or told to be none."""
    random = Random(1)
    codecs = list(CODECS.values())
    whole = [codec.encode(EMISSION) for codec in codecs]
    outcomes = {True: 0, False: 0}
    for i in range(10_000):
        value = bytearray(whole[i % 2])
        for _ in range(random.randint(1, 4)):
            value[random.randrange(len(value))] = random.randrange(256)
        try:
            read = codecs[i % 2].decode(bytes(value[: random.choice([None, len(value) // 2])]))
        except NotAnEmissionError:
            outcomes[False] += 1
        else:
            assert isinstance(read, Emission)
            outcomes[True] += 1
    assert all(outcomes.values())


@pytest.mark.parametrize(
    "value",
    [b"", b"\0", b"\0\0\0\0\1", b"\0\0\0\0\1\2", b"\0\0\0\0\1" + b"\xff" * 60, b"\0\0\0\0\2abc"],
)
def test_bytes_that_only_begin_like_avro_are_no_emission(registry: StandIn, value: bytes) -> None:
    """Cut off, of an unknown schema, or nonsense."""
    emission_codec(AVRO, registry.url)
    with pytest.raises(NotAnEmissionError):
        AnyFormat(registry.url).decode(value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "needs a schema registry, and none is given"),
        ("registry:8081", "no schema registry's address"),
        ("http://user:secret@127.0.0.1:1", r"No schema registry answers at http://127\.0\.0\.1:1"),
        ("http://registry:port", "has a port that is no number"),
    ],
)
def test_a_registry_that_is_not_there(address: str, message: str) -> None:
    """Told before anything is computed, and by who reads; without the password."""
    framed = CODECS["avro"].encode(EMISSION)
    for ask in (lambda: emission_codec(AVRO, address), lambda: AnyFormat(address).decode(framed)):
        with pytest.raises(SlidestatError, match=message) as raised:
            ask()
        assert "secret" not in str(raised.value)
        assert raised.value.advice


def test_a_schema_that_the_registry_refuses(registry: StandIn) -> None:
    """With its own words."""
    registry.refuse = 409
    with pytest.raises(SlidestatError, match="refused: incompatible"):
        emission_codec(AVRO, registry.url)


def test_packages_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told with the command that installs them; JSON does without."""
    monkeypatch.delitem(sys.modules, "slidestat.engine.emissions.avro_codec", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry.avro", None)
    with pytest.raises(SlidestatError, match="packages that are not installed") as raised:
        emission_codec(AVRO, "mock://none")
    assert "slidestat[avro]" in raised.value.advice
    emission_codec(declared("json"), "")


def test_formats_that_there_are_not() -> None:
    """Told with those that there are."""
    with pytest.raises(SlidestatError, match="output_format is 'xml'"):
        declared("xml")
