"""What a worker lets go of is the machine's again, or at least its own."""

import mmap
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


# Eight threads hold blocks at once, and the process says how many arenas it has for them.
_EIGHT_THREADS = """
import threading
from slidestat.faust.worker.resources import limit_arenas
from tests.arenas import count_arenas

{first}
together = threading.Barrier(9)

def hold():
    kept = [bytes(1_000) for _ in range({blocks})]
    together.wait()
    together.wait()
    return kept

for _ in range(8):
    threading.Thread(target=hold).start()
together.wait()
print(count_arenas("self"))
together.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is GNU's library that has arenas")
@pytest.mark.parametrize(
    ("first", "blocks", "arenas"),
    [("", 200, 8), ("limit_arenas()", 200, 1), ("limit_arenas()", 20_000, 1)],
    ids=["unlimited", "limited", "limited and of several heaps"],
)
def test_threads_share_arenas(first: str, blocks: int, arenas: int) -> None:
    """Each thread has one of its own but for the limit, with which they share one beside the main
    thread's, also where it is larger than what is reserved for a heap.
    """
    code = _EIGHT_THREADS.format(first=first, blocks=blocks)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(told.stdout) == arenas


_BATCHES = """
import ctypes
import resource
from slidestat.faust.worker.resources import limit_arenas

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
{first}

def batch():
    blocks = [ctypes.c_void_p(library.malloc(ctypes.c_size_t(8 * 2**20))) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, 8 * 2**20)
    for block in blocks:
        library.free(block)

batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is GNU's library that is told")
@pytest.mark.parametrize(("first", "is_kept"), [("", False), ("limit_arenas()", True)])
def test_a_batch_finds_the_memory_of_the_one_before(first: str, is_kept: bool) -> None:
    """Otherwise each takes its 8,192 pages anew, or a part of them."""
    code = _BATCHES.format(first=first)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (int(told.stdout) < 1_000) == is_kept


@pytest.mark.skipif(sys.platform != "linux", reason="it is GNU's library that has arenas")
def test_what_another_allocator_has_mapped_is_no_arena() -> None:
    """An allocator takes a gigabyte at a multiple of what is reserved for a heap."""
    before = count_arenas("self")
    with mmap.mmap(-1, 3 * 2**26) as mapped:
        mapped[:] = bytes([7]) * len(mapped)
        assert count_arenas("self") == before
