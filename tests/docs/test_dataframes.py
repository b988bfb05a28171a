"""The page on DataFrames: its example does what the text has of it."""

import pytest

from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "dataframes.md"


def test_the_example_gives_what_the_page_has() -> None:
    """The counts of the one window, and windows that end at multiples of `every`."""
    pytest.importorskip("pandas")
    (example,) = blocks(GUIDE, "python")
    names: dict[str, object] = {}
    exec(compile(example.text, GUIDE.name, "exec"), names)  # noqa: S102  it is ours
    whole, ends = names["whole"], names["ends"]
    counts = whole[whole.statistic == "count"]  # type: ignore[index]  # a DataFrame
    assert dict(zip(counts.key, counts.estimate, strict=True)) == {"/search": 3, "/cart": 1}
    assert set(ends.window_end.dt.minute) <= {5, 10, 15, 20}  # type: ignore[attr-defined]  # a DataFrame
    assert set(ends.window_ms) == {600_000}  # type: ignore[attr-defined]  # a DataFrame
