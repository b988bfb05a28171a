"""Epochs of a changelog's owners."""

from hypothesis import given, strategies as st

from slidestat.faust.fencing import NO_EPOCH, Restored, epoch_header, epoch_of, next_epoch
from tests.engine.cases import laws

EPOCHS = st.integers(1, 2**62)


@laws
@given(EPOCHS)
def test_an_epoch_comes_back(epoch: int) -> None:
    """From the headers that it is written in, as a list and as a mapping."""
    headers = epoch_header(epoch)
    assert epoch_of(headers) == epoch_of(dict(headers)) == epoch
    assert epoch_of(None) == epoch_of([]) == epoch_of([("epoch", None)]) == NO_EPOCH
    assert epoch_of([("epoch", b"of another")]) == epoch_of([("other", b"7")]) == NO_EPOCH


@laws
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), max_size=30))
def test_a_later_owner_has_a_larger_epoch(owners: list[tuple[int, bool, bool]]) -> None:
    """Also than earlier ones that have not written yet, and where the group was deleted after all
    had written, and counts generations from 1 again.
    """
    written = generation = largest = 0
    for further, writes, group_is_deleted in owners:
        if group_is_deleted and written == largest:
            generation = 0
        generation += further
        epoch = next_epoch(written, generation)
        assert epoch > largest
        largest = epoch
        written = epoch if writes else written


@laws
@given(st.lists(st.integers(0, 6), max_size=40))
def test_what_an_older_owner_writes_behind_a_newer_one_does_not_count(epochs: list[int]) -> None:
    """Everything else does, also records without an epoch; restored in two goes, it is the same."""
    for cut in range(len(epochs) + 1):
        first = Restored(NO_EPOCH)
        counted = [first.counts(epoch_header(epoch) if epoch else None) for epoch in epochs[:cut]]
        second = Restored(first.newest)
        counted += [second.counts(epoch_header(epoch) if epoch else None) for epoch in epochs[cut:]]
        assert counted == [
            epoch == NO_EPOCH or epoch >= max(epochs[:i], default=0)
            for i, epoch in enumerate(epochs)
        ]
        assert second.newest == max(epochs, default=0)
