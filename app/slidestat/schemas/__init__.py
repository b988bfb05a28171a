"""The records on the wire: events in, statistics and dead letters out.

Each module holds one record as a msgspec struct, its documentation field by field, and the codec.
The JSON Schemas in `schemas/json` are generated from the structs (`make schemas`).
"""

from msgspec import Meta


def doc(text: str) -> Meta:
    """Return the documentation of a field, as its JSON Schema has it."""
    return Meta(description=text)
