"""What documents say without running it: links lead somewhere, names exist, snippets parse."""

import ast
import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

from slidestat.declare.forms.files import load_topology
from tests.docs.markdown import DOCUMENTS, ROOT, anchors, blocks, links, named


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    """Each relative link names a file of this repository, and its anchor a heading there."""
    astray = []
    for link in links(document):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        found = target.exists() and target.is_relative_to(ROOT)
        if found and anchor:
            found = target.suffix == ".md" and anchor in anchors(target)
        if not found:
            astray.append(link)
    assert astray == []


def test_pictures_are_small() -> None:
    """What a page of documentation loads is less than 200 kB a picture."""
    pictures = {
        (document.parent / link).resolve()
        for document in DOCUMENTS
        for link in links(document)
        if link.endswith((".png", ".svg"))
    }
    assert len(pictures) >= 5
    assert {picture.name for picture in pictures if picture.stat().st_size > 200_000} == set()


def test_every_guide_is_in_the_index() -> None:
    """Who reads docs/README.md finds each document beside it."""
    index = ROOT / "docs" / "README.md"
    listed = {link.partition("#")[0] for link in links(index)}
    assert {path.name for path in index.parent.glob("*.md")} - {"README.md"} <= listed


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_python_names_what_exists(document: Path) -> None:
    """Each Python block parses, and what it imports of this project is there."""
    missing = []
    for block in blocks(document, "python"):
        for node in ast.walk(ast.parse(block.text)):
            if not isinstance(node, ast.ImportFrom):
                continue
            if (node.module or "").split(".")[0] == "slidestat":
                module = importlib.import_module(str(node.module))
                missing += [name.name for name in node.names if not hasattr(module, name.name)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_benchmarks_are_where_they_are_said_to_be(document: Path) -> None:
    """Each `python -m benchmarks.x.y` names a module, or a folder that runs."""
    named = re.findall(r"python -m (benchmarks[.\w]*)", document.read_text("utf-8"))
    places = [ROOT.joinpath(*name.split(".")) for name in named]
    files = (place / "__main__.py" if place.is_dir() else Path(f"{place}.py") for place in places)
    assert [file for file in files if not file.is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_data_is_well_formed(document: Path, tmp_path: Path) -> None:
    """JSON blocks are JSON, and TOML blocks topologies."""
    for block in blocks(document, "json"):
        json.loads(block.text)
    for block in blocks(document, "toml"):
        if "source" not in tomllib.loads(block.text):
            continue  # of what else a document declares, its own test knows
        file = tmp_path / "topology.toml"
        file.write_text(block.text, "utf-8")
        assert load_topology(str(file)).name
