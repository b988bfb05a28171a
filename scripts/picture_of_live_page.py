"""Take the README's picture of the live page: `python -m scripts.picture_of_live_page TARGET.png`.

Runs a broker, the topology `flights` and a headless Chromium (with its driver), and sends real
flights while the page looks on. Takes a minute, and one more where kernels must be compiled.
"""

import re
import sys
import tempfile
import threading
import time
from importlib import resources
from pathlib import Path

from slidestat.admin.topics import create_topology_topics
from slidestat.declare.forms.files import load_topology
from slidestat.demo.run import Workers
from slidestat.local.broker import LocalBroker
from slidestat.produce.events import Columns
from slidestat.produce.produce import produce_file
from tests.web.browser import Browser, chromium

EVENTS_A_SECOND = 8_000.0
WATCHED_EVENTS = 320_000
WATCHED_S = 36.0  # and while they still come, the picture is taken
START_S = 600.0  # the first worker compiles kernels


def answering_at(log: Path) -> str:
    """The URL that a worker's log tells once the worker is ready."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        said = log.read_text()
        found = re.search(r"answers at (http://\S+)", said)
        if found and "ready, partitions" in said:
            return found[1]
        time.sleep(0.2)
    raise TimeoutError(log.read_text())


def take(browser: Browser, url: str, target: Path) -> None:
    """Look at all airports until three days have passed, as large as the README shows it."""
    browser.media(prefers_color_scheme="light")
    browser.size(1180, 860)
    browser.open(f"{url}/#/flights?by=count_1d")
    time.sleep(WATCHED_S)
    browser.driver.save_screenshot(str(target))


def main(target: Path) -> None:
    """Start everything, send the flights, take the picture, end everything."""
    topology = load_topology("flights")
    columns = Columns(key="origin", time="date", value="delay", more=("destination",))
    with tempfile.TemporaryDirectory() as name, LocalBroker() as broker:
        folder = Path(name)
        create_topology_topics(broker.bootstrap_servers, topology, 4)
        with (
            Workers(Path("flights"), broker.bootstrap_servers, folder, 1),
            chromium(folder / "profile") as browser,
            resources.as_file(
                resources.files("slidestat.demo") / "data" / "flights-2001.parquet"
            ) as file,
        ):
            url = answering_at(folder / "worker-1.log")

            def send() -> None:
                address = broker.bootstrap_servers
                produce_file(
                    file,
                    address,
                    topology.source,
                    columns=columns,
                    limit=WATCHED_EVENTS,
                    rate=EVENTS_A_SECOND,
                )

            sending = threading.Thread(target=send)
            sending.start()
            take(browser, url, target)
            sending.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
