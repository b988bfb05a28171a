"""Format the output of `slidestat schema`."""

import json

from slidestat.errors import SlidestatError, unknown
from slidestat.schemas.avro import emission_schema
from slidestat.schemas.publish import PUBLISHED, json_schema


def schema_lines(record: str | None, form: str) -> list[str]:
    """The schema of a record, "json" or "avro", or without one a line for each record that has one.

    Raises SlidestatError for another record.
    """
    if record is None:
        return [
            f"{name}: {(struct.__doc__ or '').partition(chr(10))[0]}"
            for name, (struct, _) in PUBLISHED.items()
        ]
    if record not in PUBLISHED:
        raise unknown(f"There is no schema of {record!r}.", record, PUBLISHED)
    if form == "avro":
        if record != "emission":
            raise SlidestatError(
                f"A record of the kind {record} is JSON, not Avro.", "Only emissions may be Avro."
            )
        return [emission_schema()]
    return [json.dumps(json_schema(*PUBLISHED[record]), indent=2)]
