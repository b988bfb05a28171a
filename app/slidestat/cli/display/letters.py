"""Format the output of `slidestat dlq`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from slidestat.admin.letters import Letter, Sent
from slidestat.schemas.event import EARLIEST_TIME_MS

_SHOWN_CHARACTERS = 200
_UNDER_REASON = " " * 14
# The message of msgspec for a number of milliseconds that was long ago.
_IS_TOO_EARLY = f">= {EARLIEST_TIME_MS}"


def count_lines(topic: str, letters: Iterable[Letter], *, as_json: bool) -> Iterator[str]:
    """Yield how many letters have each reason, the most frequent first, with the newest detail."""
    counts: Counter[str] = Counter()
    newest: dict[str, Letter] = {}
    for letter in letters:
        counts[letter.reason] += 1
        newest[letter.reason] = letter
    if as_json:
        yield from (
            msgspec.json.encode({"reason": reason, "letters": count}).decode()
            for reason, count in counts.most_common()
        )
        return
    yield f"{topic}: {counts.total():,} open letters"
    for reason, count in counts.most_common():
        one = newest[reason]
        yield f"  {count:>10,}  {reason:<16}  such as: {one.detail}"
        yield f"{_UNDER_REASON}of the record: {_shown(one.value, one.value_base64)}"
        if _IS_TOO_EARLY in one.detail:
            yield f'{_UNDER_REASON}Are these seconds? Then declare time_format = "s".'


def letter_lines(letters: Iterable[Letter], limit: int, *, as_json: bool) -> Iterator[str]:
    """Yield the letters one by one: for a person, or whole, as lines of JSON."""
    if as_json:
        yield from (msgspec.json.encode(letter).decode() for letter in letters)
        return
    shown = 0
    for letter in letters:
        if shown == limit:
            yield "... and more; --limit shows them, --json gives all, to be corrected."
            return
        shown += 1
        moment = datetime.fromtimestamp(max(letter.timestamp_ms, 0) / 1000, UTC)
        yield (
            f"{letter.topic}/{letter.partition}/{letter.offset}  {letter.reason}: {letter.detail}"
            f"  ({moment:%Y-%m-%dT%H:%M:%SZ})"
        )
        key = _shown(letter.key, letter.key_base64)
        value = _shown(letter.value, letter.value_base64)
        yield f"    key    {key}{_cut(letter.original_key_bytes)}"
        yield f"    value  {value}{_cut(letter.original_value_bytes)}"
        for header in letter.headers:
            yield f"    header {header.name} = {_shown(header.value, header.value_base64)}"
        if letter.original_header_count is not None:
            yield f"    (the first of {letter.original_header_count:,} headers)"
    if not shown:
        yield "No open letters."


def sent_lines(sent: Sent, source: str) -> Iterator[str]:
    """Yield the lines about which corrected letters were sent."""
    yield f"{sent.sent:,} records sent to {source}, {sent.closed_before:,} had been sent before."
    if sent.sent:
        yield (
            "Those older than the watermark of their partition are late: for those, lengthen the"
            " lateness and replay."
        )


def _cut(original_bytes: int | None) -> str:
    return "" if original_bytes is None else f" (the beginning of {original_bytes:,} bytes)"


def _shown(text: str | None, encoded: str | None) -> str:
    if encoded is not None:
        return f"(no text, base64) {encoded[:_SHOWN_CHARACTERS]}"
    if text is None:
        return "(none)"
    # Escaped where something could act on the terminal.
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:_SHOWN_CHARACTERS])
    more = len(text) - _SHOWN_CHARACTERS
    return f"{shown} ... {more:,} characters more" if more > 0 else shown
