"""Name a version where it is named by hand: `python -m scripts.release 0.2.0`, or `make release`.

What the files have under "Unreleased" becomes the section of the version, with today's date. `make
chart`, which comes next, writes what is made of the chart. Nothing is committed, tagged or sent.
"""

import datetime
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
PLACES = {
    "pyproject.toml": 'version = "{}"',
    "deploy/helm/slidestat/Chart.yaml": "ersion: {}",
    "README.md": "dist/slidestat-{}-",
    "docker-compose.yml": "image: slidestat:{}",
    "docs/deploy.md": "docker build --tag slidestat:{}",
}
"""Where the version of the package stands, and within what."""

_EMPTY = re.compile(r"^### \w+\n+(?=##)", re.MULTILINE)


class ReleaseError(Exception):
    """An error for what keeps a version from being released."""


def read() -> dict[str, str]:
    """Return the texts that name the version, by their path."""
    return {name: (ROOT / name).read_text("utf-8") for name in (CHANGELOG, *PLACES)}


def released(texts: Mapping[str, str], version: str, date: datetime.date) -> dict[str, str]:
    """Return the texts as they are once `version` is released; raises ReleaseError."""
    before = tomllib.loads(texts["pyproject.toml"])["project"]["version"]
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ReleaseError(
            f"a version is three numbers, as 0.2.0, not {version!r}; candidates are not published"
        )
    if tuple(map(int, version.split("."))) <= tuple(map(int, before.split("."))):
        raise ReleaseError(f"the version {before} is there already, and {version} is not after it")
    head, heading, after = texts[CHANGELOG].partition("\n## Unreleased\n")
    if not heading:
        raise ReleaseError(f"{CHANGELOG} has no section Unreleased: put one above the versions")
    unreleased, *versions = re.split(r"^(?=## \d)", after, maxsplit=1, flags=re.MULTILINE)
    section = _EMPTY.sub("", unreleased + "##").removesuffix("##").strip()
    if not section:
        raise ReleaseError(f"{CHANGELOG} has nothing under Unreleased: say what is new")
    new = {
        CHANGELOG: f"{head}{heading}\n## {version} - {date}\n\n{section}\n\n" + "".join(versions)
    }
    for name, around in PLACES.items():
        if around.format(before) not in texts[name]:
            raise ReleaseError(f"{name} does not name the version {before}")
        new[name] = texts[name].replace(around.format(before), around.format(version))
    return new


def main() -> None:
    """Write the texts, and print which."""
    try:
        new = released(read(), sys.argv[1] if sys.argv[1:] else "", datetime.date.today())
    except ReleaseError as error:
        sys.exit(f"error: {error}")
    for name, text in new.items():
        (ROOT / name).write_text(text, "utf-8")
        print(name)


if __name__ == "__main__":
    main()
