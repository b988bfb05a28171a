"""Debezium's envelope: of a change to a row, JSON that has the row's fields beside the envelope's.

The row is `after`, or `before` where it was deleted. `op`, `before`, `after`, `source`, `ts_ms` and
what else the envelope has keep their names; a column that is called as one of them is `after.NAME`.

Where PostgreSQL does not send a long text that has not changed, or long bytes, Debezium has a text
in its place (`unavailable.value.placeholder`), of bytes in base64 or in hexadecimal digits; it is
null here, as nothing is known of the column.
"""

import base64
import re

import msgspec

from slidestat.engine.decoding.formats.source_schemas import NotReadableError

DEBEZIUM = "debezium"
_OP = "op"
ROWS = ("after", "before")
"""The fields of a change that are its row: the first of them that is there."""
# A truncation, and a message that is of no table.
_WITHOUT_ROW = (b'"t"', b'"m"')
_NULL = b"null"
# The converter of Kafka Connect puts both around a value where `schemas.enable` is true.
_SCHEMA, _PAYLOAD = "schema", "payload"
_PLACEHOLDER = b"__debezium_unavailable_value"
# A value, not a name; a quote within a text is escaped.
_UNAVAILABLE = re.compile(
    rb'"(?:%b|%b|%b)"(?!\s*:)'
    % (_PLACEHOLDER, base64.b64encode(_PLACEHOLDER), _PLACEHOLDER.hex().encode())
)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class NoEnvelopeError(NotReadableError):
    """An error of a value that is JSON, and no change of Debezium's."""


def unwrapped(value: bytes) -> bytes | None:
    """Return the event of a change; None for one that is of no row: a truncation, or a message.

    Raises NotReadableError for what is no JSON object, and NoEnvelopeError for another object.
    """
    fields = payload_of(_UNAVAILABLE.sub(_NULL, value))
    if fields is None:
        return None
    if _OP not in fields:
        raise NoEnvelopeError(
            "the object has no op, so it is no change in Debezium's envelope: leave `envelope` out"
            " where the connector extracts the rows"
        )
    rows = (bytes(fields.get(side, _NULL)) for side in ROWS)
    row = next((row for row in rows if row != _NULL), None)
    if row is None:
        if bytes(fields[_OP]) in _WITHOUT_ROW:
            return None
        # A change of a row that nothing is sent of, such as a deletion without a primary key.
        row = b"{}"
    if row[:1] != b"{":
        raise NoEnvelopeError("its after or before is no object: MongoDB's rows are texts of JSON")
    # The envelope's names are its own: no reader has to look past a column `source` of texts.
    return msgspec.json.encode(_object(row) | fields)


def payload_of(value: bytes) -> dict[str, msgspec.Raw] | None:
    """Return the fields of an object, without the schema that Kafka Connect puts before it; None
    for a payload of null. Raises NotReadableError for what is no object.
    """
    fields = _object(value)
    if fields.keys() == {_SCHEMA, _PAYLOAD}:
        payload = bytes(fields[_PAYLOAD])
        return None if payload == _NULL else _object(payload)
    return fields


def _object(value: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _OBJECT.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NotReadableError(str(error)) from error
