"""Count the arenas that the C library has made for threads of a process."""

import re
import struct
from pathlib import Path

# GNU's library reserves so much for each heap of an arena, at a multiple of it. A heap begins with
# the address of its arena, which lies in the first heap, and the address of the heap before it.
_RESERVED = 2**26
_HEAP = struct.Struct("<QQ")
_ANONYMOUS = re.compile(r"^([0-9a-f]+)-[0-9a-f]+ rw-p 0+ 00:00 0 *$", re.MULTILINE)


def count_arenas(pid: int | str) -> int:
    """Return how many arenas process `pid` has, a child of this one or "self"; the main thread's is
    not one of them. An arena of several heaps is one, and what another allocator (RocksDB's,
    Arrow's) has mapped at such an address is none.
    """
    maps = Path(f"/proc/{pid}/maps").read_text()
    starts = [int(start, 16) for start in _ANONYMOUS.findall(maps)]
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        heads = {}
        for start in starts:
            if start % _RESERVED == 0:
                memory.seek(start)
                heads[start] = _HEAP.unpack(memory.read(_HEAP.size))
    return sum(
        before == 0 and start < arena < start + 4096 for start, (arena, before) in heads.items()
    )
