"""Kernels whose arguments are addresses have no golden vectors: a producer tries them."""

from collections.abc import Callable
from typing import Any

import numba
import pytest

from slidestat.errors import SlidestatError
from slidestat.kafka import column_producer
from slidestat.kernels import units

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there is no machine code")


@pytest.fixture
def tried() -> Callable[[], None]:
    """What a producer calls before it takes the first record."""
    return column_producer._try_machine_code.__wrapped__


def test_they_do_what_their_source_does(tried: Callable[[], None]) -> None:
    """On this machine."""
    tried()


def test_reports_that_are_passed_over_are_refused(
    tried: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost record would be taken for one that is under way, or acknowledged."""
    nothing = column_producer._OnDelivery(lambda *_: None)
    monkeypatch.setattr(column_producer, "_on_delivery", lambda: nothing)
    with pytest.raises(
        SlidestatError, match=r"column_producer\._take_report does not do"
    ) as refused:
        tried()
    assert refused.value.advice.startswith("Delete")


def test_records_that_are_given_otherwise_are_refused(
    tried: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the last record is never given."""
    sound: Any = column_producer._produce

    class Wrong:
        py_func = staticmethod(sound.py_func)

        def __call__(self, *arguments: Any) -> Any:
            return sound(*arguments[:-1], arguments[-1][:1])

    monkeypatch.setattr(column_producer, "_produce", Wrong())
    monkeypatch.setattr(units, "folder_of", lambda _: "the folder")  # Such an object has no key.
    with pytest.raises(SlidestatError, match=r"column_producer\._produce does not do"):
        tried()
