"""A letter as a record: whose headers are whose, and what is cut of one that is too large."""

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given, strategies as st

from slidestat.admin import letters
from slidestat.engine.intake.letters import Letter
from slidestat.kafka.letter_record import AROUND_BYTES, letter_record
from slidestat.schemas.dead_letter import (
    HEADER_COUNT,
    ORIGINAL_KEY,
    VALUE_BYTES,
    DeadLetterHeaders,
    Header,
    Reason,
    original_headers,
)

NAMES = st.sampled_from(
    [
        *DeadLetterHeaders.__struct_fields__,
        *(ORIGINAL_KEY, HEADER_COUNT, "original_header_", "original_header_topic", "trace", ""),
    ]
) | st.text(max_size=20)
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=40)), max_size=12)


def letter(headers: list[Header], value: bytes = b"?") -> Letter:
    return Letter(7, b"k", value, 5, Reason.NOT_JSON, "no JSON", headers)


@given(HEADERS)
def test_a_letter_has_the_headers_of_its_record(headers: list[Header]) -> None:
    """Whatever their names are, a letter's own are told apart from them, and both are whole."""
    record = letter_record(letter(headers), "t", "events", 3)
    assert original_headers(record.headers) == headers
    newest = {name: value for name, value in record.headers if value is not None}
    assert DeadLetterHeaders.decode(newest.items()) == DeadLetterHeaders(
        Reason.NOT_JSON, "no JSON", "events", 3, 7, "t"
    )
    assert newest[ORIGINAL_KEY] == b"k"


@given(HEADERS, st.integers(0, 400), st.integers(0, 300))
def test_a_letter_fits_its_topic(headers: list[Header], room: int, value_bytes: int) -> None:
    """Key, value and headers, with a header's lengths, are within the room; of headers the first
    ones are left, and the letter says how many there were.
    """
    record = letter_record(letter(headers, b"v" * value_bytes), "t", "events", 3, room)
    left = original_headers(record.headers)
    assert left == headers[: len(left)]
    told = dict(record.headers).get(HEADER_COUNT)
    assert told == (None if left == headers else b"%d" % len(headers))
    size = len(record.value or b"") + len(dict(record.headers).get(ORIGINAL_KEY) or b"")
    size += sum(len(name.encode()) + len(value or b"") for name, value in left)
    assert size <= room


def test_very_many_headers_are_no_more_than_the_letter_takes() -> None:
    """A million empty ones have some bytes each on the wire."""
    record = letter_record(letter([("", None)] * 1_000_000), "t", "events", 3)
    assert sum(10 + len(name) for name, _ in record.headers) < 2**20 + AROUND_BYTES
    assert (HEADER_COUNT, b"1000000") in record.headers


def test_sizes_that_no_worker_wrote_are_none() -> None:
    """A header of their name may have any bytes, also digits that Python makes no number of."""
    wrote = DeadLetterHeaders(Reason.NOT_JSON, "no", "events", 0, 7, "t").encode()
    for size in (b"9" * 5_000, b"-1", "²".encode(), b""):
        message = SimpleNamespace(
            headers=lambda size=size: [*wrote, (VALUE_BYTES, size)],
            value=lambda: b"?",
            timestamp=lambda: (1, 0),
        )
        found = letters._letter(cast(Any, message))
        assert found is not None
        assert found.original_value_bytes is None
