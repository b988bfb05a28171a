"""The live page in a real browser: what a person sees and does, and what it must never do."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from slidestat.declare.statistics import Mean, TopItems
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


def test_alerts_that_fire_are_shown(browser: Browser, worker: Shop) -> None:
    """Of the key each that fires or is pending, how surely and since when; and of how many keys
    each fires. What is resolved is shown no more.
    """
    worker.sell(["a"] * 20)
    browser.open(page(worker, "a"))
    browser.until(lambda: browser.text("#total-firing") == "none fires", "no alert")
    assert not browser.find("#key-alerts").is_displayed()
    worker.sell(["a"] * 60)
    browser.until(lambda: len(browser.all("#key-alerts li")) == 2, "both alerts")
    busy, many = browser.texts("#key-alerts li")
    assert re.fullmatch(r"busy: firing, certain, since 20\d\d-\d\d-\d\d \d\d:\d\d:\d0 UTC", busy)
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
    for _ in range(7):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.driver.switch_to.active_element
        seen.append(element.get_attribute("id") or element.text or element.get_attribute("class"))
        assert (
            browser.script("return getComputedStyle(document.activeElement).outlineStyle")
            == "solid"
        )
    assert seen == [
        "Skip to the keys",
        "topology",
        "pause",
        "prefix",
        "a",
        "b",
        "Choose a key",
    ] or (seen[:6] == ["Skip to the keys", "topology", "pause", "prefix", "a", "b"])
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
