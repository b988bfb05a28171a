"""What `slidestat dlq count` and `slidestat dlq show` print."""

import pytest

from slidestat import Count, Topology, TopologyDriver
from slidestat.admin.letters import Letter
from slidestat.cli.display.lines import count_lines, letter_lines

TOPOLOGY = Topology(
    name="letters", source="requests", span="1h", every="1m", time_field="at", statistics=(Count(),)
)


def counted(*values: bytes) -> list[str]:
    """The lines for the letters of some records."""
    driver = TopologyDriver(TOPOLOGY)
    for value in values:
        driver.send_bytes(value)
    letters = (
        Letter(
            topic="requests",
            partition=0,
            offset=offset,
            reason=letter.reason,
            detail=letter.detail,
            timestamp_ms=0,
            value=value.decode(),
        )
        for offset, (value, letter) in enumerate(zip(values, driver.dead_letters, strict=True))
    )
    return list(count_lines("letters-dead-letters", letters, as_json=False))


def test_each_reason_has_a_record_that_shows_it() -> None:
    """The newest one, as fields that are there tell what another is called."""
    head, *lines = counted(
        b'{"key": "a"}', b'{"key": "a", "timestamp": 7}', b'{"key": "a", "at": "noon"}'
    )
    assert head == "letters-dead-letters: 3 open letters"
    assert lines[0].split()[:2] == ["2", "missing-field"]
    assert lines[1].strip() == 'of the record: {"key": "a", "timestamp": 7}'
    assert not any("Are these seconds" in line for line in lines)


def test_times_in_seconds_are_guessed() -> None:
    """A number of milliseconds that long ago is most often one of seconds."""
    assert counted(b'{"key": "a", "at": 1764000000}')[-1].strip() == (
        'Are these seconds? Then declare time_format = "s".'
    )


@pytest.mark.parametrize(
    ("timestamp_ms", "shown"),
    [
        (-1, "(1970-01-01T00:00:00Z)"),
        (1_764_072_000, "(1970-01-21T10:01:12Z)"),
        (1_764_072_000_999, "(2025-11-25T12:00:00Z)"),
        (1_764_072_000_000_000, "(1,764,072,000,000,000 ms)"),
        (2**62 - 1, "(4,611,686,018,427,387,903 ms)"),
    ],
)
def test_any_timestamp_of_a_record_is_shown(timestamp_ms: int, shown: str) -> None:
    """Brokers take timestamps in any unit: those that have no date are shown as they are."""
    letter = Letter(
        topic="requests",
        partition=0,
        offset=7,
        reason="bad-time",
        detail="none",
        timestamp_ms=timestamp_ms,
    )
    first, *_ = letter_lines([letter], 1, as_json=False)
    assert first.endswith(f"  {shown}")
