"""A plugin for pytest that runs a third of the tests: `-p tests.thirds --third 0`, 1 or 2.

CI runs a third of the laws and of the longest tests at each commit, in turn, so that any three in a
row have all.
"""

import pytest

_THIRDS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--third", type=int, choices=range(_THIRDS), required=True)


@pytest.hookimpl(trylast=True)  # of what marks, names and the sample leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the others. Cases of one test are in all thirds."""
    names = sorted(item.nodeid for item in items)
    chosen = set(names[config.getoption("third") :: _THIRDS])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]
