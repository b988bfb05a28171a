"""A plugin for pytest that runs a third of the tests: `-p tests.thirds --third 0`, 1 or 2. With
`--third-of tests/spark/` it is a third of that folder's, and all others.

CI runs a third of the laws, of Spark's and of the longest tests at each commit, in turn, so that
any three in a row have all.
"""

import pytest

_THIRDS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--third", type=int, choices=range(_THIRDS), required=True)
    parser.addoption("--third-of", default="")


@pytest.hookimpl(trylast=True)  # of what marks, names and the sample leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the others. Cases of one test are in all thirds."""
    folder = config.getoption("third_of")
    names = sorted(item.nodeid for item in items if item.nodeid.startswith(folder))
    left_out = set(names).difference(names[config.getoption("third") :: _THIRDS])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
