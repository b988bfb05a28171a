"""Fencing of a changelog's partitions: a worker that has lost one is recognised by its records.

A worker that was frozen for longer than its session does not know, when it wakes, that its
partitions have gone to others; what it then writes is in the changelog after their records. So
every record has the epoch of its writer in a header, and what an older epoch writes after a newer
one is skipped by every restore:

    offset  0  1  2  3  4  5  6  7
    epoch   1  1  1  3  3  1  1  3      5 and 6 are a zombie's

An owner's first record is a fence, written before it reads anything of the source; its table is
what lies before that. Without it, what a zombie writes between the restore and the owner's first
flush would count: were the owner to die in the middle of that flush, its older states would follow
the zombie's checkpoint, by which more was read than they have.

An epoch is one more than the largest one in the partition, plus the group's generation at the
assignment. The later one of two owners has the larger generation, which the group gives once, and
has seen at least as large an epoch: so its own is larger, also when a group is deleted and counts
generations from the start again. Generations begin with 1. A process that lets a topology begin
anew before its first start writes as of generation 0: after all that it has seen, and before every
owner since.

One owner may have an epoch that is too large: frozen while it took over, it has read the records of
the next one before it writes its fence. The next one finds that fence at its flush, and gives way
until the rebalance that follows. Exactly once, fences are in transactions: the broker refuses it.

A replay or a seed replaces all states, in an epoch that is larger by more than owners ever add. It
deletes each key; but a broker forgets deletions after a day (`delete.retention.ms`). So a table
that was last written before that epoch drops all that it has.

A broker that compacts knows no epochs, and could keep a zombie's record instead of the owner's. So
an owner counts: what it wrote must lie at consecutive offsets. Where they do not, it looks for the
writers between them. Older epochs: it writes the states of their keys again. A newer one: it is the
zombie itself. The owner writes the keys again that older epochs have written before its fence and
behind newer ones, when it takes over: each table notes the keys whose last record does not count.

Records without the header, of a version before it or of a replay, are restored wherever they are.
"""

from collections.abc import Mapping, Sequence

# The form in which clients give headers, and take them.
Headers = Sequence[tuple[str, str | bytes | None]] | Mapping[str, str | bytes | None] | None

FENCE_KEY = b"f"
"""The key of the records that owners begin with; no state and no checkpoint has it."""

_HEADER = "epoch"
# Digits of 64 bits; other programs may write such a header, too.
_MOST_DIGITS = 19
NO_EPOCH = 0


# A worker that sleeps through a replay writes records older than the replay's, whatever generation
# it is in.
_BEYOND_ALL_GENERATIONS = 2**32


class SupersededError(Exception):
    """An error of a partition that another worker has taken over: nothing more may be written."""


def next_epoch(newest: int, generation: int) -> int:
    """Return the epoch for a new owner: `newest` is the partition's largest epoch, `generation` the
    group's generation since which it owns the partition.
    """
    return newest + 1 + generation


def replacing_epoch(newest: int) -> int:
    """Return the epoch in which all states of a partition are replaced; its largest is `newest`."""
    return newest + _BEYOND_ALL_GENERATIONS


def epoch_header(epoch: int) -> list[tuple[str, bytes]]:
    """Return the headers of a record that is written in an epoch."""
    return [(_HEADER, b"%d" % epoch)]


def epoch_of(headers: Headers) -> int:
    """Return the epoch of a record's writer; NO_EPOCH if the record has none."""
    value = dict(headers or ()).get(_HEADER)
    if value is None or not value.isdigit() or len(value) > _MOST_DIGITS:
        return NO_EPOCH
    return int(value)


class Restored:
    """A filter of a partition's records, by rising offsets: those of zombies do not count."""

    def __init__(self, newest: int) -> None:
        self.newest = newest
        """The largest epoch so far."""
        self.are_replaced = False
        """Whether the last record that counts replaces all that was written before it."""

    def counts(self, headers: Headers) -> bool:
        """Return whether the next record is one of an owner."""
        epoch = epoch_of(headers)
        self.are_replaced = epoch >= replacing_epoch(self.newest)
        if epoch == NO_EPOCH:
            return True
        if epoch < self.newest:
            return False
        self.newest = epoch
        return True
