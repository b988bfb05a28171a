"""The live page in a real browser: what a person sees and does, and what it must never do."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen
from zoneinfo import ZoneInfo

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from slidestat.declare.slos import Slo
from slidestat.declare.statistics import Count, Mean, TopItems
from slidestat.declare.topology import Topology
from slidestat.errors import SlidestatError
from slidestat.repartition.moved_from import Behind
from tests.web.browser import Browser
from tests.web.page_server import SHOP, Shop, shop

HOSTILE = [
    "<img src=x onerror=document.title='owned'>",
    "</script><script>document.title='owned'</script>",
    "javascript:document.title='owned'",
    "\" autofocus onfocus=\"document.title='owned'",
    "\u202egnp.exe",
    "a/b?c#d&e=%41",
    "x" * 256,
]


def page(worker: Shop, key: str = "", more: str = "") -> str:
    return f"{worker.url}/#/shop/{quote(key, safe='')}{more}" if key else f"{worker.url}/"


@contextmanager
def below(
    prefix: str,
    url: str,
    instead: Callable[[str], tuple[int, dict[str, str]] | None] = lambda _: None,
) -> Iterator[str]:
    """A proxy that has a worker's answers below a path of its own; the address of that path. Where
    there is something `instead`, it answers with that status and a page.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            if (own := instead(self.path)) is not None:
                status, headers = own
                self.send_response(status)
                for name, value in (headers | {"Content-Type": "text/html"}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            try:
                answer = urlopen(url + self.path.removeprefix(prefix))  # noqa: S310  # http
            except HTTPError as error:
                answer = error
            with answer:
                body = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        thread = Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}{prefix}/"
        finally:
            proxy.shutdown()
            thread.join()


def test_the_page_below_a_path_of_a_proxy(browser: Browser, worker: Shop) -> None:
    """All that it loads and asks is below that path."""
    worker.sell(["a"] * 20)
    with below("/tools/slidestat", worker.url) as url:
        browser.open(url)
        browser.until(lambda: browser.texts("#keys button") == ["a"], "the key")
        browser.find("#keys button").click()
        browser.until(lambda: "count" in figures(browser), "figures")
        browser.until(lambda: browser.text("#connection") != "asking the worker", "the state")
        browser.close()


def figures(browser: Browser) -> dict[str, list[str]]:
    """The table of figures: name to estimate, lower, upper and promise."""
    rows = browser.script(
        "return [...document.querySelectorAll('#figures tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return {name: rest for name, *rest in rows}


def test_keys_are_found_and_turned_over(browser: Browser, worker: Shop) -> None:
    """Keys come page by page, in order; those that begin with what is typed are shown, and a new
    one appears by itself.
    """
    worker.sell([f"item-{i:03}" for i in range(70)] + ["other"])
    browser.open(page(worker))
    browser.until(lambda: len(browser.texts("#keys button")) == 50, "a page of 50 keys")
    assert browser.texts("#keys button") == [f"item-{i:03}" for i in range(50)]
    browser.find("#keys-next").click()
    browser.until(lambda: browser.texts("#keys button")[-1:] == ["other"], "the second page")
    assert not browser.find("#keys-next").is_enabled()
    browser.find("#keys-first").click()
    browser.until(lambda: len(browser.texts("#keys button")) == 50, "the first page again")

    browser.find("#prefix").send_keys("item-06")
    expected = [f"item-06{i}" for i in range(10)]
    browser.until(lambda: browser.texts("#keys button") == expected, "the keys of a prefix")
    browser.find("#prefix").send_keys("9x")
    browser.until(lambda: browser.text("#keys-error") == "No key begins so.", "no such key")
    worker.sell(["item-069x"])
    browser.until(lambda: browser.texts("#keys button") == ["item-069x"], "the new key")


def test_keys_are_ranked_by_a_figure(browser: Browser, worker: Shop) -> None:
    """The largest first, or the smallest, with figure and place; and by name again."""
    worker.sell(["a", "b", "b", "c", "c", "c"])
    browser.open(page(worker))
    browser.until(lambda: browser.texts("#keys button") == ["a", "b", "c"], "the keys")
    Select(browser.find("#by")).select_by_index(1)
    browser.until(lambda: browser.texts("#keys button") == ["c", "b", "a"], "the largest first")
    assert browser.texts("#keys .place") == ["1", "2", "3"]
    assert browser.texts("#keys td:nth-child(2) b") == ["3", "2", "1"]
    Select(browser.find("#order")).select_by_value("smallest")
    browser.until(lambda: browser.texts("#keys button") == ["a", "b", "c"], "the smallest first")
    Select(browser.find("#by")).select_by_index(0)
    browser.until(lambda: browser.texts("#keys .place") == ["", "", ""], "by their names")


def row_of(browser: Browser, key: str) -> list[str]:
    """The cells of a key in the overview: its place, name and alerts, and its figures."""
    found: list[str] = browser.script(
        "const rows = [...document.querySelectorAll('#keys tr')];"
        "const row = rows.find((it) => it.querySelector('button').value === arguments[0]);"
        "return row ? [...row.cells].map((cell) => [...cell.children].map((it) => it.textContent)"
        ".filter(Boolean).join(' ')) : [];",
        key,
    )
    return found


def heads(browser: Browser) -> list[str]:
    return browser.texts("#keys-head button")


def test_the_page_opens_with_an_overview(browser: Browser, worker: Shop) -> None:
    """Each key with the figures of a window and their bounds, those of which an alert fires first;
    an alert leads to its keys, and back; a figure's name orders them; the address keeps it all.
    """
    worker.sell(["a", "b"] * 20 + ["c"] * 40)
    browser.open(page(worker))
    browser.until(lambda: browser.texts("#keys button") == ["c", "a", "b"], "c, which fires")
    assert heads(browser)[:3] == ["key", "count", "mean"]
    browser.until(lambda: row_of(browser, "c")[:2] == ["c busy", "40"], "its alert and count")
    assert row_of(browser, "a")[0] == "a"
    top = browser.find("#keys tr").location["y"]
    assert top < browser.find("#flow").location["y"]

    link = browser.find("#total-firing a")
    assert link.text == "busy: 1 key"
    link.click()
    browser.until(lambda: browser.texts("#keys button") == ["c"], "its keys alone")
    assert "firing=busy" in browser.driver.current_url
    browser.driver.refresh()
    browser.until(lambda: browser.texts("#keys button") == ["c"], "after loading again")
    browser.find("#total-firing a").click()
    browser.until(lambda: len(browser.texts("#keys button")) == 3, "all keys again")

    (count,) = [it for it in browser.all("#keys-head button") if it.text == "count"]
    count.click()
    browser.until(lambda: browser.find("#by").get_attribute("value") == "count_1m", "its order")
    browser.until(lambda: row_of(browser, "b")[:1] == ["2 b"], "places")
    (sorted_by,) = browser.all("#keys-head th[aria-sort]")
    assert sorted_by.get_attribute("aria-sort") == "descending"
    browser.find("#keys-head th[aria-sort] button").click()
    browser.until(lambda: row_of(browser, "a")[:1] == ["1 a"], "the smallest first")
    # It fires, wherever its place is.
    assert browser.texts("#keys button") == ["c", "a", "b"]
    assert "order=smallest" in browser.driver.current_url
    Select(browser.find("#columns")).select_by_value("1h")
    browser.until(lambda: heads(browser)[:3] == ["key", "count_1m", "count"], "another window")
    browser.driver.refresh()
    browser.until(lambda: heads(browser)[:3] == ["key", "count_1m", "count"], "after it, too")


def test_the_way_from_the_overview_to_a_key_and_back(browser: Browser, worker: Shop) -> None:
    """What was chosen of the overview is there again, by the link and by the browser's own way
    back; on a narrow screen there is one of the two.
    """
    worker.sell(["a", "b", "b", "c"] * 5)
    browser.size(420)
    browser.open(page(worker, more="").rstrip("/") + "/#/shop?by=count_1h&begins=")
    browser.until(lambda: browser.texts("#keys button") == ["b", "a", "c"], "the largest first")
    browser.find("#keys button").click()
    browser.until(lambda: "count" in figures(browser), "figures")
    assert not browser.find("#keys").is_displayed()
    assert browser.text("#key-title") == "b"
    browser.find("#all-keys").click()
    browser.until(lambda: browser.find("#keys").is_displayed(), "the overview")
    assert "by=count_1h" in browser.driver.current_url
    browser.driver.back()
    browser.until(lambda: browser.find("#key").is_displayed(), "the key")
    browser.size(1280)
    browser.until(lambda: browser.find("#keys").is_displayed(), "both")


@pytest.mark.parametrize("key", ["a", "a-name-longer-than-any-screen" * 8], ids=["short", "long"])
def test_the_overview_on_a_narrow_screen(browser: Browser, worker: Shop, key: str) -> None:
    """At 420 pixels the page is no wider than the screen: the name of a key and the figure by which
    keys are ordered are in sight, and the name stays so when the others are looked at.
    """
    worker.sell([key] * 40 + ["b"])
    browser.size(420)
    browser.open(f"{worker.url}/#/shop?by=mean_1h")
    browser.until(lambda: row_of(browser, key)[1:2], "figures")
    assert browser.script("return document.documentElement.scrollWidth") <= 420
    script = (
        "const [name, first] = document.querySelector('#keys tr').cells;"
        "return [name, first].map((cell) => cell.getBoundingClientRect())"
        ".map((it) => [it.left, it.right])"
    )
    (left, _), (_, right) = browser.script(script)
    assert left >= 0
    assert right <= 420
    browser.script("document.querySelector('.keys .table').scrollLeft = 500")
    assert browser.script(script)[0][0] == pytest.approx(left, abs=4)


def test_times_in_the_zone_of_the_viewer(browser: Browser, worker: Shop) -> None:
    """UTC, unless the viewer chooses the zone of their machine, which stays chosen; times say what
    they are in, also where clocks go back and an hour comes twice.
    """
    zone = "Emulation.setTimezoneOverride"
    browser.driver.execute_cdp_cmd(zone, {"timezoneId": "Europe/Berlin"})
    try:
        worker.sell(["a"] * 20)
        browser.open(page(worker, "a"))
        browser.until(lambda: "UTC" in browser.text("#key-place"), "UTC")
        options = browser.texts("#zone option")
        assert options == ["UTC", "Europe/Berlin"]
        Select(browser.find("#zone")).select_by_index(1)
        browser.until(lambda: "+02:00" in browser.text("#key-place"), "the zone's offset")
        assert "UTC" not in browser.text("#key-place")
        assert browser.texts("[data-zone]") == ["Europe/Berlin"] * 2
        browser.until(lambda: browser.texts("#over-time .u-value"), "the chart")
        end = datetime.fromtimestamp(worker.now_ms / 1000, ZoneInfo("Europe/Berlin"))
        assert browser.texts("#over-time .u-value")[0] == end.strftime("%Y-%m-%d %H:%M:%S")
        told = browser.module(
            "format.js",
            "return arguments[0].map((ms) => module.timeIn(ms))",
            [1729989000000, 1729992600000, -62135596800000],
        )
        assert told[:2] == ["2024-10-27 02:30:00 +02:00", "2024-10-27 02:30:00 +01:00"]
        browser.driver.refresh()
        browser.until(lambda: "+02:00" in browser.text("#key-place"), "the same, loaded again")
        Select(browser.find("#zone")).select_by_index(0)
        browser.until(lambda: "UTC" in browser.text("#key-place"), "UTC again")
    finally:
        browser.script("localStorage.clear()")
        browser.driver.execute_cdp_cmd(zone, {"timezoneId": ""})


@pytest.mark.parametrize("signs_in_by", ["a redirection", "a page", "a refusal"])
def test_a_proxy_that_wants_one_to_sign_in(
    browser: Browser, worker: Shop, signs_in_by: str
) -> None:
    """When a session at a proxy has ended, the page neither says that the worker is gone nor asks
    for the worker's token: it is to be loaded again.
    """
    worker.sell(["a"] * 20)
    ended: list[bool] = []

    def answer(path: str) -> tuple[int, dict[str, str]] | None:
        if not ended or "/topologies" not in path:
            return None
        status = {"a redirection": 302, "a page": 200, "a refusal": 401}[signs_in_by]
        return status, {"Location": "http://127.0.0.1:1/login"} if status == 302 else {}

    with below("/tools", worker.url, answer) as url:
        browser.open(url)
        browser.until(lambda: browser.texts("#keys button") == ["a"], "the key")
        ended.append(True)
        told = "A proxy answers in place of the worker. Load the page again to sign in."
        browser.until(lambda: browser.text("#connection").startswith(told), "what to do")
        assert not browser.find("#token-dialog").is_displayed()
        browser.close()
        browser.errors()


def test_a_key_shows_its_figures_with_bounds(browser: Browser, worker: Shop) -> None:
    """Every statistic of the topology is there with estimate, bounds and promise; the page follows
    event time, and draws what it saw.
    """
    worker.sell(["a"] * 20, items=("home", "cart", "home"))
    browser.open(page(worker))
    browser.until(lambda: browser.texts("#keys button") == ["a"], "the key")
    browser.find("#keys button").click()
    browser.until(lambda: "count" in figures(browser), "figures")
    found = figures(browser)
    assert found["count"] == ["20", "20", "20", "± 1 %"]
    assert [name for name in found if name.startswith("quantile")] == [
        *("quantile 0.5", "quantile 0.9", "quantile 0.99")
    ]
    assert found["distinct_user"][:3] == ["1", "1", "1"]
    assert found["histogram [10, ∞)"][:3] == ["10", "10", "10"]
    browser.until(lambda: len(browser.all("#lists figure")) == 2, "items and ranges")
    assert browser.texts("#lists figure:first-child tbody th") == ["home", "cart"]
    browser.until(lambda: browser.texts("#distributions b") == ["quantile, 1m"], "the curve")

    worker.sell(["a"] * 5)
    browser.until(lambda: figures(browser)["count"][0] == "25", "the new count")
    drawn = browser.find("#over-time").get_attribute("aria-label") or ""
    assert drawn.endswith("the last one is 25, between 25 and 25")
    by_window = browser.find("#over-windows").get_attribute("aria-label") or ""
    assert re.fullmatch(r"count, by the length of the window: \d\d points; .*", by_window)
    assert len(browser.all("#key canvas")) == 3

    # What is added while it runs says since when it counts, also a list without an item.
    kept = tuple(it for it in SHOP.statistics if not isinstance(it, Mean | TopItems))

    def add_again() -> None:
        worker.held.change_statistics(replace(SHOP, statistics=kept))
        worker.held.change_statistics(SHOP)

    worker.do(add_again)
    browser.until(lambda: "since" in figures(browser)["mean"][3], "a mean of a part")
    found = figures(browser)
    since = datetime.fromtimestamp(worker.now_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert found["mean"][3].endswith(f" since {since}")
    assert found["top_page"] == ["\u2013"] * 3 + [f"none since {since}"]
    assert found["count"] == ["25", "25", "25", "± 1 %"]


@pytest.mark.parametrize("key", ["..", ".", "a/b"])
def test_a_key_that_looks_like_a_folder_is_opened(browser: Browser, worker: Shop, key: str) -> None:
    """Its figures, and what was emitted of it, as of any key."""
    worker.sell([key] * 95)
    browser.open(page(worker))
    browser.until(lambda: browser.texts("#keys button") == [key], "the key")
    browser.find("#keys button").click()
    browser.until(lambda: "count" in figures(browser), "figures")
    assert 59 <= float(figures(browser)["count"][0]) <= 61
    browser.until(lambda: "as written out" in browser.text("#over-time-hint"), "its history")


def test_bounds_are_in_sight_on_a_narrow_screen(browser: Browser, worker: Shop) -> None:
    """At 420 pixels estimate, lower and upper of each statistic lie within the page."""
    worker.sell(["a"] * 20)
    browser.size(420)
    browser.open(page(worker, "a"))
    browser.until(lambda: "count" in figures(browser), "figures")
    right = browser.script(
        "return [...document.querySelectorAll('.figures td, .figures th')]"
        ".map((cell) => cell.getBoundingClientRect().right)"
    )
    assert len(right) > 20
    assert max(right) <= 420
    region = "document.querySelector('.table:has(.figures)')"
    assert browser.script(f"return {region}.scrollWidth <= {region}.clientWidth")


def test_what_was_emitted_before_is_drawn(browser: Browser, worker: Shop) -> None:
    """A window that is written out begins with its emissions, and goes on with what is asked;
    another one begins when it is chosen.
    """
    worker.sell(["a"] * 95)
    browser.open(page(worker, "a"))
    drawn = lambda: browser.find("#over-time").get_attribute("aria-label") or ""  # noqa: E731
    # The ticks of 10 s in 95 s, and now.
    browser.until(lambda: "count, 1m, over time: 10 points" in drawn(), "emissions and now")
    assert "as written out" in browser.text("#over-time-hint")
    worker.sell(["a"])
    browser.until(lambda: "11 points" in drawn(), "one more")
    text = browser.find("#window-text")
    text.clear()
    text.send_keys("7s", Keys.ENTER)
    browser.until(lambda: "count, 7s, over time: 1 points" in drawn(), "from now on")


def test_a_derived_figure_is_drawn_without_a_window(browser: Browser) -> None:
    """It has the windows of its parts, whatever is chosen: also a day of the calendar."""
    topology = replace(
        SHOP,
        span="25h",
        windows=("1m", "today"),
        time_zone="Asia/Kathmandu",
        statistics=(Count(), Count(name="dear", where="value >= 10")),
        derived=("dear_1m / count_1m as rate",),
        slos=(Slo(name="cheap", good="value < 10", objective=0.9, alerts=[]),),
        alerts=(),
    )
    with shop(topology) as worker:
        worker.sell(["a"] * 95)
        browser.open(page(worker, "a", "?window=today"))
        browser.until(lambda: "count, today, over time: 10 points" in drawn(browser), "the day")
        browser.until(lambda: browser.find("#over-windows").is_displayed(), "all windows")
        found = figures(browser)
        assert found["rate"][3] == "within its bounds"
        assert {"cheap_burn_1m", "cheap_burn_today"} < set(found)
        for name in ("rate", "cheap_budget_left"):
            browser.find(f"#figures input[value={name}]").click()
            told = f"{name}, over time: 10 points"
            browser.until(lambda told=told: told in drawn(browser), "no window")
            assert browser.text("#over-time-name") == name
            assert not browser.find("#over-windows").is_displayed()
        browser.find("#figures input[value=dear]").click()
        browser.until(lambda: "dear, today, over time" in drawn(browser), "a window")
        browser.until(lambda: browser.text("#over-windows-name") == "dear", "by window")
        browser.close()


# Of the chart over time: how many pixels of one column are of the line, and how many are hatched.
# The column is at a share of the way from the first point to the last.
INK = """
const [place, share, strip] = [document.querySelector(arguments[0]), arguments[1], arguments[2]];
const [canvas, over] = [place.querySelector("canvas"), place.querySelector(".u-over")];
const left = strip ? (0.06 / 1.06) * over.offsetWidth : 0;
const x = Math.round(over.offsetLeft + left + share * (over.offsetWidth - left));
const [width, height] = [1, over.offsetHeight];
const column = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
column.drawImage(canvas, -x, -over.offsetTop);
const { data } = column.getImageData(0, 0, width, height);
const found = { line: 0, hatch: 0 };
for (let i = 0; i < data.length; i += 4) {
  const [red, green, blue, opaque] = data.slice(i, i + 4);
  if (opaque > 200 && red < 60 && green > 80 && green < 130) found.line += 1;
  else if (i > 3.2 * height) continue; // Words are there.
  else if (opaque > 50 && Math.abs(red - 82) < 30 && Math.abs(blue - 108) < 30) found.hatch += 1;
}
return found;
"""


def ink(browser: Browser, share: float, *, strip: bool = False) -> tuple[bool, bool]:
    """Whether there is a line, and whether it is hatched, at a share of the way."""
    found = browser.script(INK, "#over-time", share, strip)
    return found["line"] > 0, found["hatch"] > 3


def drawn(browser: Browser) -> str:
    """What the chart over time is to those who cannot see it."""
    return browser.find("#over-time").get_attribute("aria-label") or ""


def test_silence_has_no_line(browser: Browser, worker: Shop) -> None:
    """No line leads over ticks at which a key was not written: what is on either side is drawn,
    also a point that is alone, as one whose window has emptied is, and nothing is said to be
    missing.
    """
    worker.sell(["a"] * 100 + ["c"] * 200 + ["a"] + ["c"] * 199 + ["a"] * 100)
    browser.media(prefers_color_scheme="light")
    browser.open(page(worker, "a"))
    browser.until(lambda: "4 stretches with nothing written;" in drawn(browser), "its silence")
    assert "not read" not in drawn(browser)
    assert ink(browser, 50 / 600) == (True, False)
    assert ink(browser, 200 / 600) == (False, False)
    assert ink(browser, 400 / 600) == (False, False)
    assert ink(browser, 550 / 600) == (True, False)
    lonely = [ink(browser, share / 600)[0] for share in range(280, 320)]
    assert any(lonely), "the point that is alone"
    assert browser.text("#over-time-hint").endswith("since this key was opened")


def test_what_was_cut_off_is_told(browser: Browser, worker: Shop) -> None:
    """Where the history was not read to its beginning the page has the answer's words, and the
    drawing a strip that is neither a line nor silence.
    """
    worker.sell(["a"] * 100 + ["c"] * 200 + ["a"] * 100)
    worker.held.cut_at = worker.held.output[2].window_end_ms
    browser.media(prefers_color_scheme="light")
    browser.open(page(worker, "a"))
    told = "live since this key was opened. older records were not read"
    browser.until(lambda: told in browser.text("#over-time-hint"), "the answer's words")
    assert "2 stretches with nothing written, 1 not read;" in drawn(browser)
    assert ink(browser, -0.03, strip=True) == (False, True)
    assert ink(browser, 0.02, strip=True) == (True, False)


def test_a_history_that_cannot_be_read_is_told(browser: Browser, worker: Shop) -> None:
    """The reason is there, and what is drawn begins with the page."""
    worker.held.refusal = SlidestatError("The topic 'shop-statistics' cannot be read: gone.", "")
    worker.sell(["a"] * 95)
    browser.open(page(worker, "a"))
    told = "What was written out cannot be read: The topic 'shop-statistics' cannot be read: gone."
    browser.until(lambda: told in browser.text("#over-time-hint"), "the reason")
    assert "1 points, 1 not read;" in drawn(browser)
    browser.errors()  # 500 for the history


def test_what_the_page_was_not_told_is_read_again(browser: Browser, worker: Shop) -> None:
    """A page that was paused leaves no line over what it missed: it reads that again where windows
    are written out, and marks it as not read where they are not.
    """
    worker.sell(["a"] * 95)
    browser.media(prefers_color_scheme="light")
    browser.open(page(worker, "a", "?window=7s"))
    browser.until(lambda: "count, 7s, over time: 1 points" in drawn(browser), "from now on")
    browser.find("#pause").click()
    worker.sell(["a"] * 200)
    browser.find("#pause").click()
    browser.until(lambda: "2 points, 1 not read;" in drawn(browser), "what it was not told")
    assert ink(browser, 0.5) == (False, True)

    (button,) = [b for b in browser.all("#window-presets button") if b.text == "1m"]
    button.click()
    whole = re.compile(r"count, 1m, over time: 30 points; ")
    browser.until(lambda: whole.match(drawn(browser)), "all of its emissions, and now")
    assert ink(browser, 0.5) == (True, False)


def test_event_time_that_goes_back(browser: Browser, worker: Shop) -> None:
    """A worker that takes event time up again further back leaves no points out of order, whatever
    was drawn of the time after.
    """
    worker.sell(["a"])
    browser.open(page(worker))
    points = browser.module(
        "key.js",
        "const key = { points: new Map() };"
        "for (const x of [1, 3, 5, 7, 2, 4]) module.Key.prototype.remember.call(key, 's', [x, x]);"
        "return key.points.get('s').map(([x]) => x);",
    )
    assert points == [1, 2, 4]


@pytest.mark.parametrize(
    ("points", "known", "holes"),
    [
        # Written out at each tick, or with ticks at which there was nothing.
        ([[0], [10], [20]], {"after": -1, "until": 20}, []),
        ([[0], [10], [30]], {"after": -1, "until": 30}, [(10, 30, "silent")]),
        ([[0], [10], [30]], {"after": 10, "until": 30}, [(10, 30, "silent")]),
        ([[0], [10], [30]], {"after": 11, "until": 30}, [(10, 30, "unread")]),
        ([[0], [10], [30]], {"after": -1, "until": 29}, [(10, 30, "unread")]),
        ([[0], [10], [30]], None, [(10, 30, "unread")]),
        # Between what was written out and what the page was told.
        ([[0], [10], [19, 1]], None, []),
        ([[0], [10], [21, 1], [22, 2]], None, [(10, 21, "unread")]),
    ],
)
def test_which_stretches_have_no_line(
    browser: Browser,
    worker: Shop,
    points: list[list[int]],
    known: dict[str, int] | None,
    holes: list[tuple[int, int, str]],
) -> None:
    """One with a tick in it that has no point; silent is what the topic was read over, and no
    other.
    """
    browser.open(page(worker))
    rows = [[p[0], 0, 0, 0, *p[1:]] for p in points]
    found = browser.module(
        "timeline.js",
        "const [rows, known] = arguments[0];"
        "const ticks = { everyX: 10, isSequence: false };"
        "return module.holesOf(rows, ticks, known).map(({ from, to, kind }) => [from, to, kind]);",
        [rows, known],
    )
    assert [tuple(hole) for hole in found] == holes


def test_bounds_are_rounded_outward(browser: Browser, worker: Shop) -> None:
    """A bound that is shown holds as well as the one that it was."""
    browser.open(page(worker))
    told = browser.module(
        "format.js",
        "return arguments[0].map((it) => [module.lowerText(it), module.upperText(it)])",
        [8.8337255, -8.8337255, 1234567.5, 3, None],
    )
    assert told == [
        ["8.83372", "8.83373"],
        ["-8.83373", "-8.83372"],
        ["1,234,560", "1,234,570"],
        ["3", "3"],
        ["\u2013", "\u2013"],
    ]


def test_figures_of_a_worker_that_is_gone(browser: Browser) -> None:
    """They stay, and the page says of when they are."""
    with shop() as gone:
        gone.sell(["a"] * 20)
        browser.open(page(gone, "a"))
        browser.until(lambda: "count" in figures(browser), "figures")
    told = r"The worker does not answer\. What is shown is of 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC\."
    browser.until(lambda: re.fullmatch(told, browser.text("#connection")), "that it is gone")
    browser.close()
    browser.errors()


def test_labels_of_an_axis_differ(browser: Browser, worker: Shop) -> None:
    """However near to each other the values are."""
    browser.open(page(worker))
    for values, expected in [
        ([0, 500, 1000], ["0", "500", "1K"]),
        ([1_000_000, 1_000_005, 1_000_010], ["1M", "1.000005M", "1.00001M"]),
        ([0.1, 0.1001, 0.1002], ["0.1", "0.1001", "0.1002"]),
        ([7], ["7"]),
    ]:
        told = browser.module("format.js", "return module.axisTexts(arguments[0])", values)
        assert told == expected


def test_numbers_of_a_sequence_are_no_times(browser: Browser) -> None:
    """Their axis has numbers, not dates."""
    first = 300_000_000_000
    topology = Topology(
        name="shop",
        source="requests",
        time_format="sequence",
        span="1000 events",
        every="10 events",
        windows=("20 events",),
        statistics=(Count(),),
    )
    with shop(topology) as counted:
        events = [{"key": "a", "time": first + i, "value": 1} for i in range(95)]
        counted.bring(0, [msgspec.json.encode(event) for event in events])
        browser.open(page(counted, "a"))
        browser.until(lambda: "20 events, over time: 10 points; " in drawn(browser), "its history")
        assert "windows end at 300,000,000,09" in browser.text("#key-place")
        assert "UTC" not in browser.text("#key")
        assert browser.texts("#over-time .u-legend .u-value")[0].startswith("300,000,000,09")
        browser.close()


def shows(browser: Browser, text: str) -> bool:
    return browser.text("#total-moving") == text


def test_what_is_not_moved_yet_is_shown(browser: Browser, worker: Shop) -> None:
    """Of each source, where there are several."""
    worker.sell(["a"] * 20)
    try:
        for moves, text in (
            ({"eu": Behind(1_200, None)}, "1,200 records"),
            ({"eu": Behind(3, 5), "us": Behind(0, None)}, "eu: 3, us: 0 records"),
        ):
            worker.held.moves = moves
            browser.open(page(worker, "a"))
            browser.until(partial(shows, browser, text), text)
    finally:
        worker.held.moves = None


def test_alerts_that_fire_are_shown(browser: Browser, worker: Shop) -> None:
    """Of the key each that fires or is pending, how surely and since when; and of how many keys
    each fires. What is resolved is shown no more.
    """
    worker.sell(["a"] * 20)
    browser.open(page(worker, "a"))
    browser.until(lambda: browser.text("#total-firing") == "none fires", "no alert")
    assert not browser.find("#key-alerts").is_displayed()
    assert not browser.find("#moving").is_displayed()
    worker.sell(["a"] * 60)
    browser.until(lambda: len(browser.all("#key-alerts li")) == 2, "both alerts")
    busy, many = browser.texts("#key-alerts li")
    assert re.fullmatch(
        r"busy: firing, certain, since 20\d\d-\d\d-\d\d \d\d:\d\d:\d0 UTC"
        r" severity=page team=shop\s*description: <b>Open</b> a till\.\s+what to do",
        busy,
    )
    link = browser.find("#key-alerts a")
    assert link.get_attribute("href") == "https://wiki.example.com/busy"
    assert many.startswith("many: pending, certain, since 20")
    browser.until(lambda: browser.text("#total-firing") == "busy: 1 key", "the count of keys")
    worker.sell(["a", "b", "b", "b"] * 30)
    browser.until(lambda: len(browser.all("#key-alerts li")) == 1, "one is resolved")
    assert browser.texts("#key-alerts li")[0].startswith("many: pending")


def test_any_window_can_be_asked_for(browser: Browser, worker: Shop) -> None:
    """The slider, by keys as well, the text and the buttons set the window; the figures are those
    of the live state; the address keeps the choice.
    """
    worker.sell(["a"] * 600)
    browser.open(page(worker, "a"))
    browser.until(lambda: "count" in figures(browser), "figures")
    slider, text = browser.find("#window-slider"), browser.find("#window-text")
    slider.send_keys(Keys.HOME)
    browser.until(lambda: figures(browser)["count"][0] == "1", "the window of a second")
    assert slider.get_attribute("aria-valuetext") == "1 second"
    for seconds in (2, 3, 4):
        slider.send_keys(Keys.ARROW_RIGHT)
        assert slider.get_attribute("aria-valuetext") == f"{seconds} seconds"
    slider.send_keys(Keys.END)
    browser.until(lambda: figures(browser)["mean"][0] == "9.5", "the longest window")
    assert text.get_attribute("value") == "1h"

    text.clear()
    text.send_keys("7s", Keys.ENTER)
    browser.until(lambda: figures(browser)["count"][0] == "7", "a window that was written")
    assert "window=7s" in browser.driver.current_url
    text.clear()
    text.send_keys("2h", Keys.ENTER)
    assert browser.text("#window-error") == "Write a length up to 1h, such as 36h."
    assert text.get_attribute("aria-invalid") == "true"
    (button,) = [b for b in browser.all("#window-presets button") if b.text == "1m"]
    button.click()
    browser.until(lambda: float(figures(browser)["count"][0]) > 50, "a declared window")
    assert button.get_attribute("aria-pressed") == "true"

    (mean,) = [r for r in browser.all("#figures input") if r.get_attribute("value") == "mean"]
    mean.click()
    browser.driver.refresh()
    browser.until(lambda: "count" in figures(browser), "figures, after loading again")
    assert text_of(browser, "#over-time-name") == "mean, 1m"


def test_what_was_so_long_before_is_a_second_band(browser: Browser, worker: Shop) -> None:
    """The count of the minute that ended three minutes before, as the topic has it and as the state
    has it; the address keeps the choice. What cannot be asked is refused in words.
    """
    worker.sell(["a"] * 100 + ["c"] * 100 + ["a"] * 40)
    browser.open(page(worker, "a", "?window=1m&ago=3m"))
    asked = f"{worker.url}/topologies/shop/keys/a?window=1m&statistic=count&ago=3m"
    with urlopen(asked) as answer:  # noqa: S310  http
        (figure,) = msgspec.json.decode(answer.read())["figures"]
    estimate, lower, upper = (f"{figure[name]:g}" for name in ("estimate", "lower", "upper"))
    told = f"the last one is {estimate}, between {lower} and {upper}"
    browser.until(lambda: drawn(browser).endswith(told), "the band of before")
    assert re.search(r"\. 3m before: \d+ points", drawn(browser))
    assert figure["estimate"] > 50
    assert browser.text("#over-time-hint").endswith("dashed: 3m before")
    ago = browser.find("#ago-text")
    assert ago.get_attribute("value") == "3m"
    ago.clear()
    ago.send_keys("1h", Keys.ENTER)
    browser.until(
        lambda: browser.text("#ago-error") == "Write a length below 1h, or nothing.", "it"
    )
    ago.clear()
    ago.send_keys("50m", Keys.ENTER)
    browser.until(lambda: "ago=50m" in browser.driver.current_url, "the address")
    window = browser.find("#window-text")
    window.clear()
    window.send_keys("30m", Keys.ENTER)
    words = "Window and Before together are at most 1h."
    browser.until(lambda: browser.text("#ago-error") == words, "it")
    assert "count" in figures(browser)
    ago.clear()
    ago.send_keys(Keys.ENTER)
    browser.until(lambda: "ago" not in browser.driver.current_url, "nothing to compare with")
    browser.until(lambda: "before" not in drawn(browser), "one band")
    assert browser.text("#ago-error") == ""


def text_of(browser: Browser, css: str) -> str:
    """The text, once there is one."""
    browser.until(lambda: browser.text(css), css)
    return browser.text(css)


def test_the_flow_tells_lag_late_and_dead(browser: Browser, worker: Shop) -> None:
    """Topics, workers and table are drawn with rates; totals and partitions add up."""
    worker.sell(["a", "b"] * 10)
    worker.bring(0, [b"no json"] * 3)
    worker.sell(["a"])
    browser.open(page(worker))
    browser.until(lambda: browser.text("#total-dead") == "3", "dead letters")
    assert browser.text("#total-late") == "0"
    assert browser.text("#total-passed-over") == "0"
    assert browser.text("#total-left-out") == "0"
    robot = {"key": "a", "time": worker.now_ms, "page": "robots"}
    lacking = {"key": "a", "time": worker.now_ms, "page": "home", "user": "a"}
    worker.bring(1, [msgspec.json.encode(event) for event in (robot, robot, lacking)])
    browser.until(lambda: browser.text("#total-passed-over") == "2", "passed over")
    assert "mean 1" in browser.text("#total-left-out").split(", ")
    assert browser.text("#total-lag") == "0 records"
    assert browser.text("#total-keys") == "2"
    boxes = " ".join(browser.texts("#flow .box"))
    for name in ("requests", "shop-state", "shop-statistics", "shop-late", "shop-dead-letters"):
        assert name in boxes
    reads, *writes = browser.texts("#topics dd")
    assert reads == "requests"
    assert {"shop-statistics", "shop-late", "shop-alerts"} <= set(writes)
    browser.until(lambda: browser.texts("#flow .rate")[0] == "0/s", "a rate")
    worker.sell(["a", "b"] * 50)
    browser.until(lambda: not browser.texts("#flow .rate")[0].startswith("0/"), "records")
    browser.until(lambda: "0/s read" not in browser.text("#flow-words"), "the rate in words")
    rows = browser.texts("#partitions tr")
    assert len(rows) == 2
    assert browser.texts("#workers li") == [f"{worker.url}: ready, 2 partitions"]


def test_hostile_keys_are_only_text(browser: Browser, worker: Shop) -> None:
    """Markup, scripts and bidirectional marks in keys and items are shown as they are, in the list,
    in the address and in the figures.
    """
    worker.sell(HOSTILE * 2, items=HOSTILE)
    browser.open(page(worker))
    browser.until(lambda: browser.texts("#keys button") == sorted(HOSTILE), "the keys")
    for key in HOSTILE:
        browser.open(page(worker, key))
        browser.until(lambda: "count" in figures(browser), key)
        assert browser.text("#key-title") == key
        assert figures(browser)["count"][0] == "2"
        browser.until(lambda: browser.all("#lists figure"), "items")
        assert browser.texts("#lists figure:first-child tbody th") == [key]
        assert browser.driver.title == f"{key} · shop · slidestat".strip()
    assert not browser.all("img:not([alt=''])")
    assert len(browser.all("script")) == 1


def test_an_address_that_leads_nowhere(browser: Browser, worker: Shop) -> None:
    """A key that is not there is told with what to do; a topology that is not there, or a broken
    escape, shows the first one.
    """
    worker.sell(["a"])
    browser.open(page(worker, "nobody"))
    browser.until(lambda: "has no key 'nobody'" in browser.text("#key-error"), "the error")
    assert not browser.find("#key-body").is_displayed()
    (told,) = browser.errors()
    assert "404" in told
    for address in ("/#/other/a", "/#/%E0%A4%A", "/#nonsense"):
        browser.open(worker.url + address)
        browser.until(lambda: browser.texts("#keys button") == ["a"], address)
        assert browser.text("#key-title") == "Choose a key"


def test_a_token_is_asked_for(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the worker wants a token the page asks for it, says when it is another, keeps it for
    the tab, and is not shown a thing before.
    """
    monkeypatch.setenv("SLIDESTAT_WEB_TOKEN", "s3cret-Token==")
    with shop() as guarded:
        guarded.sell(["private"])
        browser.clear(page(guarded))
        browser.until(lambda: browser.find("#token-dialog").is_displayed(), "the question")
        assert "private" not in browser.driver.page_source
        token = browser.find("#token")
        token.send_keys("another", Keys.ENTER)
        browser.until(lambda: browser.text("#token-error") == "This is not its token.", "refused")
        token.send_keys("s3cret-Token==", Keys.ENTER)
        browser.until(lambda: browser.texts("#keys button") == ["private"], "the keys")
        assert not browser.find("#token-dialog").is_displayed()
        browser.driver.refresh()
        browser.until(lambda: browser.texts("#keys button") == ["private"], "the keys, again")
        browser.close()
        assert all("401" in told for told in browser.errors())


def test_everything_is_reached_by_keyboard(browser: Browser, worker: Shop) -> None:
    """Tab leads from the skip link through all controls, each with a visible outline; Enter opens a
    key and takes the focus there.
    """
    worker.sell(["a", "b"])
    browser.open(page(worker))
    browser.until(lambda: browser.texts("#keys button") == ["a", "b"], "the keys")
    seen = []
    for _ in range(9):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.driver.switch_to.active_element
        seen.append(element.get_attribute("id") or element.text or element.get_attribute("class"))
        assert (
            browser.script("return getComputedStyle(document.activeElement).outlineStyle")
            == "solid"
        )
    assert seen[:7] == [
        *("Skip to the keys", "topology", "pause", "by", "columns", "prefix", "keys-table")
    ]
    # The names of the columns order the keys.
    assert seen[7:] == ["key", "count"]
    browser.find("#keys button").send_keys(Keys.ENTER)
    browser.until(
        lambda: browser.driver.switch_to.active_element.get_attribute("id") == "key-title",
        "the focus on the key",
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_names(browser: Browser, worker: Shop, scheme: str) -> None:
    """Text stands out from its ground by at least 4.5 to 1 (WCAG AA), and every control has a name,
    in both themes; nothing is wider than a narrow screen.
    """
    worker.sell(["a"] * 9)
    browser.media(prefers_color_scheme=scheme)
    browser.size(360)
    browser.open(page(worker, "a"))
    browser.until(lambda: browser.all("#lists figure"), "the key")
    colors = browser.script(
        "const style = getComputedStyle(document.documentElement);"
        "return Object.fromEntries(arguments[0].map((n) => [n, style.getPropertyValue(n).trim()]))",
        [
            *("--ink", "--muted", "--accent", "--good", "--wait", "--bad", "--ground", "--panel"),
            *("--chosen", "--accent-ink"),
        ],
    )
    for text in ("--ink", "--muted", "--accent", "--good", "--wait", "--bad"):
        assert contrast(colors[text], colors["--panel"]) >= 4.5, text
    for text in ("--ink", "--muted", "--accent"):
        assert contrast(colors[text], colors["--ground"]) >= 4.5, text
    for text in ("--ink", "--muted"):
        assert contrast(colors[text], colors["--chosen"]) >= 4.5, text
    assert contrast(colors["--accent-ink"], colors["--accent"]) >= 4.5
    # Charts name their lines in the text's colour, also once the other theme is chosen.
    browser.media(prefers_color_scheme="dark" if scheme == "light" else "light")
    label = "return getComputedStyle(document.querySelectorAll('.u-legend .u-label')[1]).color"
    assert browser.script(label) == browser.script("return getComputedStyle(document.body).color")
    browser.media(prefers_color_scheme=scheme)
    for element in browser.all("button, input, select, [role=img], [role=region]"):
        if element.is_displayed():
            assert element.accessible_name, element.get_attribute("outerHTML")
    assert browser.script("return document.documentElement.scrollWidth") <= 360


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2 has it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    digits = color.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_worker_that_goes_and_comes_back(browser: Browser, worker: Shop) -> None:
    """While partitions are being restored the page says so, and goes on by itself; paused, it asks
    for nothing.
    """
    worker.sell(["a"])
    browser.open(page(worker))
    browser.until(lambda: browser.text("#connection") == "live", "live")
    worker.do(worker.live.not_ready)
    browser.until(lambda: "not ready" in browser.text("#connection"), "restoring")
    worker.do(lambda: worker.live.ready((0, 1)))
    browser.until(lambda: browser.text("#connection") == "live", "live again")
    # Keys are asked for less often than the status.
    browser.until(lambda: browser.texts("#keys button") == ["a"], "keys")
    browser.find("#pause").click()
    asked = "return performance.getEntriesByType('resource').length"
    before = browser.script(asked)
    browser.driver.implicitly_wait(0)
    worker.sell(["b"])
    browser.script("return new Promise((done) => setTimeout(done, 2500))")
    assert browser.script(asked) <= before + 1  # one may have been under way
    assert browser.texts("#keys button") == ["a"]
    browser.errors()  # 503 for keys while they were being restored


def test_nothing_is_fetched_from_elsewhere(browser: Browser, worker: Shop) -> None:
    """All that the page loads comes from the worker, and a script that is not one of its files does
    not run.
    """
    worker.sell(["a"])
    browser.open(page(worker, "a"))
    browser.until(lambda: "count" in figures(browser), "figures")
    loaded = browser.script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert loaded
    assert all(url.startswith(worker.url + "/") for url in loaded)
    browser.script(
        "const script = document.createElement('script');"
        "script.textContent = \"document.title = 'owned'\"; document.body.append(script)"
    )
    assert browser.driver.title == "a · shop · slidestat"
    (told,) = browser.errors()
    assert "Content Security Policy" in told
