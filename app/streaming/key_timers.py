"""At which tick something is due for which key."""

from heapq import heappop, heappush


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

    def arm(self, key: str, tick: int) -> None:
        """Have `key` due at `tick`, unless it is due later still."""
        if self._tick_of.get(key, tick - 1) >= tick:
            return
        self._tick_of[key] = tick
        keys = self._keys_at.get(tick)
        if keys is None:
            self._keys_at[tick] = [key]
            heappush(self._ticks, tick)
        else:
            keys.append(key)

    def pop_due(self, watermark: int) -> list[tuple[str, int]]:
        """The keys due at or before `watermark` with their ticks; they are due no more."""
        due = []
        while self._ticks and self._ticks[0] <= watermark:
            tick = heappop(self._ticks)
            for key in self._keys_at.pop(tick):
                if self._tick_of.get(key) == tick:
                    del self._tick_of[key]
                    due.append((key, tick))
        return due
