"""What is said of a key's alerts: by the worker's answers, and by `slidestat query`."""

import asyncio
from dataclasses import replace

import pytest

from slidestat.cli.display.query import query
from slidestat.declare.alerts import Alert
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, get, serving_of

ALERTING = replace(
    TOPOLOGY,
    alerts=(
        Alert(name="many", when="count >= 10", window="1m"),
        Alert(
            name="often",
            when="count >= 10",
            window="1m",
            for_=100,
            severity="page",
            labels={"team": "shop", "area": "till"},
            annotations={"description": "Too many orders."},
            runbook="https://wiki.example.com/often",
        ),
        Alert(name="never", when="count > 1000000000", window="1m"),
    ),
)


@pytest.mark.asyncio
async def test_a_key_says_which_alerts_fire(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that fire or are pending, and of another key none; how many keys fire, by worker."""
    minute = (START_MS // 60_000 + 1) * 60_000
    times = [minute + 1_000 * i for i in range(70)]
    records = [Record(i, None, encode("a", time, 1), 0) for i, time in enumerate(times)]
    records.append(Record(len(times), None, encode("b", times[-1], 1), 0))
    async with serving_of(ALERTING, {0: records}) as [worker]:
        told = (await get(worker.url, "/topologies/orders/keys/a")).json
        other = (await get(worker.url, "/topologies/orders/keys/b")).json
        status = (await get(worker.url, "/topologies/orders/status")).json
        await asyncio.to_thread(query, worker.url, "orders", "a", as_json=False)
    since = {"certainty": "certain", "since_ms": minute + 60_000}
    assert told["alerts"] == [
        {"alert": "many", "state": "firing", **since},
        {
            "alert": "often",
            "state": "pending",
            **since,
            "severity": "page",
            "labels": {"area": "till", "team": "shop"},
            "annotations": {"description": "Too many orders."},
            "runbook": "https://wiki.example.com/often",
        },
    ]
    assert "alerts" not in other
    assert status["workers"][0]["firing"] == {"many": 1, "often": 0, "never": 0}
    errors = capsys.readouterr().err
    assert "The alert many: firing, certain, since 20" in errors
    assert "What to do: https://wiki.example.com/often" in errors
