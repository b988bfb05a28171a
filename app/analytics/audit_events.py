"""Events read again, for an audit: every number as the decimal that it is in the record."""

import json
from decimal import Decimal

import msgspec

from app.analytics.declaration import Declaration, Path


class UnreadableError(Exception):
    """A record without one of the fields."""


def read_event(declaration: Declaration, record: bytes | None) -> tuple[str, int, list[str]]:
    """Key, time and the text of each of `declaration.columns`; a number keeps its digits.

    Raises UnreadableError for a record that has not all of them.
    """
    try:
        fields = json.loads(record or b"", parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UnreadableError from error
    key, time = _at(fields, declaration.key_path), _at(fields, declaration.time_path)
    if type(key) is not str or type(time) is not int:
        raise UnreadableError
    return key, time, [_text(_at(fields, path), as_item) for path, as_item in declaration.columns]


def _at(fields: object, path: Path) -> object:
    for name in path:
        if not isinstance(fields, dict) or name not in fields:
            raise UnreadableError
        fields = fields[name]
    return fields


def _text(value: object, as_item: bool) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            # An item is called by the shortest text of its double.
            return msgspec.json.encode(float(value)).decode() if as_item else str(value)
    raise UnreadableError
