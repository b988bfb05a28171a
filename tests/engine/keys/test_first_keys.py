"""The first keys after one, as sorting all of them would give."""

from random import Random

import pytest
from hypothesis import given, strategies as st

from slidestat.engine.keys.key_states import first_keys
from tests.engine.cases import laws


@laws
@given(st.sets(st.text(max_size=3)), st.text(max_size=3), st.integers(1, 9), st.text(max_size=1))
def test_few_keys(keys: set[str], after: str, limit: int, prefix: str) -> None:
    """Any texts, any place to go on from."""
    found = first_keys(keys, after, limit, lambda key: key.startswith(prefix))
    expected = sorted(key for key in keys if key > after and key.startswith(prefix))
    assert found == expected[:limit]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.01, 0.0])
@pytest.mark.parametrize("limit", [1, 101, 1_001])
def test_many_keys(share: float, limit: int) -> None:
    """Page by page, whatever share of them is wanted; in a list that is sorted too, whose first
    ones are no sample of it.
    """
    random = Random(f"{share} {limit}")
    keys = [f"user-{number:09d}" for number in random.sample(range(10**9), 20_000)]
    chosen = {key for key in keys if random.random() < share}
    expected = sorted(chosen)
    for known in (set(keys), sorted(keys), sorted(keys, reverse=True)):
        for place in (0, len(expected) // 2, max(0, len(expected) - limit), len(expected)):
            after = expected[place - 1] if expected[:place] else ""
            page = first_keys(known, after, limit, chosen.__contains__)
            assert page == expected[place : place + limit]
