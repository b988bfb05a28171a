"""The server of the Model Context Protocol, asked by the official client over standard streams."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import mcp
import pytest

from slidestat.admin import mcp_server
from slidestat.admin.mcp_server import tools
from slidestat.errors import SlidestatError
from tests.web.serving import serving_of
from tests.web.test_client import BUSY, STRANGE, records


@pytest.mark.asyncio
async def test_an_assistant_asks_a_worker() -> None:
    """Each tool only reads, answers with bounds in words, and tells an error with its advice; no
    line on standard output is anything else. A text that could be JSON is what it is, and null is
    what was left out.
    """
    of_json = ["null", "123", '["b"]']
    async with serving_of(BUSY, {0: records("b", STRANGE, *of_json)}) as [worker]:
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "slidestat", "mcp", "--url", worker.url],
            env=dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2] / "app")},
        )
        async with mcp.Client(server) as client:

            async def call(tool: str, **asked: Any) -> Any:
                result = await client.call_tool(tool, asked)
                return result.content[0].text if result.is_error else result.structured_content

            listed = (await client.list_tools()).tools
            assert {tool.name for tool in listed} == {it.__name__ for it in tools(worker.url)}
            assert all(tool.annotations.read_only_hint for tool in listed)
            assert not [tool.name for tool in listed if "  " in tool.description]
            assert "lower and an upper bound" in client.instructions
            assert (await call("list_topologies"))["topologies"][0]["name"] == "orders"
            assert (await call("list_keys", topology="orders", prefix="b"))["keys"] == ["b"]
            asked = {"topology": "orders", "windows": ["5m"], "statistics": ["count"]}
            (words,) = (await call("query", key=STRANGE, **asked))["in_words"]
            assert words.startswith("count ")
            assert words.endswith("] over 5m, and the exact figure is certainly within these")
            ranked = (await call("ranking", topology="orders", by="count_1h"))["in_words"]
            assert "at place 1 by the estimates, and between place 1 and place 5" in ranked[0]
            firing = await call("alerts", topology="orders")
            assert (firing["firing_keys"], firing["workers_not_counted"]) == ({"busy": 5}, [])
            assert await call("alerts", topology="orders", key=None) == firing
            (alert,) = (await call("alerts", topology="orders", key="b"))["alerts"]
            assert (alert["state"], alert["certainty"]) == ("firing", "certain")
            for key in of_json:
                found = await call("alerts", topology="orders", key=key)
                assert (found["key"], len(found["alerts"])) == (key, 1)
                answer = await call("query", topology="orders", key=key, windows='["5m"]', ago=None)
                assert (answer["key"], answer["figures"][0]["window_ms"]) == (key, 300_000)
            unasked = {"largest": None, "smallest": None, "having": None}
            answer = await call("ranking", topology="orders", by="count_1h", **unasked)
            assert answer["keys"] == 5
            unasked = {"prefix": None, "after": None}
            assert len((await call("list_keys", topology="orders", **unasked))["keys"]) == 5
            refusal = await call("query", topology="orders", key="b", ago="null")
            assert "ago is 'null', which is not a duration" in refusal
            refusal = await call("query", topology="orders", key="b", items=["a"])
            assert "neither counts of items nor top items" in refusal
            refusal = await call("query", topology="orders", key="b", windows=["2h"])
            assert "window is '2h'" in refusal
            assert "Ask for at most '1h'" in refusal
            refusal = await call("query", topology="orders", key="b", window="5m")
            assert "Extra inputs are not permitted" in refusal


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, None])
async def test_it_ends_when_it_is_asked_to(number: signal.Signals | None) -> None:
    """By a signal, though it waits for a line, or by the end of its input; without a word."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}}
    begin |= {"clientInfo": {"name": "test", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin}
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slidestat", "mcp", "--url", "http://127.0.0.1:9"),
        env=dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2] / "app")},
        **pipes,  # type: ignore[arg-type]
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(first).encode() + b"\n")
    assert json.loads(await server.stdout.readline())["id"] == 0
    if number is None:
        server.stdin.write_eof()
    else:
        server.send_signal(number)
    said = await asyncio.wait_for(server.communicate(), 30)
    assert said == (b"", b"")
    assert server.returncode == (0 if number is None else -number)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is told."""
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(SlidestatError, match="`slidestat mcp` needs packages") as missing:
        mcp_server.serve("http://127.0.0.1:6066")
    assert "slidestat[mcp]" in missing.value.advice


def test_tools_tell_models_what_bounds_are() -> None:
    """Each of those that answer with figures, in the words that a model reads."""
    told = {tool.__name__: tool.__doc__ or "" for tool in tools("http://127.0.0.1:6066")}
    assert "at least `lower` and at most `upper`" in " ".join(told["query"].split())
    assert "not before its `first_place`" in " ".join(told["ranking"].split())
    assert "bounds of its figures prove" in " ".join(told["alerts"].split())
    with pytest.raises(SlidestatError, match="No worker answers"):
        asyncio.run(tools("http://127.0.0.1:9")[0]())  # type: ignore[arg-type]
