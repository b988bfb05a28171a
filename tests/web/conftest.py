"""One browser for all tests of the page."""

from collections.abc import Iterator

import pytest

from tests.web.browser import Browser, chromium
from tests.web.page_server import Shop, shop


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """The session's browser, on an empty page; whatever it complained of fails the test."""
    one_browser.close()
    one_browser.size(1280)
    one_browser.media(prefers_color_scheme="light")
    one_browser.faults()
    yield one_browser
    assert one_browser.faults() == []


@pytest.fixture
def worker(browser: Browser) -> Iterator[Shop]:
    """A worker of the topology `shop`, without events; it goes after the page that asks it."""
    with shop() as worker:
        yield worker
        browser.close()
