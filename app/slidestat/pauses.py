"""Pauses between tries: they grow, and no two clients make the same ones."""

import random
import time


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
