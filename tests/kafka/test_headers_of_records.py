"""Headers whose names are no UTF-8 end nobody who reads a topic with librdkafka's client."""

import re
from pathlib import Path
from typing import Any, cast

import pytest

import slidestat
from slidestat.kafka.read import scan
from slidestat.kafka.read.scan import headers_of

_Headers = list[tuple[str, bytes | None]] | None


class Record:
    """A record as the client gives it: of headers that it cannot decode it raises an error, once,
    and then gives what nobody may look at.
    """

    def __init__(self, headers: _Headers, *, is_decodable: bool = True) -> None:
        self._headers = headers
        self._is_decodable, self._was_asked = is_decodable, False

    def headers(self) -> _Headers:
        assert self._is_decodable or not self._was_asked
        self._was_asked = True
        if not self._is_decodable:
            raise SystemError
        return self._headers

    def set_headers(self, headers: _Headers) -> None:
        self._headers, self._is_decodable = headers, True


@pytest.mark.parametrize("headers", [None, [], [("a", b"1"), ("a", None), ("", b"")]])
def test_they_are_those_of_the_record(headers: _Headers) -> None:
    """In their order, also where several have one name."""
    assert [*headers_of(cast(Any, Record(headers)))] == (headers or [])


def test_one_that_cannot_be_decoded_has_none() -> None:
    """However often they are asked for: who moves a record reads them, and then sends them."""
    record = Record([("a", b"1")], is_decodable=False)
    for _ in range(2):
        assert not headers_of(cast(Any, record))


def test_all_who_read_records_ask_for_headers_in_one_way() -> None:
    """A foreign record of a changelog ends no restore, nor a command that looks at a state."""
    asking = [
        path
        for path in Path(slidestat.__file__).parent.rglob("*.py")
        if re.search(r"\.headers\(\)", path.read_text("utf-8"))
    ]
    assert asking == [Path(scan.__file__)]
