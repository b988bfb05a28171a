"""Metrics: what was sent is what is counted, and every name is there from the start."""

import time
from collections.abc import Iterable
from dataclasses import replace

import aiohttp
import pytest
from multidict import CIMultiDict
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from slidestat.repartition.moved_from import Behind
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import TOPOLOGY, Answer, Held, get, serving, serving_of

pytestmark = pytest.mark.asyncio

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(families: Iterable[Metric]) -> Samples:
    """Each sample by its name and labels."""
    found: Samples = {}
    for family in families:
        for sample in family.samples:
            place = (sample.name, frozenset(sample.labels.items()))
            assert place not in found, place
            found[place] = sample.value
    return found


def of(found: Samples, name: str, **labels: str) -> float:
    """The one sample of the topology with this name and these labels."""
    return found[name, frozenset({"topology": TOPOLOGY.name, **labels}.items())]


def read(answer: Answer) -> Samples:
    assert answer.status == 200
    return samples(plain_text(answer.body.decode()))


def event(offset: int, key: str, time_ms: int) -> Record:
    return Record(offset, None, encode(key, time_ms, 1), 0)


async def test_records_are_counted_once_by_outcome() -> None:
    """records = counted + dead + late + repeated, of what each fetch brought; reasons add up to the
    letters; keys are those with a state.
    """
    async with serving({0: [], 1: ["a", "b"]}) as [worker]:
        held = worker.live.held
        assert isinstance(held, Held)
        one = [event(0, "a", START_MS), event(1, "c", START_MS + 900)]
        held.take(0, [*one, Record(2, None, b"no json", 0), event(3, "a", START_MS)])
        held.take(0, [event(2, "a", START_MS), event(4, "c", START_MS + 950)])
        held.flush()
        found = read(await get(worker.url, "/metrics"))
        outcomes = {
            outcome: of(found, "slidestat_records_total", partition="0", outcome=outcome)
            for outcome in ("counted", "dead", "late", "repeated")
        }
        assert outcomes == {"counted": 3, "dead": 1, "late": 1, "repeated": 1}
        assert of(found, "slidestat_refused_records_total", reason="not-json") == 1
        assert of(found, "slidestat_refused_records_total", reason="late") == 1
        assert of(found, "slidestat_batches_total", partition="0") == 2
        assert of(found, "slidestat_batches_total", partition="1") == 1
        assert of(found, "slidestat_keys", partition="0") == 2
        assert of(found, "slidestat_keys", partition="1") == 2
        assert of(found, "slidestat_lag_records", partition="0") == 0
        mark = of(found, "slidestat_watermark_timestamp_seconds", partition="0")
        assert mark == (START_MS + 950) / 1000
        assert of(found, "slidestat_ready") == 1
        assert of(found, "slidestat_changelog_records_total") == 7
        assert of(found, "slidestat_changelog_bytes_total") == 700
        # 1 for a, 1 for c in the first batch, then c again, in memory by now; a's last event of the
        # second batch had been read before.
        assert of(found, "slidestat_key_lookups_total", partition="0", result="miss") == 2
        assert of(found, "slidestat_key_lookups_total", partition="0", result="hit") >= 1
        spent = of(found, "slidestat_processing_seconds_total", partition="0")
        assert 0 < of(found, "slidestat_kernel_seconds_total", partition="0") <= spent
        assert ("process_resident_memory_bytes", frozenset()) in found


async def test_what_is_published_is_told_of_topologies_that_publish() -> None:
    """Records and bytes for a referee, 0 at first; nothing of a topology that has none."""
    names = ("slidestat_synopsis_records_total", "slidestat_synopsis_bytes_total")
    parties = replace(TOPOLOGY, publish=("a",))
    async with serving({0: ["a"]}) as [alone], serving_of(parties, {0: []}) as [party]:
        found = read(await get(alone.url, "/metrics"))
        assert not [name for name, _ in found if name in names]
        found = read(await get(party.url, "/metrics"))
        assert [of(found, name) for name in names] == [0, 0]
        party.live.held.observed.published(3, 300)
        party.live.held.observed.published(1, 50)
        found = read(await get(party.url, "/metrics"))
        assert [of(found, name) for name in names] == [4, 350]


async def test_an_emission_waits_until_it_is_acknowledged() -> None:
    """The latency of each emission is in exactly one bucket once the broker has it, and not before;
    buckets are cumulative.
    """
    async with serving({0: []}) as [worker]:
        held = worker.live.held
        assert isinstance(held, Held)
        held.take(0, [event(i, key, START_MS + i) for i, key in enumerate("abc")])
        held.take(0, [event(3 + i, "a", START_MS + 61_000) for i in range(4)])
        found = read(await get(worker.url, "/metrics"))
        assert of(found, "slidestat_emissions_total", partition="0") == 3
        assert of(found, "slidestat_emission_latency_seconds_count") == 0
        held.flush()
        found = read(await get(worker.url, "/metrics"))
        assert of(found, "slidestat_emission_latency_seconds_count") == 3
        assert of(found, "slidestat_emission_latency_seconds_bucket", le="+Inf") == 3
        buckets = [
            (float(dict(labels)["le"]), value)
            for (name, labels), value in found.items()
            if name == "slidestat_emission_latency_seconds_bucket"
        ]
        counts = [count for _, count in sorted(buckets)]
        assert counts == sorted(counts)
        assert of(found, "slidestat_emission_latency_seconds_sum") > 0
        assert of(found, "slidestat_flushes_total") == 1


async def test_openmetrics_on_request() -> None:
    """Prometheus asks for OpenMetrics, and gets the same figures in a form that a strict parser
    reads to its end.
    """
    async with serving({0: ["a"]}) as [worker]:
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        answer = await get(worker.url, "/metrics", headers=accept)
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        found = samples(open_metrics(answer.body.decode()))
        assert of(found, "slidestat_records_total", partition="0", outcome="counted") == 2


OPEN = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ((), "text/plain; version=0.0.4"),
        (("*/*",), "text/plain; version=0.0.4"),
        (("application/json",), "text/plain; version=0.0.4"),
        ((";;,=,",), "text/plain; version=0.0.4"),
        # Versions that there are not, or that are none.
        ((f"{OPEN}; version=2.0.0",), "text/plain; version=0.0.4"),
        ((f"{OPEN}; version=new",), "text/plain; version=0.0.4"),
        (("text/plain; version=new",), "text/plain; version=0.0.4"),
        # What Prometheus 2.30 sends, and Prometheus 3.
        (
            (f"{OPEN}; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",),
            "text/plain; version=0.0.4",
        ),
        (
            (
                f"{OPEN};version=1.0.0;escaping=allow-utf-8;q=0.6,{OPEN};version=0.0.1;q=0.5,"
                "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3",
            ),
            f"{OPEN}; version=1.0.0",
        ),
        # Weights, in any order; none is wanted, or no weight.
        (
            (f"{OPEN};version=1.0.0;q=0.2, text/plain;version=0.0.4;q=0.9",),
            "text/plain; version=0.0.4",
        ),
        (("text/plain;q=0.2", f"{OPEN}; Version=1.0.0; Q=0.3"), f"{OPEN}; version=1.0.0"),
        ((f"{OPEN};q=0",), "text/plain; version=0.0.4"),
        ((f"{OPEN};q=nan",), "text/plain; version=0.0.4"),
        (('Application/OpenMetrics-Text; version="1.0.0"',), f"{OPEN}; version=1.0.0"),
    ],
)
async def test_a_scraper_gets_what_it_would_rather_have(
    accept: tuple[str, ...], content_type: str
) -> None:
    """Of the formats that there are, at each address that has metrics; text if it names none."""
    asked = CIMultiDict([("Accept", it) for it in accept])
    async with serving({0: ["a"]}) as [worker]:
        for path in (
            "/metrics",
            f"/topologies/{TOPOLOGY.name}/metrics?key=a",
            f"/topologies/{TOPOLOGY.name}/ranking/metrics?by=count_1h",
        ):
            answer = await get(worker.url, path, headers=asked)
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith(content_type)
            read_as = open_metrics if content_type.startswith(OPEN) else plain_text
            assert samples(read_as(answer.body.decode()))


async def test_a_partition_that_moved_away() -> None:
    """While partitions move their gauges are left out; what was counted stays, so that rates do."""
    async with serving({0: ["a"]}) as [worker]:
        worker.live.not_ready()
        found = read(await get(worker.url, "/metrics"))
        assert of(found, "slidestat_ready") == 0
        assert of(found, "slidestat_records_total", partition="0", outcome="counted") == 2
        assert not [name for name, _ in found if name == "slidestat_keys"]


async def test_metrics_need_the_token_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """401 without it; the page itself is open, and says nothing of the data."""
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "s3cret-Token==")
    async with serving({0: ["a"]}) as [worker]:
        assert (await get(worker.url, "/metrics")).status == 401
        shown = {"Authorization": "Bearer s3cret-Token=="}
        assert (await get(worker.url, "/metrics", headers=shown)).status == 200
        assert (await get(worker.url, "/")).status == 200
        assert (await get(worker.url, "/topologies/orders/status")).status == 401


async def test_the_status_of_all_workers() -> None:
    """Any worker tells of all: those that are ready with their partitions, those that are restoring
    their states, and those that cannot be reached.
    """
    async with serving({0: ["a"], 2: ["b"]}, {1: ["c"]}, {3: []}) as [one, other, gone]:
        other.live.not_ready()
        gone_url = gone.url
        await gone.runner.cleanup()
        status = (await get(one.url, "/topologies/orders/status")).json
        workers = {worker["url"]: worker for worker in status["workers"]}
        states = {url: worker["state"] for url, worker in workers.items()}
        assert states == {one.url: "ready", other.url: "restoring", gone_url: "unreachable"}
        partitions = workers[one.url]["partitions"]
        assert [(p["partition"], p["keys"], p["next_offset"]) for p in partitions] == [
            *((0, 1, 2), (2, 1, 2))
        ]
        assert workers[other.url]["partitions"] == []


async def test_the_page_and_its_files() -> None:
    """Each file has its type and the policy; one that has not changed is not sent again; nothing
    else can be had by its path.
    """
    async with serving({0: ["a"]}) as [worker], aiohttp.ClientSession() as session:
        for path, kind in (
            ("/", "text/html"),
            ("/static/main.js", "text/javascript"),
            ("/static/page.css", "text/css"),
            ("/static/icon.svg", "image/svg+xml"),
            ("/static/vendor/uplot/uPlot.esm.js", "text/javascript"),
        ):
            answer = await get(worker.url, path)
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith(kind)
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            known = {"If-None-Match": answer.headers["ETag"]}
            async with session.get(worker.url + path, headers=known) as again:
                assert again.status == 304
        for path in ("/static/", "/static/../page.py", "/static/%2e%2e/page.py", "/static/x.js"):
            assert (await get(worker.url, path)).status == 404
        assert (await get(worker.url, "/static//etc/passwd")).status == 404


async def test_what_is_not_moved_yet() -> None:
    """Of all sources together, and of each; without a time where nothing of the rest is here."""
    async with serving({0: []}) as [worker]:
        held = worker.live.held
        assert isinstance(held, Held)
        assert not [it for it in read(await get(worker.url, "/metrics")) if "repartition" in it[0]]
        written = round(1000 * time.time()) - 60_000
        held.moves = {"eu": Behind(3, written), "us": Behind(4, None)}
        found = read(await get(worker.url, "/metrics"))
        lag = "slidestat_repartition_source_lag"
        assert of(found, "slidestat_repartition_lag_records") == 7
        assert of(found, f"{lag}_records", source="eu") == 3
        assert of(found, f"{lag}_records", source="us") == 4
        assert 60 <= of(found, "slidestat_repartition_lag_seconds") < 600
        assert 60 <= of(found, f"{lag}_seconds", source="eu") < 600
        assert sum(name == f"{lag}_seconds" for name, _ in found) == 1
