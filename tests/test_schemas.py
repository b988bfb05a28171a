"""The published JSON Schemas: equal to the structs, and true of what is really on the wire."""

import ast
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from slidestat.schemas import publish
from slidestat.schemas.dead_letter import DeadLetterHeaders, Reason
from slidestat.schemas.emission import Emission, Figure, emission_key
from slidestat.schemas.event import EARLIEST_TIME_MS, LATEST_TIME_MS, Event

# The fields of a record that may be given by position, such as a figure's name and numbers.
_MOST_PLACED = 6

EVENT = {"key": "ATL", "time": 978_307_200_000, "value": 1587}
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
LETTER = DeadLetterHeaders(
    reason=Reason.NOT_JSON,
    detail='expected "," at byte 12 — "Zürich"',
    topic="flights",
    partition=3,
    offset=2**62,
    topology="flights",
)


VERSIONS = [(name, version) for name, of in publish.PUBLISHED.items() for version in of]


def published(name: str, version: int = 1) -> dict[str, Any]:
    text = (publish.FOLDER / f"{name}.v{version}.schema.json").read_text(encoding="utf-8")
    return json.loads(text)


def errors(name: str, record: object, version: int = 1) -> list[str]:
    validator = jsonschema.Draft202012Validator(published(name, version))
    return [error.message for error in validator.iter_errors(record)]


def test_published_files_are_those_of_the_structs() -> None:
    """Each file is what `make schemas` writes now: nobody changed a struct or a file alone."""
    rendered = publish.render()
    for name, text in rendered.items():
        path = publish.FOLDER / name
        assert path.is_file(), f"{name} is missing: run make schemas"
        assert path.read_text(encoding="utf-8") == text, f"{name} is stale: run make schemas"


def test_publish_writes_every_file_and_says_where(tmp_path) -> None:
    """`python -m slidestat.schemas.publish` makes its folder and names what it wrote."""
    paths = publish.publish(tmp_path / "new")
    assert {path.name: path.read_text(encoding="utf-8") for path in paths} == publish.render()


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_schema_is_valid_closed_and_versioned(name: str, version: int) -> None:
    """Each is a valid draft 2020-12 schema with a title, a version and a text for every field."""
    schema = published(name, version)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == publish.DRAFT
    assert schema["title"]
    assert schema["x-version"] == version
    assert "$id" not in schema
    assert all(field["description"] for field in schema["properties"].values())


@pytest.mark.parametrize(
    "event",
    [
        EVENT,
        {**EVENT, "value": 0.25},
        {**EVENT, "carrier": "DL", "delay": None},
        {**EVENT, "time": EARLIEST_TIME_MS},
        {**EVENT, "time": LATEST_TIME_MS - 1},
        {**EVENT, "key": "é"},
    ],
)
def test_events_that_pass_the_schema_pass_the_struct(event: dict[str, Any]) -> None:
    """Events that the schema allows decode, fields beyond the three included."""
    assert errors("event", event) == []
    decoded = msgspec.json.decode(json.dumps(event), type=Event)
    assert (decoded.key, decoded.time, decoded.value) == (
        event["key"],
        event["time"],
        event["value"],
    )


@pytest.mark.parametrize(
    "event",
    [
        {"time": EVENT["time"], "value": 1},
        {**EVENT, "key": ""},
        {**EVENT, "key": 7.5},
        {**EVENT, "key": True},
        {**EVENT, "key": 2**63},
        {**EVENT, "time": "2001-01-01"},
        {**EVENT, "time": EVENT["time"] // 1000},
        {**EVENT, "time": EVENT["time"] * 1000},
        {**EVENT, "time": EARLIEST_TIME_MS - 1},
        {**EVENT, "time": LATEST_TIME_MS},
        {**EVENT, "value": None},
        {**EVENT, "value": "12"},
        [EVENT],
    ],
)
def test_events_that_the_struct_refuses_the_schema_refuses(event: object) -> None:
    """Schema and struct refuse the same: wrong unit, wrong type, a field that is missing."""
    assert errors("event", event) != []
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(event), type=Event)


def test_emissions_as_encoded_pass_their_schema() -> None:
    """What the output topic carries is what its schema says, and reads back equal."""
    wire = msgspec.json.encode(EMISSION)
    assert errors("emission", json.loads(wire)) == []
    assert msgspec.json.decode(wire, type=Emission) == EMISSION


@pytest.mark.parametrize(
    "figure",
    [
        {"statistic": "count", "estimate": 1.0, "lower": 1.0},
        {"estimate": 1.0, "lower": 1.0, "upper": 1.0},
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": "2"},
        {"statistic": "count", "estimate": 1.0, "lower": 1.0, "upper": 1.0, "window_ms": 0.5},
    ],
)
def test_figures_that_the_struct_refuses_the_schema_refuses(figure: dict[str, Any]) -> None:
    """A figure without a bound or a name, or with another type, is none."""
    record = {**msgspec.to_builtins(EMISSION), "figures": [figure]}
    assert errors("emission", record) != []
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(record, Emission)


def test_a_figure_says_no_more_than_it_needs() -> None:
    """What is left out of a figure is its default: an error of 0, always, of all events."""
    figure = Figure("count", 3.0, 3.0, 3.0)
    assert msgspec.to_builtins(figure) == {
        "statistic": "count",
        "estimate": 3.0,
        "lower": 3.0,
        "upper": 3.0,
    }


def test_long_records_are_made_by_keyword() -> None:
    """A field that is added in the middle of a record of the wire shifts no other one."""
    root = Path(publish.__file__).parents[1]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in root.rglob("*.py")}
    records = {
        node.name
        for path, tree in trees.items()
        if path.parent == root / "schemas"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    placed = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        if ast.unparse(node.func) in records and len(node.args) > _MOST_PLACED
    ]
    assert placed == []


def test_the_key_of_an_emission_tells_it_from_all_others() -> None:
    """Names with quotes and commas in them make keys of their own."""
    names = ("a", "b"), ('a","b', "c"), ("a", 'b","c')
    keys = {emission_key(*name, end) for name in names for end in (0, 1)}
    assert len(keys) == 6
    assert json.loads(emission_key("flights", "ATL", 5)) == ["flights", "ATL", 5]


@pytest.mark.parametrize("reason", list(Reason))
def test_dead_letter_headers_come_back_and_pass_their_schema(reason: Reason) -> None:
    """Headers encode to bytes and decode to the same, for every reason, beside foreign headers."""
    letter = msgspec.structs.replace(LETTER, reason=reason)
    headers = [("trace", b"\xff\x00"), *letter.encode()]
    assert all(isinstance(value, bytes) for _, value in headers)
    assert DeadLetterHeaders.decode(headers) == letter
    assert errors("dead-letter-headers", msgspec.to_builtins(letter)) == []


def test_other_records_are_no_dead_letters() -> None:
    """A record without the headers, or with a reason that does not exist, is refused."""
    with pytest.raises(msgspec.ValidationError):
        DeadLetterHeaders.decode([("trace", b"1")])
    with pytest.raises(msgspec.ValidationError):
        DeadLetterHeaders.decode([*LETTER.encode()[1:], ("reason", b"bored")])
