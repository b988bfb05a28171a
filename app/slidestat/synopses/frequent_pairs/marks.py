"""Times of some of the things that came, numbered: how many came since a time, up to a share.

Source: Gibbons and Tirthapura 2002, section 3 (waves). Number things 1, 2, ..., n. Number p is
marked, by its time, while n - p < 2 (share + 1) 2^z, 2^z being the power of two that divides p. Why
that bounds numbers to a share: docs/proofs.md.

Marks lie in an array: marks[0] are numbers, rising, marks[1] their times.
"""

from slidestat.kernels.compile import borrowing_kernel
from slidestat.synopses.core.arrays import Integers
from slidestat.synopses.core.keyed import first_from


@borrowing_kernel
def marks_room(share: int, most: int) -> int:
    """Return the room for the marks of `most` things, `compact` being called when it is full."""
    kept = 2 * (share + 1) + 1
    levels = 0
    while (2 * (share + 1)) << levels < most:
        levels += 1
    return int(min(most, 2 * (kept + (share + 2) * levels) + 8))


@borrowing_kernel
def is_marked(number: int, last: int, share: int) -> bool:
    """Return whether `number` is marked once there are `last` numbers."""
    apart = number & -number
    return bool((last - number) // apart < 2 * (share + 1))


@borrowing_kernel
def next_mark(number: int, last: int, share: int) -> int:
    """Return the highest number below `number` that is marked, or 0. `number` may be last + 1."""
    p = number - 1
    while p > 0 and not is_marked(p, last, share):
        p -= p & -p
    return int(p)


@borrowing_kernel
def compact(marks: Integers, size: int, last: int, share: int, edge: int) -> int:
    """Drop what is no longer marked, or has a time before `edge`; return how many marks stay."""
    kept = 0
    for i in range(size):
        if marks[1, i] >= edge and is_marked(marks[0, i], last, share):
            marks[0, kept] = marks[0, i]
            marks[1, kept] = marks[1, i]
            kept += 1
    return kept


@borrowing_kernel
def mark(
    marks: Integers, size: int, number: int, time: int, last: int, share: int, edge: int
) -> int:
    """Mark `number`, if it is to be; return how many marks there are."""
    if not is_marked(number, last, share):
        return size
    if size == marks.shape[1]:
        size = compact(marks, size, last, share, edge)
    marks[0, size] = number
    marks[1, size] = time
    return size + 1


@borrowing_kernel
def since(
    marks: Integers, size: int, last: int, share: int, start: int, first: int
) -> tuple[int, int]:
    """Return the fewest and the most of numbers up to `last` that came from `start` on.

    Those from `first` on, which is last + 1 or a number above all marks, did.
    """
    for i in range(first_from(marks[1], 0, size, start), size):
        if is_marked(marks[0, i], last, share):
            first = marks[0, i]
            break
    return int(last - first + 1), int(last - next_mark(first, last, share))
