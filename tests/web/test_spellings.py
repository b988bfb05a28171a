"""`slidestat query --where` says where the text is written otherwise."""

import asyncio
import json

import pytest

from slidestat import Distinct, Topology
from slidestat.cli.display.query import query
from tests.engine.model import Record
from tests.engine.streams import START_MS
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
            *(query, worker.url, "rides", "k", ["1h"], [], []), f"seats={asked}", as_json=False
        )
    said = capsys.readouterr().err
    assert (said == "") is (told is None)
    assert told is None or f"nothing has seats={asked}, and {told}" in said
