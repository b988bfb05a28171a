"""What `slidestat schema` prints."""

import json

from app.errors import unknown
from schemas.publish import PUBLISHED, json_schema


def schema_lines(record: str | None) -> list[str]:
    """The JSON Schema of a record, or without one a line for each record that has one.

    Raises SlidestatError for another record.
    """
    if record is None:
        return [
            f"{name}: {(struct.__doc__ or '').partition(chr(10))[0]}"
            for name, (struct, _) in PUBLISHED.items()
        ]
    if record not in PUBLISHED:
        raise unknown(f"There is no schema of {record!r}.", record, PUBLISHED)
    return [json.dumps(json_schema(*PUBLISHED[record]), indent=2)]
