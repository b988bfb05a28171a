"""Take the documentation's picture of a report: `python -m scripts.picture_of_report TARGET.png`.

Sends real flights to a broker, fills a lake with what a worker would have written, audits it, and
looks at the report with a headless Chromium (with its driver). Takes a minute, and one more where
kernels must be compiled.
"""

import sys
import tempfile
from base64 import b64decode
from dataclasses import replace
from importlib import resources
from pathlib import Path

from slidestat.admin.topics import create_topology_topics
from slidestat.declare.forms.files import load_topology
from slidestat.declare.forms.resolved import resolved
from slidestat.declare.statistics import Count, Quantiles, TopItems
from slidestat.local.broker import LocalBroker
from slidestat.produce.events import Columns
from slidestat.produce.produce import produce_file
from slidestat.spark.session import spark_session
from tests.web.browser import Browser, chromium

EVENTS = 240_000
WIDTH = 1120
SCALE = 0.8  # of which the file is small enough for a document
PARTITIONS = 4
KEYS = ["ATL", "ORD"]


def write_report(file: Path, folder: Path) -> None:
    """The report of an audit of `flights`, with those statistics alone that a row has room for."""
    statistics = (
        Count(),
        Quantiles(quantiles=(0.5, 0.9, 0.99)),
        TopItems(field="destination", limit=5),
    )
    topology = replace(load_topology("flights"), statistics=statistics)
    columns = Columns(key="origin", time="date", value="delay", more=("destination",))
    with LocalBroker() as broker, spark_session("picture") as spark:
        from slidestat.spark.audit.audit import Audit
        from slidestat.spark.backfill.backfill import fill_lake
        from slidestat.spark.backfill.history import read_topic
        from slidestat.spark.lake.lake import Lake
        from slidestat.spark.report.page import report_data, write_page

        address = broker.bootstrap_servers
        create_topology_topics(address, topology, PARTITIONS)
        with resources.as_file(
            resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
        ) as sent:
            produce_file(sent, address, topology.source, columns=columns, limit=EVENTS)
        lake = Lake(str(folder / "lake"), topology.name)
        fill_lake(topology, read_topic(spark, topology, address), lake, PARTITIONS)
        Audit(spark, address, lake, resolved(topology)).run()
        write_page(report_data(spark, lake, KEYS), file)


def take(browser: Browser, file: Path, target: Path) -> None:
    """The whole page, as wide as a document shows it."""
    browser.media(prefers_color_scheme="light")
    browser.size(WIDTH)
    browser.open(file.as_uri())
    height = browser.script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": SCALE}
    asked = {"clip": clip, "captureBeyondViewport": True}
    picture = browser.driver.execute_cdp_cmd("Page.captureScreenshot", asked)
    target.write_bytes(b64decode(picture["data"]))


def main(target: Path) -> None:
    """Write the report, look at it, take the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_report(folder / "report.html", folder)
        with chromium(folder / "profile") as browser:
            take(browser, folder / "report.html", target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
