"""Lengths of time and of windows, as people write them."""

import re
from dataclasses import dataclass
from fractions import Fraction

from slidestat.errors import SlidestatError

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]+)\s*(ms|s|m|h|d)")
_PERCENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%")
_EVENTS = re.compile(r"([0-9][0-9_]*)\s*events?")
# A century, as in the times that an event may have; far from the limits of what is computed.
_LONGEST_DAYS = 36_525
_MOST_EVENTS = 10**12
# Python reads no number of thousands of digits; no length has so many.
_MOST_DIGITS = 20
_SHOWN = 40


def duration_ms(text: str, field: str) -> int:
    """Return the milliseconds of a duration: "250ms", "90s", "5m", "1h", "7d"; 0 is allowed."""
    match = _matched(_DURATION, text)
    if match is None:
        raise SlidestatError(
            f"{field} is {_shown(text)}, which is not a duration.",
            'Write a whole number and a unit: "250ms", "90s", "5m", "1h" or "7d".',
        )
    number = _whole(match[1])
    if number is None or number * _UNIT_MS[match[2]] > _LONGEST_DAYS * _UNIT_MS["d"]:
        raise SlidestatError(
            f"{field} is {_shown(text)}, more than a century.", f'Give at most "{_LONGEST_DAYS}d".'
        )
    return number * _UNIT_MS[match[2]]


def sequence_length(text: str, field: str) -> int:
    """Return the length in events of "1000 events" of a sequence; 0 is allowed, in any unit."""
    match = _matched(_EVENTS, text)
    if match is not None:
        return _events(match, text, field)
    duration = _matched(_DURATION, text)
    if duration is not None and _whole(duration[1]) == 0:
        return 0
    raise SlidestatError(
        f"{field} is {_shown(text)}, but event times are numbers of a sequence.",
        'Give a number of events, such as "1000 events".',
    )


def share_of(text: str) -> Fraction:
    """Return the share that a `tolerance` such as "5%" is, from 0 to below 1."""
    match = _matched(_PERCENT, text)
    share = Fraction(match[1]) / 100 if match is not None else Fraction(1)
    if share >= 1:
        raise SlidestatError(
            f"tolerance is {_shown(text)}.", 'Give a share from "0%" to below "100%", such as "5%".'
        )
    return share


def _matched(form: re.Pattern[str], text: object) -> re.Match[str] | None:
    """Match the form; a declaration may have anything in a text's place."""
    return form.fullmatch(text.strip()) if isinstance(text, str) else None


def _events(match: re.Match[str], text: str, field: str) -> int:
    length = _whole(match[1].replace("_", ""))
    if length is None or length > _MOST_EVENTS:
        raise SlidestatError(
            f"{field} is {_shown(text)}.", f'Give at most "{_MOST_EVENTS:_} events".'
        )
    return length


def _whole(digits: str) -> int | None:
    """Return the number, None for one beyond every limit."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MOST_DIGITS else None


def _shown(text: object) -> str:
    """Return the text, or its beginning if it is long."""
    shown = repr(text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


@dataclass(frozen=True, order=True)
class WindowLength:
    """The length of a window: of event time, or a number of the key's events."""

    length: int
    of_events: bool

    def is_longer_than(self, span: "WindowLength") -> bool:
        """Return whether a window may be longer than a span of its kind."""
        return int(self.length) > span.length


def number_of_events(text: str, field: str) -> int | None:
    """Return the number that is written as "1000 events", 0 too; None for another text."""
    match = _matched(_EVENTS, text)
    return None if match is None else _events(match, text, field)


def window_length(text: str, field: str) -> WindowLength:
    """Return the length that is written as a duration or as "1000 events"; raises SlidestatError
    for another text, and for a length of 0.
    """
    events = number_of_events(text, field)
    length = duration_ms(text, field) if events is None else events
    if length < 1:
        raise SlidestatError(f"{field} is 0.", 'Give a length such as "1h" or "1000 events".')
    return WindowLength(length, events is not None)
