"""What a worker lets go of is the machine's again, or at least its own."""

import subprocess
import sys

import psutil
import pytest

from slidestat.faust.worker.resources import give_back_memory
from tests.arenas import count_arenas


@pytest.mark.skipif(sys.platform != "linux", reason="it is GNU's library that keeps memory")
def test_what_lies_between_things_in_use_is_given_back() -> None:
    """Of a hundred megabytes nine tenths, though each tenth block stays: without a trim all of it
    stays.
    """
    process = psutil.Process()
    blocks = [bytes(20_000) for _ in range(5_000)]
    full = process.memory_info().rss
    del blocks[1::2], blocks[2::2], blocks[3::2]
    kept = sum(map(len, blocks))
    give_back_memory()
    assert full - process.memory_info().rss > 0.8 * (5_000 * 20_000 - kept)


# Eight threads hold small blocks at once; told is how many arenas the C library made for them.
_EIGHT_THREADS = """
import threading
from slidestat.faust.worker.resources import limit_arenas

{first}
together = threading.Barrier(9)

def hold():
    kept = [bytes(1_000) for _ in range(200)]
    together.wait()
    together.wait()
    return kept

for _ in range(8):
    threading.Thread(target=hold).start()
together.wait()
print(open("/proc/self/maps").read())
together.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is GNU's library that has arenas")
@pytest.mark.parametrize(("first", "arenas"), [("", 8), ("limit_arenas()", 1)])
def test_threads_share_arenas(first: str, arenas: int) -> None:
    """Each thread has one of its own but for the limit, with which they share one beside the main
    thread's.
    """
    code = _EIGHT_THREADS.format(first=first)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert count_arenas(told.stdout) == arenas


def test_what_is_mapped_at_such_an_address_by_chance_is_no_arena() -> None:
    """An arena has all that is reserved for it, in adjoining pieces: also one that is filled up,
    and one whose reserve runs into what is reserved behind it.
    """
    empty = "7f0004000000-7f0004021000 rw-p 00000000 00:00 0 \n"
    rest = "7f0004021000-7f0008000000 ---p 00000000 00:00 0 \n"
    behind = "7f0004021000-7f0008001000 ---p 00000000 00:00 0 \n"
    full = "7f0004000000-7f0008000000 rw-p 00000000 00:00 0 \n"
    assert [count_arenas(maps) for maps in (empty + rest, empty + behind, full)] == [1, 1, 1]
    apart = "7f0004022000-7f0008000000 ---p 00000000 00:00 0 \n"
    named = "7f0004021000-7f0008000000 ---p 00000000 00:00 0    [heap]\n"
    for others in ("", apart, named):
        assert count_arenas(empty + others) == 0
