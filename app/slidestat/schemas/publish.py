"""Write the JSON Schemas of what is on the wire: `python -m slidestat.schemas.publish`.

The structs are the source, the files in `schemas/json` are made from them, and a test fails when
the two differ. JSON Schema, draft 2020-12.
"""

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from slidestat.schemas.alert import AlertChange
from slidestat.schemas.dead_letter import DeadLetterHeaders
from slidestat.schemas.emission import Emission
from slidestat.schemas.event import Event
from slidestat.schemas.ranking import Ranking
from slidestat.schemas.sequence import SequenceAlertChange, SequenceEmission, SequencePartyClock
from slidestat.schemas.synopsis import PartyClock, SynopsisHeaders

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = Path(__file__).parents[3] / "schemas" / "json"

# A version changes when a reader of the old schema could no longer read the new records. It is in
# the file's name too, so that the schema of an older version stays beside the newer one.
# Version 2 is of sequences; topologies whose event times are times go on with version 1.
PUBLISHED: dict[str, dict[int, type[msgspec.Struct]]] = {
    "event": {1: Event},
    "emission": {1: Emission, 2: SequenceEmission},
    "alert": {1: AlertChange, 2: SequenceAlertChange},
    "dead-letter-headers": {1: DeadLetterHeaders},
    "synopsis-headers": {1: SynopsisHeaders},
    "ranking": {1: Ranking},
    "party-clock": {1: PartyClock, 2: SequencePartyClock},
}


def schema_parts(
    struct: type[msgspec.Struct], ref_template: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reference to a struct's schema, and by their names the schemas of it and of all
    structs and enums in it, which refer to each other by a template with {name}.
    """
    (reference,), parts = msgspec.json.schema_components([struct], ref_template=ref_template)
    for part in parts.values():
        # Newer Pythons strip a docstring's indentation when they compile it, older ones do not.
        part["description"] = inspect.cleandoc(part["description"])
    return reference, parts


def json_schema(struct: type[msgspec.Struct], version: int) -> dict[str, Any]:
    """Return the schema of one struct; structs and enums that it refers to are under `$defs`."""
    _, parts = schema_parts(struct, "#/$defs/{name}")
    root = parts.pop(struct.__name__)
    schema = {"$schema": DRAFT, "title": root.pop("title"), "x-version": version, **root}
    if parts:
        schema["$defs"] = parts
    return schema


def render() -> dict[str, str]:
    """Return the text of each published file, by its name."""
    return {
        f"{name}.v{version}.schema.json": json.dumps(json_schema(struct, version), indent=2) + "\n"
        for name, versions in PUBLISHED.items()
        for version, struct in versions.items()
    }


def publish(folder: Path = FOLDER) -> list[Path]:
    """Write every file into `folder` and return their paths; raises OSError if it cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, text in render().items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in publish():
        print(written)
