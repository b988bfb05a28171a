"""What a worker of a referee answers over HTTP: as of a topology, and whose events are in it."""

import asyncio
from collections.abc import Sequence

import jsonschema
import pytest

from slidestat import TopologyDriver
from slidestat.admin.query import ask
from slidestat.cli.display.query import query
from slidestat.declare.referee import Referee
from slidestat.declare.statistics import Count, Quantiles
from slidestat.declare.topology import Topology
from slidestat.engine.publishing import SynopsisRecord
from slidestat.errors import SlidestatError
from slidestat.web.routes import openapi_document
from tests.engine.model import Record
from tests.web.serving import Answer, get, serving_of

MINUTE = 60_000
NOON = 1_764_072_000_000
KEYS = "/topologies/shop-global/keys"

SHOP = Topology(
    name="shop",
    source="orders",
    span="1h",
    every="1m",
    windows=("5m", "1h"),
    statistics=(Count(), Quantiles(epsilon=0.05)),
    publish=("hot", "warm"),
)
REFEREE = Referee(of=SHOP, patience="5m", windows=("1h",))

pytestmark = pytest.mark.asyncio


def sold(minutes: Sequence[tuple[int, int, str]], parties: int) -> dict[int, list[Record]]:
    """What two or more parties publish of sales (party, minute, key), by partition."""
    driver = TopologyDriver(SHOP, parties)
    for party, minute, key in minutes:
        event = {"key": key, "time": NOON + minute * MINUTE, "value": minute}
        driver.send(event, partition=party)
    found: dict[int, list[SynopsisRecord]] = {n: [] for n in range(parties)}
    for record in driver.published:
        found[record.partition].append(record)
    return {
        number: [Record(i, r.key, r.value, r.timestamp) for i, r in enumerate(records)]
        for number, records in found.items()
    }


# Of each party an hour's half, and then a sale that moves its watermark on.
BOTH = [
    *((minute % 2, minute, "hot") for minute in range(30)),
    (0, 31, "warm"),
    (1, 31, "warm"),
]
# The second party stops after ten minutes.
ONE = [
    *((minute % 2, minute, "hot") for minute in range(10)),
    *((0, minute, "hot") for minute in range(10, 31)),
]


def is_of_the_document(answer: Answer) -> bool:
    """Whether it is a KeyAnswer as the OpenAPI document has it."""
    components = openapi_document()["components"]
    jsonschema.validate(
        answer.json, {"$ref": "#/components/schemas/KeyAnswer", "components": components}
    )
    return answer.status == 200


async def test_a_key_over_all_parties_for_any_window() -> None:
    """Windows that no emission has, quantiles that nobody declared, over the events of both."""
    async with serving_of(REFEREE, sold(BOTH, 2)) as [worker]:
        path = f"{KEYS}/hot?window=10m&window=30m&statistic=count"
        answer = await get(worker.url, path)
        assert is_of_the_document(answer)
        body = answer.json
        assert (body["topology"], body["key"]) == ("shop-global", "hot")
        assert body["source_topic"] == "shop-synopses"
        assert body["window_end_ms"] == NOON + 31 * MINUTE
        assert body["parties"] == ["orders/0", "orders/1"]
        assert "absent" not in body
        figures = [(f["window_ms"], f["estimate"]) for f in body["figures"]]
        assert figures == [(10 * MINUTE, 9.0), (30 * MINUTE, 29.0)]
        quantiles = (await get(worker.url, f"{KEYS}/hot?quantile=0&quantile=1&window=1h")).json
        least, largest = quantiles["figures"][1:]
        assert (least["quantile"], least["estimate"]) == (0.0, 0.0)
        assert largest["quantile"] == 1.0
        assert largest["lower"] <= 29.0 <= largest["upper"]
        assert abs(largest["estimate"] - 29.0) <= largest["relative_error"] * 29.0
        ranked = await get(worker.url, f"{KEYS}/hot?rank=14.5&window=1h")
        assert is_of_the_document(ranked)
        (rank,) = ranked.json["ranks"]
        assert ranked.json["figures"] == []
        assert rank["at_most"]["lower"] <= 15 <= rank["at_most"]["upper"]
        assert rank["at_most"]["estimate"] + rank["more_than"]["estimate"] == 30.0
        declared = (await get(worker.url, f"{KEYS}/hot")).json["figures"]
        assert {figure["window_ms"] for figure in declared} == {60 * MINUTE}


async def test_who_is_absent_is_told() -> None:
    """Once the others are ahead by more than the patience: the answer is theirs, and says so."""
    async with serving_of(REFEREE, sold(ONE, 2)) as [worker]:
        answer = await get(worker.url, f"{KEYS}/hot?window=1h&statistic=count")
        assert is_of_the_document(answer)
        body = answer.json
        assert body["window_end_ms"] == NOON + 25 * MINUTE
        assert body["parties"] == ["orders/0"]
        assert body["absent"] == [{"party": "orders/1", "since_ms": NOON + 9 * MINUTE}]
        assert [figure["estimate"] for figure in body["figures"]] == [5.0 + 15.0]


async def test_any_worker_of_the_referee_answers_for_all() -> None:
    """Streams lie in partitions of the topic of synopses, as keys do in those of a source."""
    partitions = sold(BOTH, 2)
    assert all(partitions.values())
    async with serving_of(REFEREE, *({n: records} for n, records in partitions.items())) as workers:
        for worker in workers:
            for key in ("hot", "warm"):
                answer = await get(worker.url, f"{KEYS}/{key}")
                assert answer.status == (200 if key == "hot" else 404)
            assert (await get(worker.url, KEYS)).json["keys"] == ["hot"]
            (described,) = (await get(worker.url, "/topologies")).json["topologies"]
            assert described["source"] == "shop-synopses"
            assert described["span_ms"] == 60 * MINUTE
            assert described["windows"] == ["1h"]
            assert [s["name"] for s in described["statistics"]] == ["count", "quantile"]
            status = (await get(worker.url, "/topologies/shop-global/status")).json
            held = [p for each in status["workers"] for p in each["partitions"]]
            assert sum(p["keys"] for p in held) == 1
            assert {p["watermark_ms"] for p in held} == {NOON + 31 * MINUTE}
            assert (await get(worker.url, "/metrics")).status == 200


async def test_the_command_shows_who_is_absent(capsys: pytest.CaptureFixture[str]) -> None:
    """`slidestat query` of a referee: the figures' rows, then on standard error who is not in."""
    async with serving_of(REFEREE, sold(ONE, 2)) as [worker]:
        asked = {"windows": ["1h"], "statistics": ["count"]}
        await asyncio.to_thread(query, worker.url, "shop-global", "hot", as_json=False, **asked)
        with pytest.raises(SlidestatError, match="no key 'warm'"):
            await asyncio.to_thread(
                ask, worker.url, lambda client: client.query("shop-global", "warm")
            )
    shown = capsys.readouterr()
    assert shown.out.startswith("2025-11-25T12:25:00Z")
    assert " 1h count " in shown.out
    assert shown.err == "Without orders/1: it came to 2025-11-25T12:09:00Z.\n"


async def test_the_history_of_a_stream() -> None:
    """What the referee emitted of it, with whose events are in each."""
    async with serving_of(REFEREE, sold(ONE, 2)) as [worker]:
        emissions = (await get(worker.url, f"{KEYS}/hot/history")).json["emissions"]
        assert emissions[0]["parties"] == ["orders/0", "orders/1"]
        assert emissions[-1]["provisional"]
        assert emissions[-1]["absent"][0]["party"] == "orders/1"


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        (f"{KEYS}/hot?window=2h", 400, "longer than"),
        (f"{KEYS}/hot?statistic=cuont", 400, "Did you mean 'count'"),
        (f"{KEYS}/hot?quantile=2", 400, "quantile"),
        (f"{KEYS}/hot?rank=nan", 400, "no finite number"),
        (f"{KEYS}/hot?rank=1&statistic=count", 400, "cannot be asked for ranks"),
        (f"{KEYS}/cold", 404, "no key 'cold'"),
        (f"{KEYS}/warm", 404, "from its first answer on"),
        ("/topologies/shop/keys/hot", 404, "There is shop-global"),
    ],
)
async def test_what_cannot_be_answered(path: str, status: int, says: str) -> None:
    """The same errors as of a topology: what is wrong, and what to do."""
    async with serving_of(REFEREE, sold(BOTH, 2)) as [worker]:
        answer = await get(worker.url, path)
        assert answer.status == status
        assert says in answer.json["error"] + answer.json["advice"]
