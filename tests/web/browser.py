"""A headless Chromium for the tests of pages; Debian's packages have it, and its driver."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.machine import CHROMIUM

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
)
_WAIT_S = 20.0


def _program(*names: str) -> str:
    for name in names:
        if found := shutil.which(name):
            return found
    pytest.fail(
        f"no {names[0]} is on the PATH: install it with its driver, on Debian and Ubuntu with"
        " `apt-get install chromium chromium-driver`",
        pytrace=False,
    )


class Browser:
    """What a person does on the page, and what there is to see."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """As in a new tab: nothing of the page before stays."""
        self.close()
        self.driver.get(url)

    def close(self) -> None:
        """An empty page, which asks no worker for anything."""
        self.driver.get("about:blank")

    def clear(self, url: str) -> None:
        """Forget what the tab keeps of this page."""
        self.driver.get(url)
        self.script("sessionStorage.clear()")

    def find(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def texts(self, css: str) -> list[str]:
        """The texts of all such elements, as they are in the document, at one moment."""
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        found: list[str] = self.script(script, css)
        return found

    def text(self, css: str) -> str:
        (text,) = self.texts(css)
        return text

    def script(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Return once it is so; AssertionError, naming `what`, if that takes too long."""
        try:
            WebDriverWait(self.driver, _WAIT_S, poll_frequency=0.05).until(lambda _: condition())
        except Exception as error:
            seen = self.script("return document.body.innerText")
            raise AssertionError(f"not within {_WAIT_S:.0f} s: {what}\n{seen}") from error

    def module(self, file: str, body: str, argument: object = None) -> Any:
        """Run `body` with a module of the page's, as `module`, and arguments[0]; its result."""
        script = (
            "const [argument, done] = arguments; const run = (module) => "
            f"(function () {{ {body} }})(argument); import('/static/{file}').then(run).then(done);"
        )
        return self.driver.execute_async_script(script, argument)

    def media(self, **features: str) -> None:
        """Set media features, such as prefers_color_scheme="dark"."""
        listed = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": listed})

    def size(self, width: int, height: int = 900) -> None:
        """The page's size, in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def errors(self) -> list[str]:
        """What the browser complained of since it was last asked: errors, refused by policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with a new profile; the test fails, saying what to install, where there is none."""
    options = webdriver.ChromeOptions()
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.binary_location = _program(*CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(_program("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
