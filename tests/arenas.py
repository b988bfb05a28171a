"""How many arenas the C library has made for threads of a process."""

import re

# GNU's library aligns each arena at its largest size.
_LARGEST = 2**26
_ANONYMOUS = re.compile(r"^([0-9a-f]+)-\S+ rw-p 0+ 00:00 0 *$", re.MULTILINE)


def count_arenas(maps: str) -> int:
    """Count those in a text of /proc/PID/maps; the main thread's is not one of them."""
    return sum(int(start, 16) % _LARGEST == 0 for start in _ANONYMOUS.findall(maps))
