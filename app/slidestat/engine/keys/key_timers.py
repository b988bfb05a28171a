"""At which tick something is due for which key."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

Place = tuple[int, str]  # of what is due at a tick for a key: by tick, then by key


class KeyTimers:
    """One tick a key. Costs what is due, however many keys wait."""

    def __init__(self) -> None:
        self._tick_of: dict[str, int] = {}
        # Keys may stand here at a tick that is no longer theirs: they are passed over.
        self._keys_at: dict[int, list[str]] = {}
        self._ticks: list[int] = []

    def copy(self) -> "KeyTimers":
        """The same timers, on their own."""
        other = KeyTimers()
        other._tick_of = dict(self._tick_of)
        other._keys_at = {tick: list(keys) for tick, keys in self._keys_at.items()}
        other._ticks = list(self._ticks)
        return other

    def ticks(self) -> list[int]:
        """The ticks at which something may be due, in no order."""
        return self._ticks

    def __contains__(self, key: str) -> bool:
        return key in self._tick_of

    def due(self, key: str) -> int | None:
        """The tick at which `key` is due, if it is."""
        return self._tick_of.get(key)

    def arm(self, key: str, tick: int) -> None:
        """Have `key` due at `tick`, unless it is due later still."""
        if self._tick_of.get(key, tick - 1) >= tick:
            return
        self.set(key, tick)

    def set(self, key: str, tick: int) -> None:
        """Have `key` due at `tick`, whenever it was due."""
        self._tick_of[key] = tick
        keys = self._keys_at.get(tick)
        if keys is None:
            self._keys_at[tick] = [key]
            heappush(self._ticks, tick)
        else:
            keys.append(key)

    def next_due(self, watermark: int) -> int | None:
        """The first tick at or before `watermark` at which something may be due."""
        return self._ticks[0] if self._ticks and self._ticks[0] <= watermark else None

    def take(self, key: str, watermark: int) -> int | None:
        """The tick at which `key` is due, if it is at or before `watermark`; it is due no more."""
        tick = self._tick_of.get(key)
        if tick is None or tick > watermark:
            return None
        del self._tick_of[key]
        return tick

    def pop(self, tick: int) -> list[str]:
        """The keys due at `tick`, in no order, if it is the first of all; they are due no more."""
        if not self._ticks or self._ticks[0] != tick:
            return []
        heappop(self._ticks)
        # A key that was due here, then earlier, and is again, stands here twice.
        at_tick = dict.fromkeys(self._keys_at.pop(tick))
        due = [key for key in at_tick if self._tick_of.get(key) == tick]
        for key in due:
            del self._tick_of[key]
        return due


class DueSlice(NamedTuple):
    """Keys and ticks that are due: of `opened` ones, and of `closing` ones. No other slice has any
    before `end` that was not in a slice before.
    """

    opened: list[Place]
    closing: list[Place]
    end: Place


def due_slices(
    opened: KeyTimers, closing: KeyTimers, watermark: int, size: Callable[[], int]
) -> Iterator[DueSlice]:
    """Yield the timers of two kinds that are due at or before `watermark`, in slices in order of
    time: several whole ticks of about `size()` keys together, or a part of one tick with up to so
    many. What is armed meanwhile at or after the end of the last slice comes in one of the next.
    """
    slice_ = DueSlice([], [], (0, ""))
    while True:
        nexts = (opened.next_due(watermark), closing.next_due(watermark))
        ticks = [tick for tick in nexts if tick is not None]
        waiting = len(slice_.opened) + len(slice_.closing)
        if waiting and (waiting >= size() or not ticks):
            yield slice_
            slice_ = DueSlice([], [], (0, ""))
            continue
        if not ticks:
            return
        tick = min(ticks)
        open_keys, closing_keys = opened.pop(tick), closing.pop(tick)
        if len(open_keys) + len(closing_keys) <= size():
            slice_.opened.extend((tick, key) for key in open_keys)
            slice_.closing.extend((tick, key) for key in closing_keys)
            slice_ = slice_._replace(end=(tick + 1, ""))
            continue
        if waiting:
            yield slice_
            slice_ = DueSlice([], [], (0, ""))
            # What was armed meanwhile for the tick in hand.
            open_keys += opened.pop(tick)
            closing_keys += closing.pop(tick)
        yield from _parts(tick, set(open_keys), set(closing_keys), size)


def _parts(
    tick: int, open_keys: set[str], closing_keys: set[str], size: Callable[[], int]
) -> Iterator[DueSlice]:
    keys = sorted(open_keys | closing_keys)
    start = 0
    while start < len(keys):
        end = start + size()
        yield DueSlice(
            [(tick, key) for key in keys[start:end] if key in open_keys],
            [(tick, key) for key in keys[start:end] if key in closing_keys],
            (tick, keys[end]) if end < len(keys) else (tick + 1, ""),
        )
        start = end
