"""The documentation as a site: `make docs` builds it into build/site, every warning an error.

Pages are the Markdown files of this repository, as they are. What they do not have is added here:
the tree of pages, and the reference of the two packages, from docstrings.
"""

import re
from importlib import metadata
from typing import Any

from sphinx.application import Sphinx

project = "slidestat"
version = release = metadata.version("slidestat")
project_copyright = "slidestat contributors"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/README"
include_patterns = [
    "*.md",
    "docs/**.md",
    "examples/**.md",
    "deploy/README.md",
    "benchmarks/README.md",
    "app/slidestat/synopses/**.md",
    "app/slidestat/demo/data/README.md",
    "scripts/site/*.rst",
]
html_theme = "sphinx_rtd_theme"
html_theme_options = {"navigation_depth": 2, "prev_next_buttons_location": None}
html_title = "slidestat"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_copy_source = False

myst_heading_anchors = 4
# Queries with a dashboard's own variables are no SQL to a highlighter.
suppress_warnings = ["misc.highlighting_failure"]

autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"

_TREE = """

```{{toctree}}
:hidden:
:caption: {caption}
{pages}
```
"""
_TREES = {
    "Guides": [
        *("quick-start", "../examples/README", "choose-a-statistic", "declare-a-topology"),
        *("source-formats", "test-a-topology", "deploy", "secured-brokers", "../deploy/README"),
        *("read-the-output", "when-a-key-is-written", "rows", "derived-figures"),
        *("calendar-windows", "alerts", "slos", "ask-a-worker", "client", "rankings"),
        *("many-parties", "dead-letters"),
        *("replay", "seed", "spark", "spark-streaming", "dataframes", "your-own-synopsis"),
    ],
    "Reference": [
        *("reference", "../scripts/site/slidestat", "../scripts/site/synopses"),
        *("../app/slidestat/synopses/README", "glossary"),
    ],
    "Why": [
        *("guarantees", "limits", "theory", "proofs", "papers", "compare", "../benchmarks/README"),
        *("decisions/README", "../ARCHITECTURE"),
    ],
    "Project": ["../README", "../CHANGELOG", "../CONTRIBUTING", "../RELEASE", "../SECURITY"],
}
# Pages that list others, in folders below them.
_BELOW = {
    "examples/README": "*/README",
    "app/slidestat/synopses/README": "*/README",
    "docs/decisions/README": "0*",
    "benchmarks/README": "../app/slidestat/demo/data/README",
}


def _add_trees(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the tree of pages to those that lead to others. A site has no page of a folder."""
    source[0] = re.sub(r"\[([^]]+)\]\((?:\.\./)*schemas/json\)", r"\1", source[0])
    if name == app.config.root_doc:
        for caption, pages in _TREES.items():
            source[0] += _TREE.format(caption=caption, pages="\n".join(pages))
    elif name in _BELOW:
        tree = _TREE.format(caption="", pages=_BELOW[name])
        source[0] += tree.replace(":caption: \n", ":glob:\n")


def _as_rest(
    _app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Write a docstring in reStructuredText: it is plain text, with code in backquotes."""
    text = "\n".join(lines)
    pieces = re.split(r"(^ *(?:>>>|\.\.\. ).*$|`[^`]+`)", text, flags=re.MULTILINE)
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            pieces[i] = re.sub(r"([\\*|_])", r"\\\1", piece)
        elif piece.startswith("`"):
            pieces[i] = f"\\ `{piece}`\\ "
    lines[:] = "".join(pieces).split("\n")


def _is_skipped(
    _app: Sphinx, what: str, name: str, value: Any, _skip: bool, _options: Any
) -> bool | None:
    """Leave out what the engine alone calls of a statistic's declaration."""
    module = getattr(value, "__module__", "") or ""
    is_inside = what == "class" and module.startswith("slidestat.declare.statistics")
    return True if is_inside or name.startswith("_") else None


def setup(app: Sphinx) -> None:
    """Connect what is added."""
    app.connect("source-read", _add_trees)
    app.connect("autodoc-skip-member", _is_skipped)
    app.connect("autodoc-process-docstring", _as_rest)
