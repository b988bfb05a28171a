"""The asynchronous client: each question answered by real workers, each error with what to do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from yarl import URL

from slidestat.admin import query as query_module
from slidestat.admin.query import ask
from slidestat.client import Client, client as client_module
from slidestat.declare.alerts import Alert
from slidestat.errors import SlidestatError
from slidestat.options import LOOPBACK
from slidestat.schemas.alert import Certainty
from slidestat.schemas.query import TopologyDescription
from slidestat.schemas.sequence import SequenceKeyAnswer, SequenceKeyHistory
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, serving_of

MINUTE = (START_MS // 60_000 + 1) * 60_000
STRANGE = "a/b &?#=ü%2F+"
SEQUENCE = {"span": "1000 events", "every": "10 events", "windows": ("100 events",)}
BUSY = replace(TOPOLOGY, alerts=(Alert(name="busy", when="count > 5", window="1m"),))


def records(*keys: str) -> list[Record]:
    """Return an event of each key in each of 70 seconds."""
    events = [(MINUTE + 1_000 * i, key) for i in range(70) for key in keys]
    return [Record(i, None, encode(key, at, 1), 0) for i, (at, key) in enumerate(events)]


@pytest.mark.asyncio
async def test_each_question_is_answered() -> None:
    """By any worker of the group for all of it, also of keys that no path can have."""
    held = [{0: records("b", "..")}, {1: records(STRANGE)}]
    async with serving_of(BUSY, *held) as [one, _], Client(f"{one.url}/") as client:
        (topology,) = await client.topologies()
        assert (topology.name, topology.span) == ("orders", "1h")
        page = await client.keys("orders", limit=2)
        assert (page.keys, page.next_after) == (["..", STRANGE], STRANGE)
        assert (await client.keys("orders", after=STRANGE)).keys == ["b"]
        assert (await client.keys("orders", prefix="a")).keys == [STRANGE]
        for key in ("b", "..", STRANGE):
            answer = await client.query("orders", key, windows=["30m"], statistics=["count"])
            (count,) = answer.figures
            assert answer.key == key
            assert count.lower is not None
            assert count.upper is not None
            assert count.lower <= 70
            assert count.upper >= 69
            assert client.last_json.startswith(b'{"topology":"orders"')
            (busy,) = await client.alerts("orders", key)
            assert (busy.alert, busy.certainty) == ("busy", Certainty.CERTAIN)
            history = await client.history("orders", key)
            assert [it.window_end_ms for it in history.emissions] == [MINUTE + 60_000]
        ranking = await client.ranking("orders", "count_1h", largest=2, having="count_1h > 5")
        assert (ranking.keys, len(ranking.places)) == (3, 2)
        workers = (await client.status("orders")).workers
        assert sum(it.firing["busy"] for it in workers) == 3


@pytest.mark.asyncio
async def test_answers_of_sequences_are_typed() -> None:
    """Their structs have the attributes of the others, and are read as what they are."""
    numbered = replace(TOPOLOGY, time_format="sequence", **SEQUENCE)
    events = [Record(i, None, encode("a", i, 1), 0) for i in range(25)]
    async with serving_of(numbered, {0: events}) as [worker], Client(worker.url) as client:
        answer = await client.query("orders", "a")
        history = await client.history("orders", "a")
    assert isinstance(answer, SequenceKeyAnswer)
    assert isinstance(history, SequenceKeyHistory)
    assert [it.window_end_ms for it in history.emissions] == [10, 20]


@pytest.mark.asyncio
async def test_errors_have_advice() -> None:
    """Those of the worker, in its words; and those of whatever answers, or does not."""
    async with serving_of(TOPOLOGY, {0: records("a")}) as [worker], Client(worker.url) as client:
        for question, error in (
            (client.query("ordres", "a"), "There is no topology 'ordres'"),
            (client.query("orders", "b"), "no key 'b'"),
            (client.query("orders", "a", windows=["2h"]), "2h"),
            (client.query("orders", ""), "The key is empty"),
            (client.query("orders", "\ud800"), "no Unicode text"),
            (client.query("", "a"), "The topology is empty"),
            (client.status("\udcff"), "no Unicode text"),
            (client.status(None), "None is no name of a topology"),  # type: ignore[arg-type]
            (client.query(5, "a"), "5 is no name of a topology"),  # type: ignore[arg-type]
            (client.ranking("orders", "p99"), "p99"),
        ):
            with pytest.raises(SlidestatError, match=error) as told:
                await question
            assert told.value.advice
    for url in (
        *("http://alice:secret@127.0.0.1", "127.0.0.1:6066", None, 5, b"http://127.0.0.1"),
        *("http://127.0.0.1:6066?x=1", "http://127.0.0.1/#top", "http://a b", "http://127.0.0.1\n"),
    ):
        with pytest.raises(SlidestatError, match="worker") as refused:
            Client(url)  # type: ignore[arg-type]
        assert "secret" not in str(refused.value)
    with pytest.raises(SlidestatError, match="no bearer token"):
        Client("http://127.0.0.1:9", token="a\n")  # noqa: S106  a test's
    with pytest.raises(SlidestatError, match="`token` is no text"):
        Client("http://127.0.0.1:9", token=b"abc")  # type: ignore[arg-type]
    for closed in (Client("http://127.0.0.1:9"), client):
        with pytest.raises(SlidestatError, match="is not open"):
            await closed.topologies()


@asynccontextmanager
async def served(handle: Handler, host: str = LOOPBACK, port: int = 0) -> AsyncIterator[str]:
    """Return the URL of a server that answers so at each path."""
    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    try:
        yield str(URL.build(scheme="http", host=host, port=runner.addresses[0][1]))
    finally:
        await runner.cleanup()


@asynccontextmanager
async def server(answer: str | None, location: str = "") -> AsyncIterator[tuple[str, list[str]]]:
    """Return a server's URL and the tokens that it is shown; it redirects without an answer."""
    tokens: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization", ""))
        if answer is None:
            raise web.HTTPTemporaryRedirect(location + request.path_qs)
        return web.Response(text=answer)

    async with served(handle) as url:
        yield url, tokens


@pytest.mark.asyncio
async def test_a_token_goes_to_the_worker_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect, as of a proxy, is followed; to another server without the token."""
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "of-the-environment")
    async with server('{"topologies":[]}') as (url, shown), server(None, url) as (proxy, first):
        async with Client(proxy) as client:
            assert await client.topologies() == []
        async with Client(url, token="given") as client:  # noqa: S106  a test's
            assert await client.topologies() == []
    assert first == ["Bearer of-the-environment"]
    assert shown == ["", "Bearer given"]


async def by_client(url: str) -> list[TopologyDescription]:
    async with Client(url) as client:
        return await client.topologies()


async def by_command(url: str) -> list[TopologyDescription]:
    answer, _ = await asyncio.to_thread(ask, url, lambda client: client.topologies())
    return answer


NO_TOPOLOGIES = '{"topologies":[]}'
BOTH = pytest.mark.parametrize("asked", [by_client, by_command])
Asked = Callable[[str], Awaitable[list[TopologyDescription]]]


@pytest.mark.asyncio
@BOTH
async def test_a_token_that_does_not_go_along(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told where to ask instead, and not to set what is set."""
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "of-the-environment")

    async def locked(request: web.Request) -> web.Response:
        if "Authorization" in request.headers:
            return web.Response(text=NO_TOPOLOGIES)
        return web.json_response({"error": "No token.", "advice": "Send it."}, status=401)

    async with served(locked) as url, server(None, url) as (proxy, _):
        with pytest.raises(SlidestatError, match=f"redirects to {url}, and the token") as told:
            await asked(proxy)
        assert told.value.advice.startswith(f"Give the worker's URL as {url}")
        assert await asked(url) == []


@pytest.mark.asyncio
@BOTH
async def test_where_workers_are(asked: Asked) -> None:
    """At an address of IPv6, and behind a prefix of paths that a proxy takes off."""
    paths = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.raw_path)
        return web.Response(text=NO_TOPOLOGIES)

    async with served(answer, "::1") as url:
        assert url.startswith("http://[::1]:")
        for prefix in ("", "/", "/ops/slide%20stat", "/ops/"):
            assert await asked(url + prefix) == []
    told = "/topologies"
    assert paths == [told, told, f"/ops/slide%20stat{told}", f"/ops{told}"]


@pytest.mark.asyncio
@BOTH
async def test_a_worker_that_does_not_answer(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told for how long it was waited."""
    for module in (client_module, query_module):
        monkeypatch.setattr(module, "PATIENCE_S", 0.2)

    async def hang(_request: web.Request) -> web.Response:
        await asyncio.sleep(2)
        raise web.HTTPNotFound

    async with served(hang) as url:
        with pytest.raises(SlidestatError, match=f"No worker answers at {url}: nothing within"):
            await asked(url)


@pytest.mark.asyncio
async def test_a_worker_that_is_started_again() -> None:
    """It is asked over a new connection, as if nothing had been; while it is away, an error is
    raised.
    """

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=NO_TOPOLOGIES)

    async with served(answer) as url:
        client = await Client(url).__aenter__()
        many = await asyncio.gather(*(client.topologies() for _ in range(150)))
        assert many == [[]] * 150
    with pytest.raises(SlidestatError, match="No worker answers"):
        await client.topologies()
    async with served(answer, port=URL(url).port or 0):
        assert await client.topologies() == []
        asked = asyncio.create_task(client.topologies())
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await client.topologies() == []
        await client.__aexit__()


def test_a_client_is_of_one_event_loop() -> None:
    """Which is told, as what is opened twice is; one that was closed may be opened in another."""
    client = Client("http://127.0.0.1:9")

    async def twice() -> None:
        async with client:
            with pytest.raises(SlidestatError, match="is open already"):
                await client.__aenter__()

    asyncio.run(twice())
    asyncio.run(twice())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.__aenter__())
    with pytest.raises(SlidestatError, match="opened in another event loop"):
        asyncio.run(client.topologies())
    loop.run_until_complete(client.__aexit__())
    loop.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", ["<html>Log in</html>", "{}", ""])
async def test_what_is_no_worker(answer: str) -> None:
    """Whatever it answers with, the address is to blame."""
    async with server(answer) as (url, _), Client(url) as client:
        with pytest.raises(SlidestatError, match="is no worker of slidestat"):
            await client.topologies()


@pytest.mark.asyncio
@BOTH
@pytest.mark.parametrize(
    ("status", "says", "advice"),
    [
        (404, "is no worker of slidestat: it answers with status 404", "URL that a worker prints"),
        (503, "answers with status 503, and not in a worker's words", "whether one runs behind it"),
        (520, "answers with status 520, and not in a worker's words", "whether one runs behind it"),
    ],
)
async def test_a_proxy_that_answers_itself(
    asked: Asked, status: int, says: str, advice: str
) -> None:
    """A proxy without a worker behind it is told from a wrong address."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, text="<html>nginx</html>", content_type="text/html")

    async with served(answer) as url:
        with pytest.raises(SlidestatError, match=says) as told:
            await asked(url)
    assert advice in told.value.advice


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [400, 414])
async def test_a_question_that_is_too_long(status: int) -> None:
    """A server that refuses it for that may well be a worker, or a proxy before one."""

    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=status, text="Got more than 8190 bytes")

    async with served(refuse) as url, Client(url) as client:
        with pytest.raises(SlidestatError, match=f"8,... char.*refuses it with status {status}"):
            await client.query("flights", "JFK", items=["a" * 160] * 48)
        with pytest.raises(SlidestatError, match=f"no worker of slidestat: .*{status}"):
            await client.query("flights", "JFK")


@pytest.mark.asyncio
async def test_what_answers_is_told_in_words() -> None:
    """An endless redirect, and what speaks another protocol."""

    async def back(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.path_qs)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        writer.close()

    async with served(back) as url, Client(url) as client:
        with pytest.raises(SlidestatError, match=f"No worker answers at {url}: TooManyRedirects"):
            await client.topologies()
    async with await asyncio.start_server(speak, LOOPBACK, 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with Client(f"http://{LOOPBACK}:{port}") as client:
            with pytest.raises(SlidestatError, match="Bad status line: Expected HTTP/") as told:
                await client.topologies()
    assert "\n" not in told.value.message


@pytest.mark.asyncio
async def test_a_client_that_is_closed_under_way() -> None:
    """Each question is told so, also one that waits for a connection; who cancels it is cancelled,
    and none of the others.
    """

    async def hang(_request: web.Request) -> web.Response:
        await asyncio.sleep(2)
        raise web.HTTPNotFound

    async with served(hang) as url:
        async with Client(url) as client:
            asked = [asyncio.create_task(client.topologies()) for _ in range(120)]
            await asyncio.sleep(0.3)
            asked[0].cancel()
            asked[119].cancel()
            await asyncio.sleep(0)
        cancelled, *told, last = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert isinstance(last, asyncio.CancelledError)
    (said,) = {str(it) for it in told}
    assert said.startswith(f"The client of {url} was closed before the answer came.")


@pytest.mark.asyncio
async def test_nothing_is_left_open() -> None:
    """Also where the question fails."""
    client = Client("http://127.0.0.1:9")
    with pytest.raises(SlidestatError, match="No worker answers at http") as away:
        async with client:
            await client.topologies()
    assert "slidestat run" in away.value.advice
    assert "ssl" not in away.value.message
    session = client._session
    assert isinstance(session, aiohttp.ClientSession)
    assert session.closed


@pytest.mark.asyncio
async def test_the_command_asks_as_the_client_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers, errors and redirects, without an event loop of its own."""
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "of-the-environment")

    async with server('{"topologies":[]}') as (url, shown), server(None, url) as (proxy, first):
        assert await by_command(url) == await by_command(proxy) == []
    assert first == ["Bearer of-the-environment"]
    assert shown == ["Bearer of-the-environment", ""]
    async with server("<html>Log in</html>") as (url, _):
        with pytest.raises(SlidestatError, match="is no worker of slidestat"):
            await by_command(url)
    async with serving_of(TOPOLOGY, {0: records("a", STRANGE)}) as [worker]:
        answer, body = await asyncio.to_thread(
            ask, worker.url, lambda client: client.query("orders", STRANGE)
        )
        assert answer.key == STRANGE
        assert body.startswith(b'{"topology":"orders"')
        with pytest.raises(SlidestatError, match="no key 'b'"):
            await asyncio.to_thread(ask, worker.url, lambda client: client.query("orders", "b"))
    with pytest.raises(SlidestatError, match=r"No worker answers at http://127.0.0.1:9: .*refused"):
        await by_command("http://127.0.0.1:9")
