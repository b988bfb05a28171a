"""Strings as items: the same on every machine, or stored states would mean something else."""

import pytest

from slidestat.synopses.core.errors import SynopsisError
from slidestat.synopses.distinct.items import item_ids

KNOWN = {
    "": 3244421341483603138,  # 0x2d06800538d394c2 of the published test vectors
    "abc": 8696274497037089104,
    b"abc": 8696274497037089104,
    "h\u00f6he": 7610706071165550953,
    "\ud800": -2689911756652647984,
}


def test_strings_are_the_items_that_they_always_were() -> None:
    """XXH3 of the UTF-8 bytes; half of a surrogate pair, which JSON can hold, has an item too."""
    assert item_ids(KNOWN).tolist() == list(KNOWN.values())
    assert item_ids([]).tolist() == []


@pytest.mark.parametrize("bad", [[1], [None], ["a", 2.5]])
def test_what_is_no_string_is_refused(bad: list[object]) -> None:
    """Numbers are items themselves, or the caller says how they are written."""
    with pytest.raises(SynopsisError, match="str or bytes"):
        item_ids(bad)  # type: ignore[arg-type]
