"""Format the output of `slidestat schema`."""

import json

from slidestat.errors import SlidestatError, unknown
from slidestat.schemas.avro import emission_schema
from slidestat.schemas.emission import Emission
from slidestat.schemas.publish import PUBLISHED, json_schema

_NAMED = {
    name if version == 1 else f"{name}.v{version}": (version, struct)
    for name, versions in PUBLISHED.items()
    for version, struct in versions.items()
}


def schema_lines(record: str | None, form: str) -> list[str]:
    """Return the schema of a record, "json" or "avro", or without one a line for each record that
    has one. A record's second version is NAME.v2.

    Raises SlidestatError for another record.
    """
    if record is None:
        return [
            f"{name}: {(struct.__doc__ or '').partition(chr(10))[0]}"
            for name, (_, struct) in _NAMED.items()
        ]
    if record not in _NAMED:
        raise unknown(f"There is no schema of {record!r}.", record, _NAMED)
    version, struct = _NAMED[record]
    if form == "avro":
        if not issubclass(struct, Emission):
            raise SlidestatError(
                f"A record of the kind {record} is JSON, not Avro.", "Only emissions may be Avro."
            )
        return [emission_schema(struct)]
    return [json.dumps(json_schema(struct, version), indent=2)]
