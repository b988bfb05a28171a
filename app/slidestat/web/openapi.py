"""The OpenAPI 3.1 document of what a worker answers; its schemas are those of the structs."""

import inspect
from importlib.metadata import version
from typing import Any

import msgspec

from slidestat.schemas.emission import Emission
from slidestat.schemas.event import MAX_KEY_LENGTH
from slidestat.schemas.query import (
    Fault,
    Health,
    KeyAnswer,
    KeyHistory,
    KeyPage,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
)
from slidestat.schemas.sequence import SequenceEmission, SequenceKeyAnswer, SequenceKeyHistory
from slidestat.web.answers.parameters import DEFAULT_LIMIT, MOST_KEYS, MOST_PAIRS, MOST_VALUES

_STRUCTS = (
    KeyAnswer,
    SequenceKeyAnswer,
    SequenceEmission,
    KeyHistory,
    SequenceKeyHistory,
    KeyPage,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
    Health,
    Fault,
)

_ERRORS = {
    400: "A parameter cannot be.",
    401: "A token is set, and the request does not carry it.",
    403: "No token is set, and the worker is called by a name that is not its machine's own.",
    404: "There is no such topology or key.",
    409: "Producers have spread the key over several partitions.",
    421: "The request is for another worker.",
    429: "More is asked than the worker answers beside its work.",
    500: "A stored state cannot be read, or the worker has a bug.",
    502: "Another worker refused.",
    503: "Partitions are being restored, or another worker cannot be reached.",
}
_OF_A_TOPOLOGY = (400, 401, 403, 404)
_OF_KEYS = (400, 401, 403, 404, 421, 429, 500, 502, 503)


def openapi_document() -> dict[str, Any]:
    """Return the document as an object for JSON."""
    _, schemas = msgspec.json.schema_components(
        _STRUCTS, ref_template="#/components/schemas/{name}"
    )
    for schema in schemas.values():
        # Newer Pythons strip a docstring's indentation when they compile it, older ones do not.
        schema["description"] = inspect.cleandoc(schema["description"])
    name = _path_parameter("name", "Name of the topology.", {"type": "string"})
    key = _path_parameter(
        "key",
        "The key, percent-encoded: a slash is %2F.",
        {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
    )
    any_key = key | {"in": "query"}
    for history in ("KeyHistory", "SequenceKeyHistory"):
        emissions = schemas[history]["properties"]["emissions"]
        emissions["items"] = _either(Emission, SequenceEmission)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "slidestat",
            "version": version("slidestat"),
            "description": "Live figures of sliding windows, each with bounds that hold. Any"
            " worker of a group answers for all of it. Nothing here writes.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": {
            "/healthz": _get("health", "Whether the worker runs", Health, (400,), is_open=True),
            "/readyz": _get(
                "ready", "Whether it has its partitions", Health, (400, 503), is_open=True
            ),
            "/openapi.json": {
                "get": {
                    "operationId": "openapi",
                    "summary": "This document",
                    "responses": {
                        "200": _response("The document.", {"type": "object"}),
                        **_errors((400, 401, 403)),
                    },
                }
            },
            "/metrics": {
                "get": {
                    "operationId": "metrics",
                    "summary": "Metrics of this worker, for Prometheus",
                    "responses": {
                        "200": _exposition(),
                        **_errors((401, 403, 429)),
                    },
                }
            },
            "/topologies": _get(
                "listTopologies", "The topologies of the worker", TopologyList, (400, 401, 403)
            ),
            "/topologies/{name}": _get(
                "showTopology", "One topology", TopologyDescription, _OF_A_TOPOLOGY, name
            ),
            "/topologies/{name}/status": _get(
                "showStatus",
                "How far the partitions of all workers have come",
                TopologyStatus,
                (*_OF_A_TOPOLOGY, 421, 429, 500),
                name,
            ),
            "/topologies/{name}/metrics": {
                "get": {
                    "operationId": "figureMetrics",
                    "summary": "Figures of chosen keys of this worker, for Prometheus",
                    "parameters": [
                        name,
                        any_key
                        | {
                            "description": "The keys, percent-encoded; those of other workers are"
                            " left out. Keys times windows times quantiles are at most"
                            f" {MOST_PAIRS}.",
                            "schema": {
                                "type": "array",
                                "items": key["schema"],
                                "minItems": 1,
                                "maxItems": MOST_VALUES,
                            },
                        },
                        *_key_parameters(),
                    ],
                    "responses": {
                        "200": _exposition(),
                        **_errors((*_OF_A_TOPOLOGY, 429, 500, 503)),
                    },
                }
            },
            "/topologies/{name}/keys": _get(
                "listKeys",
                "Keys in order of their characters, page by page",
                KeyPage,
                _OF_KEYS,
                name,
                *_page_parameters(),
            ),
            "/topologies/{name}/key": _get(
                "showAnyKey",
                "The figures of a key, now; also of one that no path can have, such as ..",
                KeyAnswer,
                (*_OF_KEYS, 409),
                name,
                any_key,
                *_key_parameters(),
            ),
            "/topologies/{name}/key/history": _get(
                "showAnyHistory",
                "What was emitted of a key lately; also of one that no path can have",
                KeyHistory,
                (*_OF_KEYS, 409),
                name,
                any_key,
            ),
            "/topologies/{name}/keys/{key}": _get(
                "showKey",
                "The figures of a key, now",
                KeyAnswer,
                (*_OF_KEYS, 409),
                name,
                key,
                *_key_parameters(),
            ),
            "/topologies/{name}/keys/{key}/history": _get(
                "showHistory",
                "What was emitted of a key lately",
                KeyHistory,
                (*_OF_KEYS, 409),
                name,
                key,
            ),
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _exposition() -> dict[str, Any]:
    return {
        "description": "In the text format of Prometheus, or OpenMetrics.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }


def _page_parameters() -> list[dict[str, Any]]:
    text = {"type": "string", "maxLength": MAX_KEY_LENGTH}
    return [
        _query_parameter("prefix", "Only keys that begin so.", text),
        _query_parameter("after", "Only keys behind this one: the page's `next_after`.", text),
        _query_parameter(
            "limit",
            "How many keys a page has at most.",
            {"type": "integer", "minimum": 1, "maximum": MOST_KEYS, "default": DEFAULT_LIMIT},
        ),
    ]


def _key_parameters() -> list[dict[str, Any]]:
    def listed(item: dict[str, Any]) -> dict[str, Any]:
        return {"type": "array", "items": item, "maxItems": MOST_VALUES}

    return [
        _query_parameter(
            "window",
            "A length up to the topology's span, such as 5m or 1000 events; by default those that"
            " are emitted.",
            listed({"type": "string"}),
        ),
        _query_parameter(
            "statistic",
            "The name of a statistic of the topology; by default all.",
            listed({"type": "string"}),
        ),
        _query_parameter(
            "quantile",
            "Which quantiles, in place of those that the topology declares; windows times quantiles"
            f" are at most {MOST_PAIRS}.",
            listed({"type": "number", "minimum": 0, "maximum": 1}),
        ),
        _query_parameter(
            "rank",
            "A value: how many events are at most as large, and how many larger, in number and"
            " share, of quantiles by value; no figure is told then. Windows times ranks are at most"
            f" {MOST_PAIRS}.",
            listed({"type": "number"}),
        ),
        _query_parameter(
            "item",
            "An item: how often it came, of top items, whether it is among them or not; no other"
            f" figure is told then. Windows times items are at most {MOST_PAIRS}.",
            listed({"type": "string"}),
        ),
        _query_parameter(
            "where",
            "FIELD=TEXT: only distinct items with this text in the field by which they are"
            " declared, and no other statistic.",
            {"type": "string"},
        ),
    ]


def _path_parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


def _query_parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _get(
    operation: str,
    summary: str,
    answer: type[msgspec.Struct],
    errors: tuple[int, ...],
    *parameters: dict[str, Any],
    is_open: bool = False,
) -> dict[str, Any]:
    reference = _reference(answer)
    if answer is KeyAnswer:
        reference = _either(KeyAnswer, SequenceKeyAnswer)
    elif answer is KeyHistory:
        # One without emissions that is not cut off is both.
        reference = {"anyOf": [_reference(KeyHistory), _reference(SequenceKeyHistory)]}
    get: dict[str, Any] = {
        "operationId": operation,
        "summary": summary,
        "responses": {"200": _response("The answer.", reference), **_errors(errors)},
    }
    if parameters:
        get["parameters"] = list(parameters)
    if is_open:
        get["security"] = []
    return {"get": get}


def _reference(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{struct.__name__}"}


def _either(*versions: type[msgspec.Struct]) -> dict[str, Any]:
    return {"oneOf": [_reference(version) for version in versions]}


def _errors(statuses: tuple[int, ...]) -> dict[str, Any]:
    reference = _reference(Fault)
    return {str(status): _response(_ERRORS[status], reference) for status in sorted(statuses)}


def _response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
