"""The routes of a worker: its topologies, their keys, and the figures of a key; and the OpenAPI 3.1
document of them, whose schemas are those of the structs.

States are looked at on the loop of the work, which gives looks a share of its time; all else is
done in another thread. A few questions are answered at once, others wait for their turn, and are
refused if it does not come soon.

A request that names this worker in the header `Slidestat-Worker` comes from another one, and is
answered from what is here alone: that is what ends the search for a key.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from slidestat.declare.rankings import MOST_PLACES
from slidestat.live.live_ranking import DEFAULT_PLACES
from slidestat.live.live_topology import LiveTopology
from slidestat.live.looks import Looks
from slidestat.options import KEYS_OF_A_PAGE
from slidestat.schemas.emission import Emission
from slidestat.schemas.event import MAX_KEY_LENGTH
from slidestat.schemas.query import (
    Fault,
    Health,
    KeyAnswer,
    KeyHistory,
    KeyPage,
    KeyTable,
    RankingAnswer,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
)
from slidestat.schemas.sequence import (
    SequenceEmission,
    SequenceKeyAnswer,
    SequenceKeyHistory,
    SequenceRankingAnswer,
)
from slidestat.web.address import WebAddress
from slidestat.web.answers.history import History
from slidestat.web.answers.keys import KeyAnswers, TopologyAnswers
from slidestat.web.answers.parameters import (
    MOST_KEYS,
    MOST_PAIRS,
    MOST_SERIES,
    MOST_VALUES,
    no_query,
)
from slidestat.web.answers.ranking import RankingAnswers
from slidestat.web.answers.workers import OtherWorkers, ThisWorker, checked, require_ready
from slidestat.web.errors import json_response, unavailable
from slidestat.web.metrics import chosen_format
from slidestat.web.peers import Peers
from slidestat.web.turns import Turns

_STRUCTS = (
    KeyAnswer,
    SequenceKeyAnswer,
    SequenceEmission,
    KeyHistory,
    SequenceKeyHistory,
    KeyPage,
    KeyTable,
    RankingAnswer,
    SequenceRankingAnswer,
    TopologyDescription,
    TopologyList,
    TopologyStatus,
    Health,
    Fault,
)

_ERRORS = {
    400: "A parameter cannot be.",
    401: "A token is set, and the request does not carry it.",
    403: "No token is set, and the worker is called by a name that is not its machine's own; or"
    " the token is for looking, and more is asked.",
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


@dataclass(frozen=True)
class Operation:
    """An operation: the answer to GET at a path, and its errors; `is_open` without a token."""

    path: str
    name: str
    summary: str
    answer: dict[str, Any]
    errors: tuple[int, ...]
    parameters: tuple[dict[str, Any], ...] = ()
    is_open: bool = False


def _reference(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{struct.__name__}"}


def _either(*versions: type[msgspec.Struct]) -> dict[str, Any]:
    return {"oneOf": [_reference(version) for version in versions]}


def _response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _answer(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return _response("The answer.", _reference(struct))


def _listed(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "maxItems": MOST_VALUES}


def _query_parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path_parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


_EXPOSITION = {
    "description": "In the text format of Prometheus, or OpenMetrics.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
_KEY_ANSWER = _response("The answer.", _either(KeyAnswer, SequenceKeyAnswer))
# An answer without places fits both; so does one without emissions that is not cut off.
_RANKING_ANSWER = _response(
    "The answer.", {"anyOf": [_reference(RankingAnswer), _reference(SequenceRankingAnswer)]}
)
_KEY_HISTORY = _response(
    "The answer.", {"anyOf": [_reference(KeyHistory), _reference(SequenceKeyHistory)]}
)
_NAME = _path_parameter("name", "Name of the topology.", {"type": "string"})
_KEY = _path_parameter(
    "key",
    "The key, percent-encoded: a slash is %2F.",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
)
_ANY_KEY = _KEY | {"in": "query"}
_KEYS = _ANY_KEY | {
    "description": "The keys, percent-encoded; those of other workers are left out. Keys times"
    f" windows times quantiles are at most {MOST_PAIRS}.",
    "schema": {"type": "array", "items": _KEY["schema"], "minItems": 1, "maxItems": MOST_VALUES},
}
_TABLE_KEYS = _KEYS | {
    "description": f"The keys, percent-encoded. Keys times figures are at most {MOST_PAIRS}."
}
_FIGURES = _query_parameter(
    "figure",
    "The name of a figure with its window, such as p99_5m, or of a derived one.",
    _listed({"type": "string"}) | {"minItems": 1},
) | {"required": True}
_TEXT = {"type": "string", "maxLength": MAX_KEY_LENGTH}
_OF_A_PAGE = (
    _query_parameter("prefix", "Only keys that begin so.", _TEXT),
    _query_parameter("after", "Only keys behind this one: the page's `next_after`.", _TEXT),
    _query_parameter(
        "limit",
        "How many keys a page has at most.",
        {"type": "integer", "minimum": 1, "maximum": MOST_KEYS, "default": KEYS_OF_A_PAGE},
    ),
    _query_parameter(
        "firing",
        "The name of an alert: only keys for which it fires, or one of several that are given.",
        _listed({"type": "string"}),
    ),
)
_OF_A_RANKING = (
    _query_parameter(
        "by",
        "The name of a figure with its window, such as p99_5m, or of a derived one.",
        {"type": "string"},
    )
    | {"required": True},
    *(
        _query_parameter(
            name,
            f"How many keys, those of the {name} figures; without it and {other}, the"
            f" {DEFAULT_PLACES} largest.",
            {"type": "integer", "minimum": 1, "maximum": MOST_PLACES},
        )
        for name, other in (("largest", "smallest"), ("smallest", "largest"))
    ),
    _query_parameter(
        "having",
        "A condition on figures, such as count_5m >= 100: only keys for which it may hold.",
        {"type": "string"},
    ),
)
_OF_FIGURES = (
    _query_parameter(
        "window",
        "A length up to the topology's span, such as 5m or 1000 events; by default those that"
        " are emitted.",
        _listed({"type": "string"}),
    ),
    _query_parameter(
        "statistic",
        "The name of a statistic of the topology; by default all.",
        _listed({"type": "string"}),
    ),
    _query_parameter(
        "quantile",
        "Which quantiles, in place of those that the topology declares; windows times quantiles"
        f" are at most {MOST_PAIRS}.",
        _listed({"type": "number", "minimum": 0, "maximum": 1}),
    ),
    _query_parameter(
        "rank",
        "A value: how many events are at most as large, and how many larger, in number and"
        " share, of quantiles by value; figures are left out then. Windows times ranks are at most"
        f" {MOST_PAIRS}.",
        _listed({"type": "number"}),
    ),
    _query_parameter(
        "item",
        "An item: how often it came, of counts of items, and of top items, listed or not; no other"
        f" figure is answered then. Windows times items are at most {MOST_PAIRS}.",
        _listed({"type": "string"}),
    ),
    _query_parameter(
        "where",
        "FIELD=TEXT: only distinct items with this text in the field by which they are"
        " declared, and no other statistic.",
        {"type": "string"},
    ),
)
_OF_A_KEY = (
    *_OF_FIGURES,
    _query_parameter(
        "ago",
        "How long ago the windows ended, such as 24h; with a window it is at most the span. Only"
        " counts, sums, means and spreads, histograms, counts of items, quantiles by value and top"
        " items have a past; without `window`, those windows that the span covers.",
        {"type": "string"},
    ),
)

OPERATIONS = (
    Operation(
        "/healthz", "health", "Whether the worker runs", _answer(Health), (400,), is_open=True
    ),
    Operation(
        "/readyz",
        "ready",
        "Whether it has its partitions, and brokers answer it",
        _answer(Health),
        (400, 503),
        is_open=True,
    ),
    Operation(
        "/openapi.json",
        "openapi",
        "This document",
        _response("The document.", {"type": "object"}),
        (400, 401, 403),
    ),
    Operation(
        "/metrics",
        "metrics",
        "Metrics of this worker, for Prometheus",
        _EXPOSITION,
        (401, 403, 429),
    ),
    Operation(
        "/topologies",
        "listTopologies",
        "The topologies of the worker",
        _answer(TopologyList),
        (400, 401, 403),
    ),
    Operation(
        "/topologies/{name}",
        "showTopology",
        "One topology",
        _answer(TopologyDescription),
        _OF_A_TOPOLOGY,
        (_NAME,),
    ),
    Operation(
        "/topologies/{name}/status",
        "showStatus",
        "How far the partitions of all workers have come",
        _answer(TopologyStatus),
        (*_OF_A_TOPOLOGY, 421, 429, 500),
        (_NAME,),
    ),
    Operation(
        "/topologies/{name}/metrics",
        "figureMetrics",
        "Figures of chosen keys of this worker, for Prometheus; with `rank` as a histogram",
        _EXPOSITION,
        (*_OF_A_TOPOLOGY, 429, 500, 503),
        (_NAME, _KEYS, *_OF_FIGURES),
    ),
    Operation(
        "/topologies/{name}/keys",
        "listKeys",
        "Keys in order of their characters, page by page",
        _answer(KeyPage),
        _OF_KEYS,
        (_NAME, *_OF_A_PAGE),
    ),
    Operation(
        "/topologies/{name}/table",
        "showTable",
        "Some figures of several keys, and the alerts that fire for them",
        _answer(KeyTable),
        (*_OF_KEYS, 409),
        (_NAME, _TABLE_KEYS, _FIGURES),
    ),
    Operation(
        "/topologies/{name}/ranking",
        "showRanking",
        "Keys in the order of a figure, and between which places each of them may be",
        _RANKING_ANSWER,
        (*_OF_KEYS, 409),
        (_NAME, *_OF_A_RANKING),
    ),
    Operation(
        "/topologies/{name}/ranking/metrics",
        "rankingMetrics",
        f"The same as gauges for Prometheus, of up to {MOST_SERIES} keys",
        _EXPOSITION,
        (*_OF_KEYS, 409),
        (_NAME, *_OF_A_RANKING),
    ),
    Operation(
        "/topologies/{name}/key",
        "showAnyKey",
        "The figures of a key, now or some time ago; also of one that no path can have, such as ..",
        _KEY_ANSWER,
        (*_OF_KEYS, 409),
        (_NAME, _ANY_KEY, *_OF_A_KEY),
    ),
    Operation(
        "/topologies/{name}/key/history",
        "showAnyHistory",
        "What was emitted of a key lately; also of one that no path can have",
        _KEY_HISTORY,
        (*_OF_KEYS, 409),
        (_NAME, _ANY_KEY),
    ),
    Operation(
        "/topologies/{name}/keys/{key}",
        "showKey",
        "The figures of a key, now or some time ago",
        _KEY_ANSWER,
        (*_OF_KEYS, 409),
        (_NAME, _KEY, *_OF_A_KEY),
    ),
    Operation(
        "/topologies/{name}/keys/{key}/history",
        "showHistory",
        "What was emitted of a key lately",
        _KEY_HISTORY,
        (*_OF_KEYS, 409),
        (_NAME, _KEY),
    ),
)


def openapi_document() -> dict[str, Any]:
    """Return the document as an object for JSON."""
    _, schemas = msgspec.json.schema_components(
        _STRUCTS, ref_template="#/components/schemas/{name}"
    )
    for schema in schemas.values():
        # Newer Pythons strip a docstring's indentation when they compile it, older ones do not.
        schema["description"] = inspect.cleandoc(schema["description"])
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
        # Relative to the document: a proxy may have put it below a path.
        "servers": [{"url": "./"}],
        "security": [{}, {"token": []}],
        "paths": {it.path: {"get": _described(it)} for it in OPERATIONS},
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: Operation) -> dict[str, Any]:
    """Return an operation as an object of OpenAPI."""
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {"200": operation.answer, **_errors(operation.errors)},
    }
    if operation.parameters:
        described["parameters"] = list(operation.parameters)
    if operation.is_open:
        described["security"] = []
    return described


def _errors(statuses: tuple[int, ...]) -> dict[str, Any]:
    reference = _reference(Fault)
    return {str(status): _response(_ERRORS[status], reference) for status in sorted(statuses)}


# Watchers do not queue with those who ask; see `answers/keys.py`.
_WATCHERS = (1, 2.0)


class Routes:
    """The handlers, over the topologies of one worker."""

    def __init__(
        self,
        topologies: Mapping[str, LiveTopology],
        peers: Peers,
        address: WebAddress,
        remaining: Callable[[], int],
        history: History,
        looks: Looks,
        metrics: CollectorRegistry,
    ) -> None:
        here = ThisWorker(topologies, looks, address.worker)
        self._keys = KeyAnswers(here, OtherWorkers(peers), history)
        self._rankings = RankingAnswers(here, OtherWorkers(peers))
        self._watchers = Turns(*_WATCHERS)
        self._of_topologies = TopologyAnswers(here, peers, address.url, remaining, self._watchers)
        self._topologies = topologies
        self._looks = looks
        self._metrics = metrics
        self._openapi = msgspec.json.encode(openapi_document())

    def add_to(self, app: web.Application) -> None:
        """Route to the handlers."""
        keys, topologies = self._keys, self._of_topologies
        handlers = {
            "health": self.health,
            "ready": self.ready,
            "openapi": self.openapi,
            "metrics": self.metrics,
            "listTopologies": topologies.list_topologies,
            "showTopology": topologies.show_topology,
            "showStatus": topologies.show_status,
            "figureMetrics": keys.figure_metrics,
            "listKeys": keys.list_keys,
            "rankingMetrics": self._rankings.ranking_metrics,
            "showTable": self._rankings.show_table,
            "showRanking": self._rankings.show_ranking,
            "showAnyKey": keys.show_key,
            "showAnyHistory": keys.show_history,
            "showKey": keys.show_key,
            "showHistory": keys.show_history,
        }
        app.add_routes(
            [web.get(it.path.replace("}", ":[^/]+}"), handlers[it.name]) for it in OPERATIONS]
        )

    async def health(self, request: web.Request) -> web.Response:
        """Answer the liveness probe."""
        checked(no_query, request)
        return json_response(Health("ok"))

    async def ready(self, request: web.Request) -> web.Response:
        """Answer the readiness probe: ready with all its partitions, while brokers answer."""
        checked(no_query, request)
        for live in self._topologies.values():
            require_ready(live)
            if not live.is_up_to_date:
                raise unavailable(
                    f"The brokers do not answer: {live.topology.name!r} has what was read before."
                )
        return json_response(Health("ready"))

    async def openapi(self, request: web.Request) -> web.Response:
        """Return the OpenAPI description of these routes."""
        checked(no_query, request)
        return web.Response(body=self._openapi, content_type="application/json")

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer Prometheus with the metrics."""
        encode, content_type = chosen_format(request)
        async with self._watchers.one():
            body = await self._looks.take(lambda: encode(self._metrics))
        return web.Response(body=body, headers={"Content-Type": content_type})
