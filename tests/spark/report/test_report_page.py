"""The report's page in a real browser: what a person sees, does, and must never be told."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.action_chains import ActionChains

from slidestat.spark.audit.derived import OF_BOUNDS
from slidestat.spark.audit.report import AuditReport, Judged, Records, StatisticSummary
from slidestat.spark.report.page import (
    ErrorHistogram,
    KeyData,
    ReportData,
    Series,
    TopItem,
    TopList,
    write_page,
)
from tests.spark.report_reader import ReportReader
from tests.web.browser import Browser

NOON_S = 1_764_072_000.0
TICKS = 49
BARS = 40
HOSTILE = [
    "<img src=x onerror=document.title='owned'>",
    "</script><script>document.title='owned'</script>",
    "<!--<script>",
    "'\"&\u2028\u202egnp.exe",
    "x" * 256,
]
Open = Callable[[ReportData], ReportReader]


def _series(name: str, window: str, scale: float) -> Series:
    exacts = [scale * (100 + tick % 7) for tick in range(TICKS)]
    return Series(
        name,
        window,
        "relative",
        0.05,
        1.0,
        [NOON_S + 600 * tick for tick in range(TICKS)],
        [exact * (1 + 0.02 * (-1) ** tick) for tick, exact in enumerate(exacts)],
        [0.96 * exact for exact in exacts],
        [1.04 * exact for exact in exacts],
        list(exacts),
    )


def _key(key: str, item: str) -> KeyData:
    series = [
        _series("count", "10m", 1),
        _series("count", "1h", 6),
        _series("sum_ms", "1h", 900),
    ]
    items = [TopItem(item, 12, 10, 13, 11), TopItem("/cart", 5, 4, 6, 5)]
    return KeyData(key, series, [TopList("top_page", "1h", NOON_S, items)])


def _data(
    keys: list[KeyData], *, missed: int = 0, broken: int = 0, unaccounted: int = 0
) -> ReportData:
    """A report of `keys`: a count of which so many figures are broken, distinct items of which so
    many figures missed.
    """
    records = Records(10_000, 9_990 - unaccounted, 7, 3, unaccounted, 640_000)
    audit = AuditReport(
        records,
        900,
        320_000,
        [
            StatisticSummary("count", "relative", 1.0, 2_000, 0.05, 0.01, 0.04, 0.05, broken),
            StatisticSummary("distinct_user", "relative", 0.99, 2_000, 0.1, 0, 0.1, 0.2, missed),
            StatisticSummary("maximum", "relative", 1.0, 2_000, 0.0, 0, 0, 0, 0),
        ],
        0,
        [f"{name} at 1764072000000: below its lower bound" for name in HOSTILE if broken],
    )
    drawn = [25] * BARS
    histograms = [
        ErrorHistogram("count", 1_000 - broken, drawn, broken),
        ErrorHistogram("distinct_user", 1_000 - missed, drawn, missed),
        ErrorHistogram("maximum", 2_000, [0] * BARS, 0),
    ]
    made = "2026-01-31T12:00:00+00:00"
    return ReportData(
        "shop", made, audit, audit.is_clean, NOON_S, NOON_S + 86_400, 17, histograms, keys
    )


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Open:
    """Write a report, and open it."""

    def open_(data: ReportData) -> ReportReader:
        file = tmp_path / "report.html"
        write_page(data, file)
        return ReportReader(browser, file)

    return open_


def test_keys_figures_and_windows_are_turned_over(opened: Open, browser: Browser) -> None:
    """Both charts, their title and the top items follow what is chosen; a figure and a window that
    the other key has, too, stay.
    """
    reader = opened(_data([_key("a", "/home"), _key("b", "/help")]))
    title = lambda: browser.text("#zoom-title")  # noqa: E731
    promise = "promised error 5\u00a0% relative"
    assert title() == f"How far from exact: count of a, 10m, {promise}"
    assert browser.texts("#window option") == ["10m", "1h"]
    reader.choose("window", 1)
    assert title() == f"How far from exact: count of a, 1h, {promise}"
    reader.choose("key", 1)
    assert title() == f"How far from exact: count of b, 1h, {promise}"
    assert browser.text("#top-title") == "Top items of b"
    assert browser.texts("#tops .bars > span") == ["/help", "11", "/cart", "5"]
    reader.choose("figure", 1)
    assert title() == f"How far from exact: sum_ms of b, 1h, {promise}"
    assert len(browser.all(".uplot")) == 2
    reader.check_bands()


def test_a_derived_figure_has_the_windows_of_its_parts(opened: Open, browser: Browser) -> None:
    """None of its own is told or chosen, and its promise is that it lies within its bounds."""
    rate = replace(_series("error_rate", "", 1), unit=OF_BOUNDS, promised=1.0)
    reader = opened(_data([replace(_key("a", "/home"), series=[_series("count", "1h", 1), rate])]))
    assert browser.find("#window").is_displayed()
    reader.choose("figure", 1)
    title = browser.text("#zoom-title")
    assert title == "How far from exact: error_rate of a, promised within its bounds"
    assert not browser.find("#window").is_displayed()
    reader.choose("figure", 0)
    assert browser.texts("#window option") == ["1h"]
    assert browser.find("#window").is_displayed()


def test_a_moment_is_read_in_both_charts(opened: Open, browser: Browser) -> None:
    """Pointed at in one chart, a window's figures are told in both: as they are, and in percent of
    the exact one.
    """
    opened(_data([_key("a", "/home")]))
    ActionChains(browser.driver).move_to_element(browser.find("#line .u-over")).perform()
    told = lambda place: browser.texts(f"{place} .u-value")  # noqa: E731
    browser.until(lambda: told("#zoom")[1:] == ["-4 %", "4 %", "2 %", "0 %"], "the errors")
    moment, *figures = told("#line")
    assert moment == "25 Nov 2025, 16:00 UTC"
    assert figures == ["98.88", "107.12", "105.06", "103"]


def test_a_sample_is_told(opened: Open, browser: Browser) -> None:
    """With the share of keys, and beside all emissions that were written."""
    data = _data([_key("a", "/home")])
    judged = [Judged("0" * 16, 88_000, True), Judged("", 2_000, False)]
    data = replace(data, audit=replace(data.audit, sample=0.01, judged=judged))
    opened(data)
    tiles = browser.texts("#tiles .tile")
    assert any("of 17 keys, a sample of 1.00 %" in tile for tile in tiles)
    assert any(tile.startswith("90,000") and "emissions written" in tile for tile in tiles)


def test_a_broken_promise_is_told(opened: Open, browser: Browser) -> None:
    """One figure outside its bounds is the verdict, is told in words, and lies in red right of what
    was promised. Records that nobody counted are broken promises as well.
    """
    opened(_data([_key("a", "/home")], broken=1))
    assert browser.text("#verdict") == "1 promise broken"
    told = [f"{name} at 1764072000000: below its lower bound" for name in HOSTILE]
    assert browser.texts("#broken li") == told
    assert browser.find("#broken").is_displayed()
    assert "1 broken" in browser.texts("#histograms .card:first-child text")
    (red,) = browser.script(
        "const bad = getComputedStyle(document.documentElement).getPropertyValue('--bad').trim();"
        "return [...document.querySelectorAll('rect')].filter((bar) =>"
        " bar.getAttribute('fill') === bad && bar.getBoundingClientRect().height > 0)"
    )
    assert red.rect["x"] > browser.find("#histograms line:last-of-type").rect["x"]

    opened(_data([_key("a", "/home")], broken=3, unaccounted=2))
    assert browser.text("#verdict") == "5 promises broken"
    assert "2 unaccounted for" in browser.text("#tiles")


def test_misses_that_chance_is_allowed_are_no_broken_promises(
    opened: Open, browser: Browser
) -> None:
    """At the confidence itself every promise is kept, and what missed is still told; one more is
    too many.
    """
    opened(_data([_key("a", "/home")], missed=20))
    assert browser.text("#verdict") == "Every promise kept"
    assert browser.text("#tiles .tile:nth-child(2)") == (
        "0of them broke their promise; 20 missed by chance, as may be"
    )
    assert "20 missed" in browser.texts("#histograms .card:nth-child(2) text")
    assert not browser.find("#broken").is_displayed()

    opened(_data([_key("a", "/home")], missed=21))
    assert browser.text("#verdict") == "21 promises broken"


def test_names_are_only_text(opened: Open, browser: Browser) -> None:
    """Keys and items that are markup or script, or long, are shown as they are, and do nothing."""
    reader = opened(_data([_key(name, name) for name in HOSTILE]))
    assert browser.texts("#key option") == HOSTILE
    for number, name in enumerate(HOSTILE):
        reader.choose("key", number)
        assert browser.text("#top-title") == f"Top items of {name}"
        assert f"count of {name}, 10m" in browser.text("#zoom-title")
        assert browser.texts("#tops .bars > span")[0] == name
    assert browser.driver.title == "Audit of shop"
    assert browser.all("img, main script") == []


def test_it_is_read_on_a_narrow_screen(opened: Open, browser: Browser) -> None:
    """Nothing is cut or scrolled to sideways at 320 pixels, with the longest names: as the page is
    opened, and as a wide window is made narrow.
    """
    data = _data([_key("x" * 256, "y" * 256)], broken=1)
    browser.size(1280)
    reader = opened(data)
    reader.check_width()
    browser.size(320)
    browser.until(lambda: browser.find("#line .uplot").rect["width"] < 320, "a narrow chart")
    reader.check_width()
    reader.check_bars("#tops", 2)
    reader = opened(data)
    reader.check_width()
    reader.check_bands()


# Which texts are drawn on each canvas since it was last cleared: the row, and from where to where.
_NOTE_TEXTS = """
const drawn = (window.drawn = new Map());
const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  drawn.set(this.canvas, []);
  return clearRect.apply(this, box);
};
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
  const width = this.measureText(text).width;
  if (this.textAlign === "center") {
    drawn.get(this.canvas)?.push([y, x - width / 2, x + width / 2, text]);
  }
  return fillText.call(this, text, x, y, ...rest);
};
"""


@pytest.mark.parametrize("every_s", [1, 600, 86_400])
@pytest.mark.parametrize("width", [420, 1280])
def test_labels_of_time_stand_apart(
    opened: Open, browser: Browser, width: int, every_s: int
) -> None:
    """No two touch, whatever the axis shows: seconds, hours, days."""
    browser.size(width)
    command = "Page.addScriptToEvaluateOnNewDocument"
    noting = browser.driver.execute_cdp_cmd(command, {"source": _NOTE_TEXTS})
    try:
        key = _key("a", "/home")
        for series in key.series:
            series.times[:] = [NOON_S + every_s * tick for tick in range(TICKS)]
        opened(_data([key])).check_bands()
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", noting)
    charts = browser.script("return [...drawn.values()]")
    labels = [text for texts in charts for *_, text in texts]
    assert len(labels) >= 4
    for texts in charts:
        for y in {y for y, *_ in texts}:
            row = sorted((left, right) for at, left, right, _ in texts if at == y)
            gaps = [after - before for (_, before), (after, _) in pairwise(row)]
            assert min(gaps, default=9) > 4, labels


def test_it_is_dark_when_the_system_is(opened: Open, browser: Browser) -> None:
    """All that is drawn has the colours of the dark page, also if the evening comes while the page
    is open.
    """
    ground = lambda: browser.script("return getComputedStyle(document.body).backgroundColor")  # noqa: E731
    reader = opened(_data([_key("a", "/home")]))
    reader.check_bands()
    by_day = ground()
    browser.media(prefers_color_scheme="dark")
    browser.until(lambda: reader.pixels("#zoom", "accent") > 20, "a dark chart")
    reader.check_bands()
    assert ground() != by_day
    assert reader.histograms() == {"count": BARS, "distinct_user": BARS, "maximum": 0}
    bars = {bar.get_attribute("fill") for bar in browser.all("#histograms .card rect")}
    dark = "getComputedStyle(document.documentElement).getPropertyValue('--bar').trim()"
    assert browser.script(f"return {dark}") in bars
