"""The manifest of golden files: a digest of each, and the facts that were read of it."""

import json
from hashlib import sha256
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import TypedDict

from tests.golden import cases
from tests.golden.golden import MANIFEST, Golden

# All there are: one that had to be listed could be forgotten, and its files never be read.
_CASES = [import_module(f"{cases.__name__}.{case.name}") for case in iter_modules(cases.__path__)]
GOLDEN = {golden.name: golden for golden in chain.from_iterable(c.GOLDEN for c in _CASES)}


class Entry(TypedDict):
    """A golden file, as the manifest has it."""

    sha256: str
    facts: object


def entry(golden: Golden, data: bytes) -> Entry:
    """The entry of a file with these bytes."""
    # As JSON has them: lists for tuples.
    facts = json.loads(json.dumps(golden.facts(data)))
    return {"sha256": sha256(data).hexdigest(), "facts": facts}


def read_manifest() -> dict[str, Entry]:
    """The entries by the names of the files."""
    entries: dict[str, Entry] = json.loads(MANIFEST.read_text("utf-8"))
    return entries


def write_manifest(entries: dict[str, Entry]) -> None:
    """Write them, in the order of their names, a line each."""
    lines = (f"{json.dumps(name)}: {json.dumps(known)}" for name, known in sorted(entries.items()))
    MANIFEST.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
