"""A worker for the tests of the live page."""

from collections.abc import Iterator

import pytest

from tests.web.browser import Browser
from tests.web.page_server import Shop, shop


@pytest.fixture
def worker(browser: Browser) -> Iterator[Shop]:
    """A worker of the topology `shop`, without events; it goes after the page that asks it."""
    with shop() as worker:
        yield worker
        browser.close()
