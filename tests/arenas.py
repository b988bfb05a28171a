"""How many arenas the C library has made for threads of a process."""

import re

# GNU's library reserves so much for each arena, at a multiple of it, and uses the beginning.
_RESERVED = 2**26
_ANONYMOUS = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) 0+ 00:00 0 *$", re.MULTILINE)


def count_arenas(maps: str) -> int:
    """Count those in a text of /proc/PID/maps; the main thread's is not one of them, and what
    another allocator (RocksDB's) has mapped at such an address by chance is none.
    """
    found = _ANONYMOUS.findall(maps)
    pieces = {int(start, 16): (int(end, 16), access) for start, end, access in found}
    return sum(
        access == "rw-p" and start % _RESERVED == 0 and _is_reserved(pieces, start)
        for start, (_, access) in pieces.items()
    )


def _is_reserved(pieces: dict[int, tuple[int, str]], start: int) -> bool:
    """Return whether adjoining pieces make up the whole of an arena that begins at `start`."""
    end = start
    while end < start + _RESERVED and end in pieces:
        end, _ = pieces[end]
    return end >= start + _RESERVED
