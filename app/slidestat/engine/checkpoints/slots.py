"""The places of synopses in a key's state, once statistics were added or removed while states were
kept.

States are written key by key, so those from before a change stay as they are until their keys have
events. A synopsis keeps its place for ever: what is added comes behind the others, and what is
removed leaves its place empty. So a state from before has the first places, and needs no rewriting.

A statistic that was added takes in the events from `start` on, in records from `first_offset` on:
every state had absorbed only what lies before, and no record before was judged by it.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from slidestat.errors import SlidestatError

_MOST = 255
_SEPARATOR = "; "


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """A synopsis's place: its meaning, "" if it is no longer kept; and of one that was added, from
    which time and which offset on.
    """

    meaning: str
    start: int | None = None
    first_offset: int = 0


Slots = tuple[Slot, ...]


def slots_of(meanings: Iterable[str]) -> Slots:
    """Return the slots of states that have had each synopsis from the beginning."""
    return tuple(map(Slot, meanings))


def split_meanings(text: str, known: Collection[str]) -> list[str]:
    """Split what was joined, where those that are `known` may have the separator in them."""
    found = []
    while text:
        fitting = (it for it in known if text == it or text.startswith(it + _SEPARATOR))
        meaning = max(fitting, key=len, default=text.partition(_SEPARATOR)[0])
        found.append(meaning)
        text = text[len(meaning) + len(_SEPARATOR) :]
    return found


def changed(before: Slots, meanings: Sequence[str], start: int, first_offset: int) -> Slots:
    """Return the slots when these meanings are kept from now on; `start` and `first_offset` are of
    the added ones.

    Raises SlidestatError where a state would have more than 255.
    """
    kept = [slot if slot.meaning in meanings else Slot("") for slot in before]
    there = {slot.meaning for slot in before}
    added = [Slot(it, start, first_offset) for it in meanings if it not in there]
    if len(kept) + len(added) > _MOST:
        raise SlidestatError(
            "Statistics of this topology were changed so often that a state has no place for more.",
            "Give the changed topology a new name, which counts from the start of its source.",
        )
    return *kept, *added
