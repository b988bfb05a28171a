"""The report's page: one HTML file that needs no other, with data and the charts' code in it."""

from importlib import resources
from pathlib import Path

import msgspec

from slidestat.errors import SlidestatError
from slidestat.spark.report.report_data import ReportData

_PARTS = resources.files("slidestat.spark.report") / "static"
_CHARTS = resources.files("slidestat.web") / "static" / "vendor" / "uplot"
# The charts' code is a module; here it and ours are one script.
_EXPORT = "export { uPlot as default };"


def write_page(data: ReportData, file: Path) -> None:
    """Write the page; raises SlidestatError if the file cannot be written."""
    try:
        file.write_text(page_of(data), encoding="utf-8")
    except OSError as error:
        raise SlidestatError(
            f"{file} cannot be written: {error.strerror}.", "Give another --output."
        ) from error


def page_of(data: ReportData) -> str:
    """Return the page as text.

    Keys and items are foreign texts: in the data no "<" is left that could end its element, and the
    page's code writes them as text alone.
    """
    encoded = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    charts = (_CHARTS / "uPlot.esm.js").read_text("utf-8").replace(_EXPORT, "")
    page = (_PARTS / "report.html").read_text("utf-8")
    for place, text in (
        ("/*charts-style*/", (_CHARTS / "uPlot.min.css").read_text("utf-8")),
        ("/*style*/", (_PARTS / "report.css").read_text("utf-8")),
        ("/*charts*/", charts),
        ("/*code*/", (_PARTS / "report.js").read_text("utf-8")),
        ("/*data*/", encoded),
    ):
        page = page.replace(place, text)
    return page
