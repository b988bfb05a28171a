"""How long a fetch waits for more, of topics that bring a little all the time."""

from typing import Any

# Else a worker is woken by each record: at 1,000 events/s that costs ten times what the events do.
_WAIT_MS, _BYTES = 50, 64 * 2**10
# While no tick is due it waits longer, for as much more: its records lead to no output before.
_NOTHING_DUE_MS = 250


class TricklePace:
    """A regulator of how long aiokafka's fetches wait, and for how many bytes."""

    def __init__(self) -> None:
        # What the client was configured with.
        self._unpaced: tuple[int, int] | None = None

    def set(self, fetcher: Any, due_in_ms: int, *, is_trickling: bool) -> None:
        """Have the next fetches wait for more than a record while records come. After a pause the
        first one is brought at once.
        """
        if self._unpaced is None:
            self._unpaced = fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes
        paced = trickle_pace(due_in_ms) if is_trickling else self._unpaced
        fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes = paced


def trickle_pace(due_in_ms: int) -> tuple[int, int]:
    """Return the milliseconds that a fetch waits, and for how many bytes, where a tick was due in
    `due_in_ms` when the batch before last had been processed: another fetch is under way since.
    """
    wait_ms = min(max(due_in_ms - _NOTHING_DUE_MS, _WAIT_MS), _NOTHING_DUE_MS)
    return wait_ms, _BYTES * wait_ms // _WAIT_MS
