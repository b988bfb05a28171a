"""Pauses between tries: they grow, and no two clients make the same ones; and when to log that it
lasts.
"""

import random
import time
from math import inf


class Pauses:
    """Pauses of which each is twice as long as the one before, up to `longest_s`.

    Each is shortened by a random part of up to a half, so that clients that failed together do not
    come back together.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        """Return whether the pause that began last is over."""
        return time.monotonic() >= self._until

    def begin(self) -> float:
        """Begin the next pause, and return its length in seconds."""
        length = self._next_s * random.uniform(0.5, 1.0)  # noqa: S311  only jitter
        self._next_s = min(2 * self._next_s, self._longest_s)
        self._until = time.monotonic() + length
        return length

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self._next_s = self._first_s


# Half a minute at most: who waits asks every few seconds.
_REMINDER_S = 25.0


class Reminder:
    """A reminder to log what lasts: due at once, and again half a minute after each time."""

    def __init__(self) -> None:
        self._due_at = -inf

    def is_due(self) -> bool:
        """Return whether it is to be logged now; then it is due again in half a minute."""
        if time.monotonic() < self._due_at:
            return False
        self.put_off()
        return True

    def put_off(self) -> None:
        """Have it due half a minute from now, and not before."""
        self._due_at = time.monotonic() + _REMINDER_S

    def reset(self) -> None:
        """Have it due at once."""
        self._due_at = -inf
