"""A plugin for pytest that runs a sample of the tests: `-p tests.sampled`.

Of each test it runs as many cases as give each value of each parameter its turn, and of what
hypothesis draws it runs the first examples. So all kinds of calls are made, and a run takes a
fifth of the time.
"""

from typing import Any

import pytest
from hypothesis import settings

_MOST_EXAMPLES = 10

_plain_init = settings.__init__


def _few(self: settings, parent: settings | None = None, **named: Any) -> None:
    if "max_examples" in named:
        named["max_examples"] = min(named["max_examples"], _MOST_EXAMPLES)
    _plain_init(self, parent, **named)


settings.__init__ = _few  # type: ignore[method-assign] - before any test module is imported
settings.register_profile("sampled", max_examples=_MOST_EXAMPLES)
settings.load_profile("sampled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out a case whose values have all had their turn in cases before."""
    seen: set[tuple[str, str, object]] = set()
    kept, others = [], []
    for item in items:
        cases = getattr(getattr(item, "callspec", None), "params", {})
        test = item.nodeid.partition("[")[0]
        values = {
            (test, name, value if isinstance(value, str | int | float) else id(value))
            for name, value in cases.items()
        }
        (kept if values - seen or not values else others).append(item)
        seen |= values
    items[:] = kept
    config.hook.pytest_deselected(items=others)
