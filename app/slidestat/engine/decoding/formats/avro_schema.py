"""An Avro schema, and the JSON of the values that it describes.

Numbers, texts, enums, arrays, maps, records and unions of these are what they are in JSON; a
decimal is the number with all of its digits, a float the shortest number that reads back as it, a
UUID its text, bytes are base64, and a number that JSON does not have is null. Timestamps and dates
are whole numbers in the schema's unit, but for the event time, which is in the topology's.

Values are read by fastavro. It trusts a schema with as much stack and time as that asks for: one
whose records hold themselves, or whose lists have items without a byte, is refused. It reads the
symbol of a number below 0, and the branch of a union, from the end of their list: here they are in
dictionaries, which have none of such a number. And of a number of over 64 bits it has what is left.

Needs the packages of the extra `avro`: imported only where Avro is asked for.
"""

from collections.abc import Mapping, Sequence
from decimal import MIN_ETINY, Decimal, DecimalException
from fractions import Fraction
from io import BytesIO
from typing import Any
from uuid import UUID

import msgspec
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException
from fastavro.write import LOGICAL_WRITERS

from slidestat.declare.fields import FieldPath, field_text
from slidestat.engine.decoding.casts import decimal_of, json_of, of_single
from slidestat.engine.decoding.formats.source_schemas import (
    EventTime,
    NotReadableError,
    UnusableSchemaError,
)
from slidestat.engine.decoding.times import narrow_time
from slidestat.errors import SlidestatError, shown

# The errors of a schema; and those that fastavro raises for bytes that do not fit it.
_NO_SCHEMA = (
    SchemaParseException,
    msgspec.DecodeError,
    RecursionError,
    LookupError,
    TypeError,
    ValueError,
)
_GARBAGE = (DecimalException, EOFError, LookupError, OverflowError, TypeError, ValueError)

# Where what a value means is kept, out of fastavro's sight: it would make dates of timestamps, and
# refuse texts that are not the UUIDs that they are called.
_MEANING = "slidestat.logicalType"
# A decimal under a name of ours: fastavro's own is rounded to the digits of its schema, and an
# invalid one, which Avro has readers ignore, is an error.
_DECIMAL = "slidestat.decimal"
# Two that fastavro has no readers for.
_FLOAT, _UUID = "slidestat.float", "slidestat.uuid"
_INSIDE = ("type", "items", "values")
# Marks of fastavro's own for a schema that it has parsed, which keep it from parsing it again.
_PARSED, _NAMES = "__fastavro_parsed", "__named_schemas"
# Nine bytes that each say that the number goes on. Texts in UTF-8 may have such bytes, too.
_GOES_ON = bytes(byte >= 0x80 for byte in range(256))
_NINE = b"\1" * 9
_MOST_SHIFT = 70
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
# The digits of a power of two: its number of bits times log10(2).
_LOG_2, _LOG_10 = 30_102_999_566_398_119_521, 10**20
# A local timestamp has no zone, and a date neither: they are in UTC, as texts without one are.
_A_SECOND: dict[str, int | Fraction] = {
    f"{local}timestamp-{unit}": to_a_second
    for local in ("", "local-")
    for unit, to_a_second in (("millis", 1_000), ("micros", 10**6), ("nanos", 10**9))
} | {"date": Fraction(1, 86_400)}


class AvroSchema:
    """A reader of Avro values by their writer's schema; about a microsecond a field."""

    def __init__(
        self, text: str, references: Sequence[str] = (), time: EventTime | None = None
    ) -> None:
        """Parse a schema; `references` are the schemas whose types it names, each before those that
        use it. A timestamp that is the event `time` is given in its format. Raises
        UnusableSchemaError.
        """
        self._names: dict[str, Any] = {}
        ignored: dict[str, str] = {}
        try:
            for reference in references:
                self._parse(reference, ignored)
            self._schema = self._parse(text, ignored)
            self._can_be_empty: dict[str, bool | None] = {}
            self._check(self._schema)
            self._reading = _by_number(self._schema, self._names)
        except UnusableSchemaError:
            raise
        except _NO_SCHEMA as error:
            raise UnusableSchemaError(f"it is no Avro schema: {error}") from error
        self.remarks = [
            f"the decimal of {place} is ignored, as {why}: it is read as the type that it is in,"
            " bytes as base64"
            for place, why in ignored.items()
        ]
        """The ways in which a value differs from its schema, for a person."""
        self._time = time
        self._stamps: list[tuple[FieldPath, int | Fraction]] = []
        if time is not None:
            is_there = bool(self._meanings(self._schema, time.path[:1]))
            found = [(path, self._unit_at(path)) for path in time.paths(is_there=is_there)]
            if not time.format.is_sequence:
                self._stamps = [(path, unit) for path, unit in found if unit is not None]

    def json(self, value: bytes, start: int = 0) -> bytes:
        """Return the JSON of the value that is all from `start` on, or raise NotReadableError."""
        file = BytesIO(value)
        file.seek(start)
        try:
            whole: Any = schemaless_reader(file, self._reading, None)
            read = whole[_VALUE]
            if _NINE in value.translate(_GOES_ON):  # Or of a long text in other letters.
                self._end_of(self._schema, value, start)
            rest = len(value) - file.tell()
            if rest:
                raise NotReadableError(f"{rest} bytes are left behind what its schema describes")
            if self._time is not None:
                for path, to_a_second in self._stamps:
                    self._time.write(read, path, to_a_second)
            return json_of(read)
        except NotReadableError:
            raise
        except EOFError as error:
            raise NotReadableError("it ends before what its schema describes does") from error
        except _GARBAGE as error:
            raise NotReadableError(f"it is not what its schema describes: {error}") from error

    def _end_of(self, schema: Any, value: bytes, at: int) -> int:
        """Return where a part of a value ends that begins at a place; raises NotReadableError for a
        number of more than 64 bits.
        """
        schema = self._names.get(schema, schema) if isinstance(schema, str) else schema
        if isinstance(schema, list):
            number, at = _number_at(value, at)
            return self._end_of(schema[number], value, at)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in ("record", "error"):
            for field in schema["fields"]:
                at = self._end_of(field["type"], value, at)
            return at
        if kind in ("array", "map"):
            return self._end_of_items(schema, value, at)
        if kind == "fixed":
            return at + int(schema["size"])
        if kind in ("bytes", "string", "int", "long", "enum"):
            number, at = _number_at(value, at)
            return at + number if kind in ("bytes", "string") else at
        return at + _SIZES[kind] if kind in _SIZES else self._end_of(kind, value, at)

    def _end_of_items(self, schema: Any, value: bytes, at: int) -> int:
        count, at = _number_at(value, at)
        while count:
            if count < 0:
                _, at = _number_at(value, at)
            for _ in range(abs(count)):
                if schema["type"] == "map":
                    at = self._end_of("string", value, at)
                at = self._end_of(schema.get("items", schema.get("values")), value, at)
            count, at = _number_at(value, at)
        return at

    def write(self, value: object) -> bytes:
        """Return the bytes of a value given as in JSON; SlidestatError if it does not fit."""
        file = BytesIO()
        try:
            schemaless_writer(file, self._schema, value, strict_allow_default=True)
        except _GARBAGE as error:
            raise SlidestatError(
                f"{shown(value)} is not what the schema describes: {error}.",
                "Give what the schema has, or another schema.",
            ) from error
        return file.getvalue()

    def _parse(self, text: str, ignored: dict[str, str]) -> Any:
        schema = _with_meanings_aside(msgspec.json.decode(text), ignored)
        # A default plays no part in reading by the schema that wrote a value, and registries have
        # schemas with wrong ones: Avro did not check them up to version 1.8.
        return parse_schema(schema, named_schemas=self._names, _ignore_default_error=True)

    def _check(self, schema: Any) -> bool:
        """Check a schema, and return whether its values may have no bytes at all."""
        if isinstance(schema, list):
            for option in schema:
                self._check(option)
            return False
        if isinstance(schema, str):
            named = self._names.get(schema)
            return schema == "null" if named is None else self._check_named(schema, named)
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._check_named(schema["name"], schema)
        if kind == "map":
            self._check(schema["values"])
            return False
        if kind == "array":
            if self._check(schema["items"]):
                raise UnusableSchemaError("it has lists of items without a byte")
            return False
        return self._check(kind)

    def _check_named(self, name: str, schema: Any) -> bool:
        if name in self._can_be_empty:
            known = self._can_be_empty[name]
            if known is None:
                raise UnusableSchemaError(f"its record {name} holds records of its own kind")
            return known
        self._can_be_empty[name] = None
        if schema["type"] == "enum":
            found = False
        elif schema["type"] == "fixed":
            found = schema["size"] == 0
        else:
            parts = {field["name"]: self._check(field["type"]) for field in schema["fields"]}
            if len(parts) < len(schema["fields"]):
                raise UnusableSchemaError(f"its record {name} has two fields of one name")
            found = all(parts.values())
        self._can_be_empty[name] = found
        return found

    def _unit_at(self, path: FieldPath) -> int | Fraction | None:
        """Return the number of the timestamp's units, or of days, in a second; None where there is
        neither. Raises UnusableSchemaError for times that are narrow, or of several kinds.
        """
        found = self._meanings(self._schema, path)
        if _FLOAT in found:
            raise UnusableSchemaError(narrow_time(field_text(path)))
        if len(found) > 1:
            kinds = " and ".join(sorted(str(kind or "number") for kind in found))
            raise UnusableSchemaError(f"{field_text(path)} may be a {kinds}")
        return _A_SECOND.get(next(iter(found), None) or "")

    def _meanings(self, schema: Any, path: FieldPath) -> set[str | None]:
        if isinstance(schema, str):
            named = self._names.get(schema)
            if named is not None:
                return self._meanings(named, path)
            return set() if path or schema == "null" else {None}
        if isinstance(schema, list):
            return {kind for option in schema for kind in self._meanings(option, path)}
        if not path:
            return {_FLOAT if schema["type"] == "float" else schema.get(_MEANING)}
        if schema["type"] == "map":
            return self._meanings(schema["values"], path[1:])
        for field in schema.get("fields", ()):
            if field["name"] == path[0]:
                return self._meanings(field["type"], path[1:])
        return set()


def _with_meanings_aside(
    schema: Any, ignored: dict[str, str], path: FieldPath = (), *, is_field: bool = False
) -> Any:
    """Return a schema, or a field of one, with what its values mean out of fastavro's sight;
    `ignored` takes up why the decimal at a path is none.
    """
    if schema == "float":
        return {"type": "float", "logicalType": _FLOAT}
    if isinstance(schema, list):
        return [_with_meanings_aside(part, ignored, path) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for name, part in schema.items():
        if name == "fields" and isinstance(part, list):
            found[name] = [
                _with_meanings_aside(field, ignored, _below(path, field), is_field=True)
                for field in part
            ]
        else:
            inside = name in _INSIDE and (is_field or name != "type" or part != "float")
            found[name] = _with_meanings_aside(part, ignored, path) if inside else part
    meaning = found.pop("logicalType", None)
    fault = None
    if meaning == "decimal":
        fault = "it is not said within its type" if is_field else _decimal_fault(found)
    if meaning == "decimal" and fault is None:
        found["logicalType"] = _DECIMAL
    elif meaning is not None:
        found[_MEANING] = meaning
    if found.get("type") == "float":
        found["logicalType"] = _FLOAT
    elif meaning == "uuid" and (found.get("type"), found.get("size")) == ("fixed", 16):
        found["logicalType"] = _UUID
    if fault is not None:
        ignored[field_text(path) if path else "the value"] = fault
    return found


def _number_at(value: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place of a value, and the place behind it."""
    number = shift = 0
    while True:
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if number >= 2**64 or (shift == _MOST_SHIFT and byte >= 0x80):
            raise NotReadableError("it has a number of more than 64 bits")
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


class _Numbered(dict[int | str, Any]):
    """The symbols of an enum, or the branches of a union, by their numbers."""

    def __missing__(self, number: object) -> None:
        raise LookupError(f"an enum or a union has nothing of the number {number}")


_VALUE = "value"


def _by_number(schema: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a record whose only field is a value of a parsed `schema`, as
    schemaless_reader takes it; its bytes are the value's.
    """
    return {
        "type": "record",
        "name": "slidestat.Whole",
        "fields": [{"name": _VALUE, "type": _numbered(schema)}],
        _PARSED: True,
        _NAMES: {name: _numbered(named) for name, named in names.items()},
    }


def _numbered(schema: Any) -> Any:
    if isinstance(schema, list):
        return _Numbered({"type": "union"} | dict(enumerate(map(_numbered, schema))))
    if not isinstance(schema, dict):
        return schema
    found = {name: _numbered(part) if name in _INSIDE else part for name, part in schema.items()}
    if "fields" in found:
        found["fields"] = [{**one, "type": _numbered(one["type"])} for one in found["fields"]]
    if "symbols" in found:
        found["symbols"] = _Numbered(enumerate(found["symbols"]))
    return found


def _below(path: FieldPath, field: object) -> FieldPath:
    name = field.get("name") if isinstance(field, dict) else None
    return (*path, name) if isinstance(name, str) else path


def _decimal_fault(schema: Mapping[str, Any]) -> str | None:
    """Return why a schema is no decimal as Avro demands one; None if it is."""
    kind, precision, scale = schema.get("type"), schema.get("precision"), schema.get("scale", 0)
    if kind not in ("bytes", "fixed"):
        return "it is neither bytes nor fixed"
    if type(precision) is not int or precision <= 0:
        return "it has no precision from 1 on"
    if type(scale) is not int or not 0 <= scale <= precision:
        return "its scale is not from 0 to its precision"
    if scale > -MIN_ETINY:
        return "its scale is beyond all decimals"
    size = schema.get("size")
    if kind == "fixed" and (type(size) is not int or precision > _digits_in(size)):
        return "its size cannot hold its precision"
    return None


def _digits_in(size: int) -> int:
    """Return how many decimal digits all fit into a signed number of so many bytes."""
    return max(0, 8 * size - 1) * _LOG_2 // _LOG_10


def _decimal(value: bytes, schema: Any, _reader: object = None) -> Decimal:
    """Read a decimal, whatever its declared precision."""
    return decimal_of(value, schema.get("scale", 0))


LOGICAL_READERS[f"float-{_FLOAT}"] = lambda value, *_: of_single(value)
LOGICAL_READERS[f"fixed-{_UUID}"] = lambda value, *_: str(UUID(bytes=value))
LOGICAL_WRITERS[f"fixed-{_UUID}"] = lambda value, *_: (
    value if isinstance(value, bytes) else UUID(value).bytes
)
for _kind in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_kind}-{_DECIMAL}"] = _decimal
    LOGICAL_WRITERS[f"{_kind}-{_DECIMAL}"] = LOGICAL_WRITERS[f"{_kind}-decimal"]
