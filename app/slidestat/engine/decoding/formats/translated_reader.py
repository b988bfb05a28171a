"""Read records of other formats by translation into JSON.

So a field means what it means in JSON, is checked as there and refused with the same messages; and
a letter has the original record.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slidestat.engine.decoding.event_columns import Refusal
from slidestat.engine.decoding.field_columns import FieldColumns, RecordReader, placed_at
from slidestat.engine.decoding.formats.framing import NotReadableError, UnusableSchemaError
from slidestat.engine.decoding.formats.translations import Translation
from slidestat.schemas.dead_letter import Reason


class TranslatedReader:
    """A reader of records that are translated into JSON; the cost is mostly the translation's."""

    def __init__(self, translate: Translation, json: RecordReader, not_readable: Reason) -> None:
        """Create the reader; `json` reads the translated records; a value that cannot be translated
        is refused as `not_readable`.
        """
        self._translate = translate
        self._json = json
        self._not_readable = not_readable

    def read(self, records: Sequence[bytes | None]) -> FieldColumns:
        """Return the fields of the readable records and a refusal for each of the others; never
        raises.
        """
        translate = self._translate
        texts: list[bytes | None] = []
        refusals: list[Refusal] = []
        for row, record in enumerate(records):
            try:
                texts.append(None if record is None else translate(record))
            except NotReadableError as error:
                refusals.append(Refusal(row, self._not_readable, str(error)))
            except UnusableSchemaError as error:
                refusals.append(Refusal(row, Reason.BAD_SCHEMA, str(error)))
        read = self._json.read(texts)
        if not refusals:
            return read
        readable = np.delete(np.arange(len(records)), [refusal.row for refusal in refusals])
        read = placed_at(readable, read)
        both = sorted([*read.refusals, *refusals], key=lambda refusal: refusal.row)
        return replace(read, refusals=both)
