"""A plugin for pytest that runs a sample of the tests: `-p tests.sampled`.

Of each file it runs one case of each test at least, and as many as give each value of a parameter a
turn in one of the tests. Of what hypothesis draws it runs the first examples. So kernels are called
in all ways, and a run takes a tenth of the time.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import settings

_MOST_EXAMPLES = 3

_plain_init = settings.__init__


def _few(self: settings, parent: settings | None = None, **named: Any) -> None:
    if "max_examples" in named:
        named["max_examples"] = min(named["max_examples"], _MOST_EXAMPLES)
    _plain_init(self, parent, **named)


settings.__init__ = _few  # type: ignore[method-assign] - before any test module is imported
settings.register_profile("sampled", max_examples=_MOST_EXAMPLES)
settings.load_profile("sampled")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other cases."""
    files: dict[object, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    kept = {item for cases in files.values() for item in _sample(cases)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _sample(cases: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield cases of a file's tests, of each test in turn, until all values were in one."""
    tests: dict[str, deque[pytest.Item]] = defaultdict(deque)
    for case in cases:
        tests[case.nodeid.partition("[")[0]].append(case)
    seen: set[object] = set()
    is_first = True
    while tests:
        for name, left in list(tests.items()):
            while left and not is_first and _values(left[0]) <= seen:
                left.popleft()
            if left:
                seen |= _values(left[0])
                yield left.popleft()
            else:
                del tests[name]
        is_first = False


def _values(case: pytest.Item) -> set[object]:
    parameters = getattr(getattr(case, "callspec", None), "params", {})
    return {
        (name, value if isinstance(value, str | int | float) else id(value))
        for name, value in parameters.items()
    }
