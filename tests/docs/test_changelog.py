"""The changelog has the form of Keep a Changelog, and its newest version is the package's."""

import datetime
import re
import tomllib

import pytest

from scripts import release
from tests.docs.markdown import ROOT

HEADINGS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
MOST_LINES = 80
MOST_WORDS = 3_600
LONGEST_LINE = 120
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


def test_it_is_short_enough_to_be_read() -> None:
    """An entry for what a user notices; what is no news any more goes, or joins another. Lines are
    short, so that an entry that grows is seen. Headings do not count: a release adds one.
    """
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    assert max(map(len, lines)) <= LONGEST_LINE
    assert sum(len(line.split()) for line in lines if not line.startswith("#")) <= MOST_WORDS


def test_a_release_is_one_step() -> None:
    """It names the version everywhere, and dates what was unreleased; an empty heading goes. It can
    be followed by the next one, though nothing is unreleased just after it.
    """
    texts = release.read()
    entry = "## Unreleased\n\n### Fixed\n\n- One thing.\n"
    text = texts["CHANGELOG.md"].replace("## Unreleased\n", entry, 1)
    texts["CHANGELOG.md"] = text.replace("## Unreleased\n", "## Unreleased\n\n### Security\n", 1)
    before = tomllib.loads(texts["pyproject.toml"])["project"]["version"]
    major, minor, _ = map(int, before.split("."))
    version = f"{major}.{minor + 1}.0"
    new = release.released(texts, version, datetime.date(2027, 1, 2))
    assert tomllib.loads(new["pyproject.toml"])["project"]["version"] == version
    assert new["CHANGELOG.md"] == text.replace(
        "## Unreleased\n", f"## Unreleased\n\n## {version} - 2027-01-02\n", 1
    )
    chart = new["deploy/helm/slidestat/Chart.yaml"]
    assert f"\nversion: {version}\nappVersion: {version}\n" in chart
    for name in release.PLACES:
        assert version in new[name]
        assert new[name].count(before) < texts[name].count(before)


def test_a_changelog_without_the_section_is_refused() -> None:
    """The newest version would be dated anew."""
    texts = release.read()
    texts["CHANGELOG.md"] = texts["CHANGELOG.md"].replace("## Unreleased\n", "", 1)
    with pytest.raises(release.ReleaseError, match="no section Unreleased"):
        release.released(texts, "9.0.0", datetime.date(2027, 1, 2))


@pytest.mark.parametrize("version", ["", "1.0", "v9.9.9", "0.0.9"])
def test_a_release_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(release.ReleaseError):
        release.released(release.read(), version, datetime.date(2027, 1, 2))
