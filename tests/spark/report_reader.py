"""What a person sees of a report in a browser."""

from pathlib import Path

from selenium.webdriver.support.ui import Select

from tests.web.browser import Browser

# How many pixels of a chart have a colour of the page's; what is translucent keeps its own.
_PIXELS = """
const [place, name] = arguments;
const canvas = document.querySelector(`${place} canvas`);
const { width, height } = canvas;
const copy = new OffscreenCanvas(width, height + 1).getContext("2d", { willReadFrequently: true });
copy.drawImage(canvas, 0, 0);
copy.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
copy.fillRect(0, height, 1, 1);
const wanted = copy.getImageData(0, height, 1, 1).data;
const found = copy.getImageData(0, 0, width, height).data;
let count = 0;
for (let at = 0; at < found.length; at += 4) {
  if (wanted.every((part, place) => Math.abs(part - found[at + place]) <= 8)) count += 1;
}
return count;
"""
_HISTOGRAMS = """
const cards = [...document.querySelectorAll("#histograms .card")];
const seen = (bar) => bar.getBoundingClientRect().height > 0;
return Object.fromEntries(cards.map((card) => [
  card.querySelector("h3").firstChild.data,
  [...card.querySelectorAll("rect")].filter(seen).length,
]));
"""
_SIZES = """
return [...document.querySelectorAll(arguments[0])].map((e) => {
  const { width, height } = e.getBoundingClientRect();
  return Math.min(width, height);
});
"""


class ReportReader:
    """A report that is open."""

    def __init__(self, browser: Browser, file: Path) -> None:
        self.browser = browser
        browser.open(file.as_uri())

    def choose(self, what: str, number: int) -> None:
        """Choose one of the keys, figures or windows."""
        Select(self.browser.find(f"#{what}")).select_by_index(number)

    def pixels(self, place: str, colour: str) -> int:
        """How many pixels of a chart have that colour."""
        count: int = self.browser.script(_PIXELS, place, colour)
        return count

    def check_bands(self) -> None:
        """Both charts have the estimate and the exact figure; around this one, there is a band."""
        for place in ("#line", "#zoom"):
            assert self.pixels(place, "accent") > 20, place
            assert self.pixels(place, "exact") > 20, place
        assert self.pixels("#zoom", "band") > 500

    def histograms(self) -> dict[str, int]:
        """How many bars are seen of each statistic's errors."""
        bars: dict[str, int] = self.browser.script(_HISTOGRAMS)
        return bars

    def check_bars(self, place: str, rows: int) -> None:
        """So many rows have a bar that is seen."""
        sizes = self.browser.script(_SIZES, f"{place} .track .exact")
        assert len(sizes) == rows
        assert min(sizes) > 1

    def check_width(self) -> None:
        """Nothing has to be scrolled to sideways, no chart is cut, and both are as wide."""
        wide, seen, charts = self.browser.script(
            "const page = document.documentElement;"
            "const rights = [...document.querySelectorAll('.uplot, svg, .bars, .facts, .card')]"
            ".map((e) => e.getBoundingClientRect().right);"
            "return [page.scrollWidth, page.clientWidth, Math.max(...rights)]"
        )
        assert wide <= seen
        assert charts <= seen
        first, second = (chart.rect["width"] for chart in self.browser.all(".uplot"))
        assert first == second
