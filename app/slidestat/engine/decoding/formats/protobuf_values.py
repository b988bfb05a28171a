"""Messages of Protobuf as values of JSON.

Fields have the names of the .proto file. One with presence that is not set is left out: so it is a
missing field. One without presence (of proto3, without `optional`) has its default. Enums are
texts, numbers have all of their digits, bytes stay bytes; a Timestamp is the seconds since 1970, a
Duration its seconds, each with all digits; a wrapper is what is in it. A number that an enum has no
name for stays a number.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_Take = Callable[[Any], object]

TIMESTAMP = "google.protobuf.Timestamp"
_NULL = "google.protobuf.NullValue"
# Of the longest decimal: 600 digits; more are no amount of anything, and take long to write.
_DECIMAL_BYTES = 256


class MessageValues:
    """A converter of a schema's messages into plain values; half a microsecond a field."""

    def __init__(self) -> None:
        self._made: dict[str, _Take] = {}

    def of(self, kind: Descriptor) -> _Take:
        """Return what makes a plain value of a message of this kind."""
        known = _WELL_KNOWN.get(kind.full_name) or self._made.get(kind.full_name)
        if known is not None:
            return known
        takes: dict[int, tuple[str, _Take | None]] = {}
        defaults: dict[str, object] = {}

        def take(message: Any) -> dict[str, object]:
            found = defaults.copy()
            for field, value in message.ListFields():
                if field.number in takes:  # Extensions are not.
                    name, of_field = takes[field.number]
                    found[name] = value if of_field is None else of_field(value)
            return found

        # Before its fields: they may be of its own kind.
        self._made[kind.full_name] = take
        for field in kind.fields:
            of_field = self._of_field(field)
            takes[field.number] = field.name, of_field
            if not field.has_presence:
                empty: object = {} if _is_map(field) else [] if field.is_repeated else None
                value = field.default_value if empty is None else empty
                is_plain = of_field is None or empty is not None
                defaults[field.name] = value if is_plain else of_field(value)  # type: ignore[misc]
        return take

    def _of_field(self, field: FieldDescriptor) -> _Take | None:
        """Return what makes a plain value of a field's; None where it is one."""
        if _is_map(field):
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            to_text = _KEYS.get(key.cpp_type, str)
            of_value = self._of_one(value) or _same
            return lambda items: {to_text(key): of_value(items[key]) for key in items}
        one = self._of_one(field)
        if not field.is_repeated:
            return one
        return list if one is None else lambda values: [one(value) for value in values]

    def _of_one(self, field: FieldDescriptor) -> _Take | None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            return self.of(field.message_type)
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            if field.enum_type.full_name == _NULL:
                return _none
            names = {value.number: value.name for value in reversed(field.enum_type.values)}
            return lambda number: names.get(number, number)
        return _text if field.type == FieldDescriptor.TYPE_STRING else None


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return bool(field.is_repeated and kind is not None and kind.GetOptions().map_entry)


def is_timestamp(kind: Descriptor, path: tuple[str, ...]) -> bool:
    """Return whether the field of a message at this path is a single Timestamp."""
    name, *below = path
    field = kind.fields_by_name.get(name)
    if field is None or field.message_type is None:
        return False
    if _is_map(field):
        field = field.message_type.fields_by_name["value"]
        if not below or field.message_type is None:
            return False
        below = below[1:]
    elif field.is_repeated:
        return False
    if not below:
        return bool(field.message_type.full_name == TIMESTAMP)
    return is_timestamp(field.message_type, tuple(below))


def _same(value: object) -> object:
    return value


def _none(_value: object) -> None:
    return None


def _text(value: object) -> str:
    if not isinstance(value, str):  # proto2 lets any bytes be a text, and they come as such.
        raise ValueError(f"its text {value!r} is not UTF-8")
    return value


def _truth(value: object) -> str:
    return "true" if value else "false"


def _seconds(value: Any) -> object:
    if not value.nanos:
        return value.seconds
    return Decimal(value.seconds) + Decimal(value.nanos).scaleb(-9)


def _wrapped(value: Any) -> object:
    return value.value


def _struct(value: Any) -> dict[str, object]:
    return {name: _any_json(value.fields[name]) for name in value.fields}


def _list(value: Any) -> list[object]:
    return [_any_json(item) for item in value.values]


def _any_json(value: Any) -> object:
    kind = value.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    take = {"struct_value": _struct, "list_value": _list}.get(kind, _same)
    return take(getattr(value, kind))


def _decimal(value: Any) -> Decimal:
    """Return the value of Confluent's decimal: a whole number in two's complement, and how many of
    its digits are fractions.
    """
    if len(value.value) > _DECIMAL_BYTES:
        raise ValueError(f"it has a decimal of {len(value.value)} bytes")
    number = Decimal(int.from_bytes(value.value, "big", signed=True)).as_tuple()
    return Decimal((number.sign, number.digits, -value.scale))


_KEYS: Mapping[int, Callable[[object], str]] = {
    FieldDescriptor.CPPTYPE_BOOL: _truth,
    FieldDescriptor.CPPTYPE_STRING: _text,
}
_WRAPPERS = ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
_WELL_KNOWN: Mapping[str, _Take] = {
    TIMESTAMP: _seconds,
    "google.protobuf.Duration": _seconds,
    "google.protobuf.Struct": _struct,
    "google.protobuf.ListValue": _list,
    "google.protobuf.Value": _any_json,
    "confluent.type.Decimal": _decimal,
    **{f"google.protobuf.{name}Value": _wrapped for name in _WRAPPERS},
}
