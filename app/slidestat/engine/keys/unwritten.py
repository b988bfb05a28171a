"""Which keys' states are not durable yet, and from where the source makes them again.

Keys are dealt out to slots, and a slot's states become durable together. Of each slot the least
offset is kept whose event one of its states has absorbed since it was written: read from there on,
the source brings every event that the stored states of the slot do not have.
"""

from collections.abc import Iterable

SLOTS = 64

_NOTHING_NEEDED = 2**63 - 1


def slot_of(key: str) -> int:
    """A key's slot; another one in each process, as Python's hashes of texts are."""
    return hash(key) % SLOTS


class UnwrittenKeys:
    """Keys with changes, by slot."""

    def __init__(self) -> None:
        self._keys: list[set[str]] = [set() for _ in range(SLOTS)]
        self._first_offsets = [_NOTHING_NEEDED] * SLOTS

    def __contains__(self, key: str) -> bool:
        return key in self._keys[slot_of(key)]

    def add(self, key: str, first_offset: int = _NOTHING_NEEDED) -> bool:
        """A key's state has absorbed events, from this offset on; without one, none. Whether the
        key was there.
        """
        slot = slot_of(key)
        keys, count = self._keys[slot], len(self._keys[slot])
        keys.add(key)
        if first_offset < self._first_offsets[slot]:
            self._first_offsets[slot] = first_offset
        return len(keys) == count

    def take(self, slots: Iterable[int] = range(SLOTS)) -> list[str]:
        """The keys of these slots, which are about to be written."""
        taken: list[str] = []
        for slot in slots:
            taken += self._keys[slot]
            self._keys[slot] = set()
            self._first_offsets[slot] = _NOTHING_NEEDED
        return taken

    def first_offset(self) -> int | None:
        """The least offset that the others need, None if they need none."""
        least = min(self._first_offsets)
        return None if least == _NOTHING_NEEDED else least
