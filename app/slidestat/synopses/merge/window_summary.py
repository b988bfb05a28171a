"""Summaries of single windows, as bytes that merge: hours into days, keys into groups.

A state answers for windows that end now; a summary is what one window leaves behind. Summaries of
separate windows (other times, other keys, other partitions) merge into that of all of them, of any
length, in bounded space, with lower and upper bounds that hold however merges are grouped.

>>> from slidestat.synopses import CountParameters, ExponentialHistogram
>>> from slidestat.synopses import merge_summaries, read_summary, take_summary
>>> hours = []
>>> for times in ([1_000, 2_000, 59_000], [61_500, 100_000]):
...     visits = ExponentialHistogram.create(CountParameters(epsilon=0.1, span=60_000))
...     visits.insert(times)
...     hours.append(take_summary(visits.to_bytes(), 60_000))
>>> read_summary(merge_summaries(hours)).answer()
SummaryAnswer(estimate=5.0, lower=5.0, upper=5.0, error=0.0)
"""

from collections.abc import Sequence
from typing import Any, get_args

from slidestat.synopses.core.envelope import damaged, kind_of
from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.merge.distinct import WindowDistinct, WindowLeanDistinct
from slidestat.synopses.merge.items import WindowItems
from slidestat.synopses.merge.quantiles import WindowQuantiles
from slidestat.synopses.merge.spreads import WindowSpread
from slidestat.synopses.merge.summary import WindowSummary, opened_summary
from slidestat.synopses.merge.totals import WindowExtreme, WindowTotals
from slidestat.synopses.merge.value_quantiles import WindowValueQuantiles

AnySummary = (
    WindowTotals
    | WindowExtreme
    | WindowSpread
    | WindowQuantiles
    | WindowItems
    | WindowDistinct
    | WindowValueQuantiles
    | WindowLeanDistinct
)

_FORMS: tuple[type[WindowSummary], ...] = get_args(AnySummary)
_OF_FORM = {form.form: form for form in _FORMS}
_OF_KIND = {kind: form for form in _FORMS for kind in form.kinds}

KINDS = frozenset(_OF_KIND)
"""The kinds of synopses that have a summary of a window."""


def take_summary(state: bytes, n: int, now: int | None = None) -> bytes:
    """Return the summary of the window [now - n, now) of a stored synopsis.

    state: exponential histogram, count or sum wave, extreme, spread, quantiles by value or by rank,
    frequent items with or without names, randomised wave, lean distinct items. 1 <= n <= its span;
    `now` is the synopsis's own if None, and never before it. Raises SynopsisError for anything
    else. Cost: O(bytes).
    """
    kind = kind_of(state)
    if kind not in _OF_KIND:
        raise SynopsisError(f"a synopsis of kind {kind} has no summary of a window")
    return _OF_KIND[kind].take(bytes(state), n, now).to_bytes()


def merge_summaries(summaries: Sequence[bytes]) -> bytes:
    """Return the summary of all windows as one; its order does not matter.

    Merge many at a time: summaries of quantiles lose a little at each merge of large ones. Raises
    SynopsisError for none, for summaries of different things, and for bytes that are none.
    Cost: O(bytes * log).
    """
    read: list[Any] = [read_summary(summary) for summary in summaries]
    if not read:
        raise SynopsisError("there is nothing to merge: at least one summary is needed")
    first, *others = read
    for other in others:
        if type(other) is not type(first):
            raise SynopsisError(
                "summaries can be merged if they are of the same, not a "
                f"{type(first).__name__} and a {type(other).__name__}"
            )
    merged: WindowSummary = first.merge(*others)
    return merged.to_bytes()


def read_summary(data: bytes) -> AnySummary:
    """Read a stored summary; raises SynopsisError for anything else. Cost: O(bytes * log)."""
    form, body = opened_summary(data)
    if form not in _OF_FORM:
        raise damaged()
    summary: Any = _OF_FORM[form].from_body(body)
    if summary.to_bytes() != bytes(data):
        raise damaged()
    found: AnySummary = summary
    return found
