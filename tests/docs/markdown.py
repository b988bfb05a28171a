"""What a document has that can be checked: fenced blocks, headings, links."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob(".github/**/*.md"),
        *ROOT.glob("deploy/**/*.md"),
        *ROOT.glob("app/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("examples/*.md"),
    }
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"(?:#|//|--) ([\w.-]+)\n")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block; `name` is what its first line calls it, in a comment of nothing else."""

    language: str
    name: str
    text: str


def named(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def blocks(document: Path, language: str = "") -> list[Block]:
    """The document's blocks, or those of one language, in their order."""
    found = []
    for tag, text in _FENCE.findall(document.read_text("utf-8")):
        match = _NAME.match(text)
        if language in ("", tag):
            found.append(Block(tag, match[1] if match else "", text))
    return found


def commands(document: Path) -> Iterator[str]:
    """What is typed in its console blocks, a continued line as one."""
    for block in blocks(document, "console"):
        joined = re.sub(r"\\\n\s*", "", block.text)
        for line in joined.splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ")


def links(document: Path) -> list[str]:
    """Where its links and pictures lead."""
    return _LINK.findall(_prose(document))


def anchors(document: Path) -> set[str]:
    """What its headings are called in addresses, as GitHub makes them."""
    headings = _HEADING.findall(_prose(document))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain}


def _prose(document: Path) -> str:
    return _FENCE.sub("", document.read_text("utf-8"))
