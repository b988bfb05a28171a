"""The changelog has the form of Keep a Changelog, and its newest version is the package's."""

import re
import tomllib

from tests.docs.markdown import ROOT

HEADINGS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
MOST_LINES = 80
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def sections() -> dict[str, str]:
    """Return each section's text by its heading, in the order of the file."""
    _, *parts = _SECTION.split((ROOT / "CHANGELOG.md").read_text("utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_sections_are_versions_with_dates() -> None:
    """What comes is on top, then a version for each release, the newest first."""
    first, *released = sections()
    assert first == "Unreleased"
    assert released
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", name) for name in released)
    versions = [tuple(map(int, name.split(" ")[0].split("."))) for name in released]
    assert versions == sorted(set(versions), reverse=True)


def test_the_newest_version_is_that_of_the_package() -> None:
    """A release changes both in one commit."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert list(sections())[1].split(" ")[0] == project["version"]


def test_entries_are_under_the_usual_headings() -> None:
    """And the first version, which lists what there is, is one that can be read."""
    for name, text in sections().items():
        assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= HEADINGS, name
    assert len(sections()["0.1.0 - 2026-11-26"].splitlines()) <= MOST_LINES
