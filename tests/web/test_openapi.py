"""The OpenAPI document: valid, and true of every answer, whatever is asked."""

import asyncio
from random import Random
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from slidestat.web.routes import openapi_document
from slidestat.web.server import is_page
from tests.web.serving import Served, get, serving

KEYS = "/topologies/orders/keys"


def test_the_document_is_valid() -> None:
    """It is an OpenAPI 3.1 document."""
    assert not list(OpenAPIV31SpecValidator(openapi_document()).iter_errors())


@pytest.mark.asyncio
async def test_the_document_is_served_and_covers_all_routes() -> None:
    """What is served is the document, and it has each path that is routed but the page's own."""
    async with serving({0: ["a"]}) as [worker]:
        assert (await get(worker.url, "/openapi.json")).json == openapi_document()
        routed = {resource.canonical for resource in worker.runner.app.router.resources()}
        assert {path for path in routed if not is_page(path)} == set(openapi_document()["paths"])


RANKING = "/topologies/orders/ranking"
SEGMENTS = [
    *(
        "topologies",
        "orders",
        "keys",
        "a",
        "b",
        "nobody",
        "healthz",
        "readyz",
        "openapi.json",
        "status",
        "history",
    ),
    *("", ".", "..", "%", "%2F", "%00", "%FF", "%C3%A9", "%F0%9F%98%80", "%25", "a%20b", "{", "*"),
    *("~", "@", ":", "a;b", "a,b", "%u0041", "%E2%82", "+", "x" * 300, "%61" * 256, "'", '"', "<"),
]
VALUES = [
    *("5m", "1h", "2h", "0s", "-1s", "1ms", "9" * 30 + "d", "5%20events", "5+events", "1", "", "a"),
    *("count", "quantile", "sum", "0.5", "1", "0", "-0", "nan", "inf", "1e400", "0x1", "%", "%FF"),
    *(
        "count_1h",
        "count_1m",
        "count_1h>1",
        "1000",
        "1001",
        "%D9%A3",
        "null",
        "true",
        "[]",
        "%00",
        "_1",
        "1_0",
        "+5m",
    ),
]
NAMES = [
    *("window", "statistic", "quantile", "rank", "where", "limit", "after", "prefix"),
    *("x", "", "%FF", "window[]", "by", "by", "by", "largest", "smallest", "having"),
]


def any_target(random: Random) -> str:
    """A request's path and query."""
    if random.random() < 0.6:
        found = [KEYS, f"{KEYS}/a", f"{KEYS}/b", f"{KEYS}/{random.choice(SEGMENTS)}", RANKING]
        path = random.choice(found)
    else:
        path = "/" + "/".join(random.choices(SEGMENTS, k=random.randint(0, 6)))
    pairs = [
        random.choice(NAMES) + random.choice(["=", "=", "=", ""]) + random.choice(VALUES)
        for _ in range(random.choice([0, 1, 1, 2, 3, 60]))
    ]
    return path + ("?" + random.choice(["&", "&", ";", "&&"]).join(pairs) if pairs else "")


class Document:
    """What the document says of answers."""

    def __init__(self) -> None:
        self._document = openapi_document()
        self._statuses = {
            str(status)
            for path in self._document["paths"].values()
            for status in path["get"]["responses"]
        } | {"404", "405"}

    def check(self, target: str, status: int, body: Any) -> None:
        """Assert that the body is one that a path may give, or an error with its status."""
        assert str(status) in self._statuses, (target, status)
        names = ["Fault"]
        if status == 200:
            names = ["KeyAnswer", "KeyPage", "TopologyDescription", "TopologyList", "Health"]
            names += ["TopologyStatus", "KeyHistory", "RankingAnswer"]
            if "openapi" in body:
                return
        fitting = [name for name in names if not list(self._validator(name).iter_errors(body))]
        assert fitting, (target, status, body)

    def _validator(self, name: str) -> jsonschema.Draft202012Validator:
        return jsonschema.Draft202012Validator(
            {"$ref": f"#/components/schemas/{name}", "components": self._document["components"]}
        )


@pytest.mark.asyncio
async def test_no_request_is_too_odd() -> None:
    """600 requests of odd paths and parameters: each is answered as the document says, with a
    status below 500.
    """
    random, document = Random(7), Document()
    seen = set()
    async with serving({0: ["a", "a b"]}, {1: ["b", "é"]}) as [one, _]:
        for _ in range(600):
            target = any_target(random)
            answer = await get(one.url, target)
            assert answer.status < 500, (target, answer)
            seen.add(answer.status)
            if target.partition("?")[0] == "/":
                continue  # The page.
            document.check(target, answer.status, answer.json)
    assert seen >= {200, 400, 404}


@pytest.mark.asyncio
async def test_garbage_on_the_socket() -> None:
    """What is no HTTP gets a status of 400 or a closed connection, no trace; the worker goes on."""
    random = Random(11)
    async with serving({0: ["a"]}) as [worker]:
        for _ in range(200):
            said = await converse(worker, any_garbage(random))
            assert b"Traceback" not in said
            assert b"site-packages" not in said
            assert not said or said.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), said[:200]
        assert (await get(worker.url, f"{KEYS}/a")).status == 200


def any_garbage(random: Random) -> bytes:
    """Bytes that begin, at best, as a request does."""
    start = random.choice(
        [b"", b"GET / HTTP/1.1\r\n", b"GET /topologies", b"\x16\x03\x01", b"GET "]
    )
    middle = random.randbytes(random.choice([0, 1, 20, 3_000]))
    return (
        start + middle + random.choice([b"", b"\r\n\r\n", b" HTTP/1.1\r\n\r\n", b" HTTP/9\r\n\r\n"])
    )


async def converse(worker: Served, request: bytes) -> bytes:
    """What comes back when nothing more is sent."""
    reader, writer = await asyncio.open_connection(*worker.address.listener.getsockname())
    writer.write(request)
    writer.write_eof()
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
