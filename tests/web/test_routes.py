"""What a worker answers over HTTP, alone and as one of several."""

from collections.abc import Iterable
from urllib.parse import quote

import pytest

from slidestat.engine.view import PartitionView
from slidestat.errors import SlidestatError
from slidestat.options import LOOPBACK
from slidestat.web.address import WORKER_HEADER, listen
from slidestat.web.answers.parameters import MOST_PAIRS, MOST_VALUES
from slidestat.web.peers import Peers
from slidestat.web.routes import openapi_document
from tests.engine.model import Record
from tests.engine.streams import START_MS, encode
from tests.web.serving import Answer, Held, get, serving, start

KEYS = "/topologies/orders/keys"
AWKWARD = ["a/b", "\0", "..", ".", "%", "%2F", "+", " ", "?x=1&y=2", "#", "ключ", "\U0001f600" * 64]
AWKWARD += ["{name}", '"', "\\", "\ufffd", "\n", "a" * 256]

pytestmark = pytest.mark.asyncio


def is_error(answer: Answer, status: int) -> bool:
    """Whether it is an error of this status, with what is wrong and what to do."""
    assert answer.status == status, answer
    error = answer.json
    assert answer.headers["Content-Type"] == "application/json"
    return set(error) == {"error", "advice"} and all(error.values())


async def pages(url: str, query: str = "", limit: int = 2) -> list[str]:
    """All keys, page by page."""
    found: list[str] = []
    path = f"{KEYS}?limit={limit}&{query}"
    after = ""
    while True:
        page = (await get(url, path + after)).json
        assert len(page["keys"]) <= limit
        found += page["keys"]
        if page["next_after"] is None:
            return found
        assert page["next_after"] == page["keys"][-1]
        after = "&after=" + quote(page["next_after"], safe="")


async def test_a_key_is_answered_for_the_past() -> None:
    """The figures of windows that ended so long ago, and their end."""
    async with serving({0: ["c", "c", "c"]}) as [worker]:
        body = (await get(worker.url, f"{KEYS}/c?window=2ms&statistic=count&ago=2ms")).json
        assert body["window_end_ms"] == START_MS + 1
        assert [f["estimate"] for f in body["figures"]] == [1.0]


async def test_a_key_is_answered_for_any_window() -> None:
    """The figures that were asked for, of windows that end behind the newest event."""
    async with serving({0: ["a", "b"], 1: ["c", "c", "c"]}) as [worker]:
        path = f"{KEYS}/c?window=2ms&window=30m&statistic=count"
        answer = await get(worker.url, path)
        assert answer.status == 200
        body = answer.json
        assert (body["topology"], body["key"]) == ("orders", "c")
        assert (body["source_topic"], body["source_partition"]) == ("events", 1)
        assert body["window_end_ms"] == START_MS + 3
        assert body["next_offset"] == 3
        figures = [(f["statistic"], f["window_ms"], f["estimate"]) for f in body["figures"]]
        assert figures == [("count", 2, 2.0), ("count", 1_800_000, 3.0)]

        quantiles = (await get(worker.url, f"{KEYS}/c?quantile=0&quantile=1&window=1h")).json
        found = [(f["quantile"], f["estimate"]) for f in quantiles["figures"][1:]]
        assert found == [(0.0, 0.0), (1.0, pytest.approx(2.0, rel=0.01))]

        declared = (await get(worker.url, f"{KEYS}/c")).json["figures"]
        assert [figure["window_ms"] for figure in declared[:2]] == [60_000, 3_600_000]


async def test_the_rank_of_a_value_is_answered() -> None:
    """How many events are at most a value that nobody declared, how many more, over any window."""
    async with serving({0: ["a", "b"], 1: ["c"] * 8}) as [worker]:
        asked = "rank=2&rank=-0.5&rank=1e300&window=4ms&window=1h"
        body = (await get(worker.url, f"{KEYS}/c?{asked}")).json
        assert body["figures"] == []
        found = [
            (
                rank["window_ms"],
                rank["value"],
                *(rank[side]["estimate"] for side in ("at_most", "more_than", "share_at_most")),
            )
            for rank in body["ranks"]
        ]
        # The values are 0 to 7, a millisecond each; 2 and what is just above it have one bin.
        assert found == [
            (4, 2.0, 0.0, 4.0, 0.0),
            (4, -0.5, 0.0, 4.0, 0.0),
            (4, 1e300, 4.0, 0.0, 1.0),
            (3_600_000, 2.0, 2.5, 5.5, 2.5 / 8),
            (3_600_000, -0.5, 0.0, 8.0, 0.0),
            (3_600_000, 1e300, 8.0, 0.0, 1.0),
        ]
        of_two = body["ranks"][3]
        assert (of_two["at_most"]["lower"], of_two["at_most"]["upper"]) == (2.0, 3.0)
        assert (of_two["relative_error"], of_two["statistic"]) == (0.05, "quantile")
        assert 0.01 < of_two["value_error"] < 0.0203


async def test_any_worker_answers_for_all() -> None:
    """Each key is found, and each page is the same, whichever worker is asked."""
    async with serving({0: ["a", "e"], 3: ["b"]}, {1: ["c"]}, {2: ["d", "f", "g"]}) as workers:
        for worker in workers:
            for key in "abcdefg":
                answer = await get(worker.url, f"{KEYS}/{key}")
                assert answer.status == 200
                assert answer.json["key"] == key
            assert is_error(await get(worker.url, f"{KEYS}/h"), 404)
            for limit in (1, 2, 3, 7, 8):
                assert await pages(worker.url, limit=limit) == list("abcdefg")
            assert await pages(worker.url, "prefix=e") == ["e"]
            described = (await get(worker.url, "/topologies/orders")).json["workers"]
            held = [(w["url"], w["partitions"]) for w in described]
            expected = zip((w.url for w in workers), ([0, 3], [1], [2]), strict=True)
            assert sorted(held) == sorted(expected)


async def test_keys_of_any_characters() -> None:
    """Slashes, dots, escapes, unicode and NUL: found here and elsewhere, and listed in order."""
    async with serving({0: AWKWARD[::2]}, {1: AWKWARD[1::2]}) as workers:
        for worker in workers:
            for key in AWKWARD:
                answer = await get(worker.url, f"{KEYS}/{quote(key, safe='')}")
                assert answer.status == 200, key
                assert answer.json["key"] == key
            assert await pages(worker.url, limit=5) == sorted(AWKWARD)
            for key in AWKWARD:
                found = await pages(worker.url, f"prefix={quote(key, safe='')}")
                assert found == sorted(k for k in AWKWARD if k.startswith(key))


async def test_a_key_may_be_in_the_query() -> None:
    """Browsers take "." and ".." in a path for folders; here as there, any key will do."""
    keys = [*AWKWARD, ".", ".."]
    async with serving({0: keys[::2]}, {1: keys[1::2]}) as workers:
        for worker in workers:
            for key in keys:
                asked = f"{KEYS.removesuffix('s')}?key={quote(key, safe='')}"
                answer = await get(worker.url, f"{asked}&window=5m")
                assert answer.status == 200, key
                assert answer.json["key"] == key
                assert {figure["window_ms"] for figure in answer.json["figures"]} == {300_000}
        plus = await get(workers[0].url, f"{KEYS.removesuffix('s')}?key=not+there")
        assert "'not there'" in plus.json["error"]
        for query in ("", "?key=", "?key", "?key=a&key=b", "?key=%ff", "?key=%", "?key=a&k=b"):
            assert is_error(await get(workers[0].url, f"{KEYS.removesuffix('s')}{query}"), 400)


async def test_one_worker_asks_another_only_once() -> None:
    """A request that names the worker is answered from what it has; one that names another worker
    is not answered at all.
    """
    async with serving({0: ["a"]}, {1: ["b"]}) as [one, other]:
        here = {WORKER_HEADER: one.address.worker}
        assert (await get(one.url, f"{KEYS}/a", headers=here)).status == 200
        assert is_error(await get(one.url, f"{KEYS}/b", headers=here), 404)
        assert (await get(one.url, KEYS, headers=here)).json["keys"] == ["a"]
        there = {WORKER_HEADER: other.address.worker}
        assert is_error(await get(one.url, f"{KEYS}/a", headers=there), 421)
        answer = await get(one.url, f"{KEYS}/b")
        assert answer.headers[WORKER_HEADER] == one.address.worker


async def test_the_history_of_a_key() -> None:
    """What was emitted of it, in order, from whichever worker has the key; 404 for others."""
    async with serving({0: ["a"]}, {1: ["b"]}) as [one, other]:
        held = other.live.held
        assert isinstance(held, Held)
        later = [Record(i, None, encode("b", START_MS + i * 60_000, 1), 0) for i in (2, 3, 4)]
        held.take(1, later)
        for worker in (one, other):
            body = (await get(worker.url, f"{KEYS}/b/history")).json
            assert (body["topology"], body["key"]) == ("orders", "b")
            ends = [emission["window_end_ms"] for emission in body["emissions"]]
            # Of three events, and of the window that emptied after the first.
            assert len(ends) == 4
            assert ends == sorted(ends)
            assert {emission["key"] for emission in body["emissions"]} == {"b"}
            assert (await get(worker.url, f"{KEYS}/a/history")).json["emissions"] == []
            assert is_error(await get(worker.url, f"{KEYS}/c/history"), 404)
        assert is_error(await get(one.url, f"{KEYS}/a/history?limit=1"), 400)
        assert is_error(await get(one.url, f"{KEYS}/%FF/history"), 400)


async def test_partitions_that_are_being_restored() -> None:
    """503 until they are there: from the worker itself, and from one that needs its answer."""
    async with serving({0: ["a"]}, {1: ["b"]}) as [one, other]:
        other.live.not_ready()
        for path in (f"{KEYS}/a", KEYS, "/readyz"):
            answer = await get(other.url, path)
            assert is_error(answer, 503)
            assert answer.headers["Retry-After"] == "1"
        assert (await get(other.url, "/healthz")).status == 200
        assert (await get(one.url, f"{KEYS}/a")).status == 200
        assert is_error(await get(one.url, f"{KEYS}/b"), 503)
        assert is_error(await get(one.url, KEYS), 503)
        other.live.ready([1])
        assert (await get(one.url, f"{KEYS}/b")).status == 200


async def test_a_worker_whose_brokers_are_away_is_not_ready() -> None:
    """Its answers are of what it has read before, which it says to a probe alone."""
    async with serving({0: ["a"]}) as [one]:
        one.live.is_up_to_date = False
        assert is_error(await get(one.url, "/readyz"), 503)
        assert (await get(one.url, "/healthz")).status == 200
        assert (await get(one.url, f"{KEYS}/a")).status == 200
        one.live.is_up_to_date = True
        assert (await get(one.url, "/readyz")).status == 200


async def test_a_rebalance_during_the_search_is_told() -> None:
    """A partition that moves meanwhile could be missed by all: 503, not 404."""
    async with serving({0: ["a"]}, {1: ["b"]}) as [one, other]:
        views = other.live.views

        def moving() -> list[PartitionView]:
            one.live.not_ready()
            one.live.ready([0])
            return views()[:0]

        other.live.views = moving  # type: ignore[method-assign]
        assert is_error(await get(one.url, f"{KEYS}/b"), 503)
        assert is_error(await get(one.url, KEYS), 503)


async def test_a_worker_that_is_gone() -> None:
    """What only it can tell is 503, also when another process has taken its port; what others have
    is answered.
    """
    async with serving({0: ["a"]}, {1: ["b"]}, {2: ["c"]}) as [one, gone, _]:
        port = gone.address.listener.getsockname()[1]
        await gone.runner.cleanup()
        for is_taken in (False, True):
            if is_taken:
                address = listen(LOOPBACK, port)
                peers = Peers(address, dict)
                other = await start(address, gone.live, peers)
            assert (await get(one.url, f"{KEYS}/c")).status == 200
            assert is_error(await get(one.url, f"{KEYS}/b"), 503)
            assert is_error(await get(one.url, KEYS), 503)
        await other.runner.cleanup()


async def test_a_key_in_two_partitions() -> None:
    """Producers that spread a key over partitions: 409 says where, here and elsewhere."""
    async with serving({0: ["a"], 1: ["a"]}, {2: ["b"]}, {3: ["b"]}) as [one, *_]:
        for key in "ab":
            answer = await get(one.url, f"{KEYS}/{key}")
            assert is_error(answer, 409)
            assert "several places" in answer.json["error"]


async def test_a_damaged_state_is_told_without_a_trace() -> None:
    """An error of the store is 500 with its advice; one that nobody foresaw says nothing inside."""
    async with serving({0: ["a"]}) as [worker]:

        def damaged() -> list[PartitionView]:
            raise SlidestatError("A stored key state is damaged.", "Delete the folder.")

        worker.live.views = damaged  # type: ignore[method-assign]
        answer = await get(worker.url, f"{KEYS}/a")
        assert is_error(answer, 500)
        assert answer.json["advice"] == "Delete the folder."

        def broken() -> Iterable[PartitionView]:
            raise ZeroDivisionError("secret")

        worker.live.views = broken  # type: ignore[method-assign,assignment]
        answer = await get(worker.url, f"{KEYS}/a")
        assert is_error(answer, 500)
        assert b"secret" not in answer.body


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (f"{KEYS}/a?window=2h", "window"),
        (f"{KEYS}/a?window=", "window"),
        (f"{KEYS}/a?window=5%20events", "window"),
        (f"{KEYS}/a?statistic=sum", "statistic"),
        (f"{KEYS}/a?quantile=x", "quantile"),
        (f"{KEYS}/a?quantile=2", "quantile"),
        (f"{KEYS}/a?quantile=nan", "quantile"),
        (f"{KEYS}/a?quantile=0.5&statistic=count", "quantile"),
        (f"{KEYS}/a?rank=x", "rank is 'x', which is no number"),
        (f"{KEYS}/a?rank=", "rank is '', which is no number"),
        (f"{KEYS}/a?rank=nan", "rank is nan, which is no finite number"),
        (f"{KEYS}/a?rank=-inf", "rank is -inf, which is no finite number"),
        (f"{KEYS}/a?rank=" + "9" * 5_000, "rank is inf, which is no finite number"),
        (f"{KEYS}/a?rank=1" + "x" * 5_000, "and so on, which is no number"),
        (f"{KEYS}/a?rank=1&statistic=count", "'count', which cannot be asked for ranks"),
        (f"{KEYS}/a?rank=1&quantile=0.5", "quantile and rank are given together"),
        (f"{KEYS}/a?rank=1&where=country=NL", "where and rank are given together"),
        (f"{KEYS}/a?" + "window=5m&" * 11 + "rank=5&" * 46, "506 ranks"),
        (f"{KEYS}/a?where=country=NL", "no distinct items by a field"),
        (f"{KEYS}/a?where=a=1&where=b=2", "where is given 2 times"),
        (f"{KEYS}/a?where=", "no distinct items by a field"),
        (f"{KEYS}/a?ago=yesterday", "not a duration"),
        (f"{KEYS}/a?ago=1h&ago=2h", "ago is given 2 times"),
        (f"{KEYS}/a?window=1m&ago=9999h", "the windows begin before"),
        (f"{KEYS}/a?ago=-1h", "not a duration"),
        (f"{KEYS}/a?windows=5m", "Did you mean window?"),
        (f"{KEYS}/a?" + "window=5m&" * 51, "window is given 51 times"),
        (f"{KEYS}/a?" + "window=5m&" * 501, "500 parameters"),
        (f"{KEYS}/a?" + "window=5m&" * 11 + "quantile=0.5&" * 46, "506 quantiles"),
        (f"{KEYS}/a?window=%FF", "UTF-8"),
        (f"{KEYS}/a?window=%G", "escape"),
        (f"{KEYS}/%FF", "UTF-8"),
        (f"{KEYS}/%ED%A0%80", "UTF-8"),
        (f"{KEYS}?limit=0", "limit"),
        (f"{KEYS}?limit=1001", "limit"),
        (f"{KEYS}?limit=-1", "limit"),
        (f"{KEYS}?limit=%D9%A1", "limit"),
        (f"{KEYS}?limit=1&limit=2", "limit is given 2 times"),
        (f"{KEYS}?after=" + "a" * 257, "after"),
        (f"{KEYS}?window=5m", "window"),
        ("/topologies?limit=1", "limit"),
        ("/healthz?verbose=1", "verbose"),
    ],
)
async def test_bad_parameters(path: str, says: str) -> None:
    """400, with what is wrong by its name, whether or not there is such a key."""
    async with serving({0: ["a"]}) as [worker]:
        answer = await get(worker.url, path)
        assert is_error(answer, 400)
        assert says in answer.json["error"] + answer.json["advice"]
        assert len(answer.body) < 500
        assert "\n" not in answer.json["error"] + answer.json["advice"]


async def test_as_many_windows_and_quantiles_as_the_document_says() -> None:
    """Both are answered at the limit."""
    async with serving({0: ["a"]}) as [worker]:
        windows = "&".join(f"window={n}s" for n in range(1, 1 + MOST_PAIRS // MOST_VALUES))
        shares = "&".join(f"quantile={n / 100}" for n in range(MOST_VALUES))
        answer = await get(worker.url, f"{KEYS}/a?statistic=quantile&{windows}&{shares}")
        assert answer.status == 200
        assert len(answer.json["figures"]) == MOST_PAIRS


async def test_nothing_is_written() -> None:
    """Every method but GET and HEAD is 405, and says which there are."""
    async with serving({0: ["a"]}) as [worker]:
        for path in ("/healthz", "/topologies", KEYS, f"{KEYS}/a"):
            for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                answer = await get(worker.url, path, method=method)
                assert is_error(answer, 405)
                assert answer.headers["Allow"] == "GET,HEAD"
        assert (await get(worker.url, f"{KEYS}/a", method="HEAD")).body == b""


async def test_unknown_places() -> None:
    """404 for topologies and paths that are not there; Faust's own pages are not either."""
    async with serving({0: ["a"]}) as [worker]:
        for path in ("/table/", "/router/", "/stats/", f"{KEYS}/", "/topologies/other/keys"):
            assert is_error(await get(worker.url, path), 404)


async def test_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one, everything but the probes needs it, also between workers; without one, only names
    of this machine are answered.
    """
    async with serving({0: ["a"]}) as [worker]:
        port = worker.url.rpartition(":")[2]
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert (await get(worker.url, KEYS, headers={"Host": host})).status == 200
        for host in ("evil.example", f"evil.example:{port}", "10.0.0.1", "a b", ""):
            assert is_error(await get(worker.url, KEYS, headers={"Host": host}), 403)

    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "s3cret-Token==")
    async with serving({0: ["a"]}, {1: ["b"]}) as [worker, _]:
        for shown in (
            "",
            "s3cret-Token==",
            "Bearer",
            "Bearer s3cret-Token=",
            "Basic s3cret-Token==",
        ):
            answer = await get(worker.url, KEYS, headers={"Authorization": shown} if shown else {})
            assert is_error(answer, 401)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert (await get(worker.url, "/readyz")).status == 200
        assert is_error(await get(worker.url, "/nowhere"), 401)
        for shown in ("Bearer s3cret-Token==", "bearer  s3cret-Token=="):
            for key in "ab":
                answer = await get(worker.url, f"{KEYS}/{key}", headers={"Authorization": shown})
                assert answer.status == 200


async def test_the_token_for_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that there is to GET is answered, also by other workers; who bears it changes nothing,
    whatever there may be to change, and is no worker.
    """
    assert {method for it in openapi_document()["paths"].values() for method in it} == {"get"}
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "s3cret")
    monkeypatch.setenv("SLIDESTAT_WEB_VIEW_TOKEN", "view")
    looks = {"Authorization": "Bearer view"}
    async with serving({0: ["a"]}, {1: ["b"]}) as [worker, other]:
        for path in (f"{KEYS}/a", f"{KEYS}/b", KEYS, "/topologies", "/metrics", "/openapi.json"):
            assert (await get(worker.url, path, headers=looks)).status == 200
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert is_error(await get(worker.url, KEYS, method=method, headers=looks), 403)
        for name in (other.address.worker, worker.address.worker):
            posed = looks | {"Slidestat-Worker": name}
            assert is_error(await get(worker.url, KEYS, headers=posed), 403)
        assert is_error(await get(worker.url, KEYS, headers={"Authorization": "Bearer vie"}), 401)
        own = {"Authorization": "Bearer s3cret", "Slidestat-Worker": worker.address.worker}
        assert (await get(worker.url, KEYS, headers=own)).status == 200
