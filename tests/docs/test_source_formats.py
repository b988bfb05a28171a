"""The guide to formats of the source: its test, as it is printed there."""

from tests.docs.markdown import ROOT, blocks

GUIDE = ROOT / "docs" / "source-formats.md"


def test_the_guides_test_passes() -> None:
    """Figures and letters are those that it says."""
    (test,) = blocks(GUIDE, "python")
    exec(compile(test.text, GUIDE.name, "exec"), {})  # noqa: S102  it is ours
