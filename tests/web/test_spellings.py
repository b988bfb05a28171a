"""`slidestat query` says how else a text of `--where` is written, and which keys there are."""

import asyncio
import json

import pytest

from slidestat import Count, Distinct, Topology
from slidestat.cli.display.query import query
from slidestat.errors import SlidestatError
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import serving_of

RIDES = Topology(
    name="rides",
    source="events",
    span="1h",
    every="1m",
    statistics=(Distinct(field="user", by="seats"),),
)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("seats", "asked", "told"),
    [
        (1.0, "1", None),
        ("1", "1.0", "1 have seats=1."),
        ("NL", "nl", "1 have seats=NL"),
        ("NL", "BE", None),
        (1.0, "1.0", "1 have seats=1."),
        ("=", "1e999", None),
    ],
)
async def test_a_number_written_otherwise(
    seats: object, asked: str, told: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text that nothing has, and something has as a number of the same value or in another case;
    of others nothing is said.
    """
    event = json.dumps({"key": "k", "time": START_MS, "user": "u", "seats": seats}).encode()
    records = [Record(i, None, event, 0) for i in range(2)]
    async with serving_of(RIDES, {0: records}) as [worker]:
        await asyncio.to_thread(
            *(query, worker.url, "rides", "k", f"seats={asked}"), windows=["1h"], as_json=False
        )
    said = capsys.readouterr().err
    assert (said == "") is (told is None)
    assert told is None or f"nothing has seats={asked}, and {told}" in said


@pytest.mark.asyncio
async def test_a_key_that_is_not_there() -> None:
    """Whoever asks for one is told the most similar one, and some that there are."""
    topology = Topology(name="rides", source="rides", span="1h", every="1m", statistics=(Count(),))
    events = [
        Record(i, None, encode(key, START_MS + i, 1), 0)
        for i, key in enumerate(["a", "b", "c", "/checkout"])
    ]
    async with serving_of(topology, {0: events}) as [worker]:
        with pytest.raises(SlidestatError, match="no key 'K'") as told:
            await asyncio.to_thread(query, worker.url, "rides", "K", as_json=False)
        with pytest.raises(SlidestatError) as near:
            await asyncio.to_thread(query, worker.url, "rides", "/Chekout", as_json=False)
    assert told.value.advice.endswith(" Keys that are there: '/checkout', 'a', 'b'.")
    assert near.value.advice.startswith("Did you mean '/checkout'? A key is there from")
