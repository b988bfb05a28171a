"""A Protobuf schema, and the JSON of the messages that it describes.

In a registry's framing the number of the schema is followed by which of its messages it is: how
many steps from the file into nested messages, then each, as zigzag varints, or a single zero byte
for the file's first message (Confluent, "Wire format").

Needs the packages of the extra `protobuf`: imported only where Protobuf is asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from slidestat.declare.fields import FieldPath, field_text
from slidestat.engine.decoding.casts import decimal_of, json_of, of_single
from slidestat.engine.decoding.formats.proto_files import declared_files, registered_files
from slidestat.engine.decoding.formats.source_schemas import (
    EventTime,
    NamedText,
    NotReadableError,
    UnusableSchemaError,
)
from slidestat.engine.decoding.times import narrow_time
from slidestat.errors import SlidestatError, shown

# Messages of Protobuf as values of JSON.
#
# Fields have the names of the .proto file. One with presence that is not set is left out: so it is
# a missing field. One without presence (of proto3, without `optional`) has its default. Enums are
# texts, numbers have all of their digits, a float is the shortest number that reads back as it,
# bytes stay bytes; a Timestamp is the seconds since 1970, a Duration its seconds, each with all
# digits; a wrapper is what is in it. A number that an enum has no name for stays a number.

_Take = Callable[[Any], object]

TIMESTAMP = "google.protobuf.Timestamp"
_NULL = "google.protobuf.NullValue"
_FLOAT = "google.protobuf.FloatValue"


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

        # Noted before its fields are: they may be of its own kind.
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
        return _OF_TYPE.get(field.type)


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return bool(field.is_repeated and kind is not None and kind.GetOptions().map_entry)


def _single_field(kind: Descriptor, path: FieldPath) -> FieldDescriptor | None:
    """Return the field of a message at this path; None where there is none, or many of it."""
    name, *below = path
    field = kind.fields_by_name.get(name)
    if field is not None and _is_map(field) and below:
        field = field.message_type.fields_by_name["value"]
        below = below[1:]
    elif field is None or field.is_repeated:
        return None
    if not below:
        return field
    return None if field.message_type is None else _single_field(field.message_type, tuple(below))


def _message_name(field: FieldDescriptor | None) -> str:
    """Return which message a field is; "" of another field."""
    return "" if field is None or field.message_type is None else field.message_type.full_name


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


_OF_TYPE: Mapping[int, _Take] = {
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_FLOAT: of_single,
}
_KEYS: Mapping[int, Callable[[object], str]] = {
    FieldDescriptor.CPPTYPE_BOOL: _truth,
    FieldDescriptor.CPPTYPE_STRING: _text,
}
_WRAPPERS = ("Bool", "Bytes", "Double", "Int32", "Int64", "String", "UInt32", "UInt64")
_WELL_KNOWN: Mapping[str, _Take] = {
    TIMESTAMP: _seconds,
    "google.protobuf.Duration": _seconds,
    "google.protobuf.Struct": _struct,
    "google.protobuf.ListValue": _list,
    "google.protobuf.Value": _any_json,
    "confluent.type.Decimal": lambda value: decimal_of(value.value, value.scale),
    **{f"google.protobuf.{name}Value": _wrapped for name in _WRAPPERS},
    _FLOAT: lambda value: of_single(value.value),
}


# Values that a message can have, and JSON or a moment cannot; text of proto2 may be any bytes.
_GARBAGE = (ArithmeticError, RecursionError, ValueError)
_DEEPEST = 100
_LONGEST_VARINT = 10


class ProtobufSchema:
    """A reader of Protobuf values by their writer's schema: 4 microseconds for six fields."""

    def __init__(self, files: FileDescriptorSet, time: EventTime | None = None) -> None:
        """Parse a schema from its `files`, its own last. A Timestamp that is the event `time` is
        given in its format. Raises UnusableSchemaError.
        """
        self._pool = DescriptorPool()
        try:
            for file in files.file:
                self._pool.AddSerializedFile(file.SerializeToString())
            self._file: FileDescriptor = self._pool.FindFileByName(files.file[-1].name)
        except (KeyError, TypeError) as error:
            raise UnusableSchemaError(f"it is no Protobuf schema: {error}") from error
        self._time = time
        self._values = MessageValues()
        self._by_steps: dict[tuple[int, ...], Callable[[bytes], bytes]] = {}

    @classmethod
    def registered(
        cls, text: str, references: Sequence[NamedText] = (), time: EventTime | None = None
    ) -> "ProtobufSchema":
        """Return the schema of a registry, with the files that it imports."""
        return cls(_registered(text, tuple(references)), time)

    @classmethod
    def declared(cls, text: str, time: EventTime | None = None) -> "ProtobufSchema":
        """Return the schema of a topology: a .proto file, or a set of descriptors in base64."""
        return cls(_declared(text), time)

    def json(self, value: bytes, start: int = 0) -> bytes:
        """Return the JSON of the message with its index path from `start` on; NotReadableError."""
        steps, start = _steps(value, start)
        read = self._by_steps.get(steps)
        if read is None:
            read = self._by_steps[steps] = self._reader(self._message_at(steps))
        return read(value[start:])

    @staticmethod
    def after_index(framing: bytes, start: int) -> int:
        """Return where the index path at `start` ends; raises NotReadableError if it does not."""
        return _steps(framing, start)[1]

    def reader_of(self, message: str) -> Callable[[bytes], bytes]:
        """Return what makes JSON of the bytes of a message; its name may be left out where the
        file has one alone. Raises UnusableSchemaError.
        """
        return self._reader(self._message(message))

    def write(self, value: Mapping[str, Any], message: str = "", *, framed: bool = False) -> bytes:
        """Return the bytes of a message given as Protobuf's own JSON; `framed` ones are of the
        file's first message, with its index path before. Raises SlidestatError for another value.
        """
        kind = self._message_at((0,)) if framed else self._message(message)
        try:
            content = ParseDict(dict(value), GetMessageClass(kind)()).SerializeToString()
        except (ParseError, EncodeError, *_GARBAGE) as error:
            raise SlidestatError(
                f"{shown(value)} is not what the schema describes: {error}.",
                "Give what the schema has, or another schema.",
            ) from error
        return b"\0" + content if framed else bytes(content)

    def _message(self, name: str) -> Descriptor:
        messages = self._file.message_types_by_name
        if not name:
            if len(messages) == 1:
                return next(iter(messages.values()))
            names = ", ".join(message.full_name for message in messages.values()) or "none"
            raise UnusableSchemaError(
                f"its file has {len(messages)} messages ({names}), and source_message says which"
            )
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            pass
        if name in messages:
            return messages[name]
        raise UnusableSchemaError(f"it has no message {name!r}")

    def _message_at(self, steps: Sequence[int]) -> Descriptor:
        among = list(self._file.message_types_by_name.values())
        *above, last = steps
        try:
            for step in above:
                nested = among[step].nested_types
                # protoc makes a message of each map, which is none of the messages of a file.
                among = [kind for kind in nested if not kind.GetOptions().map_entry]
            return among[last]
        except IndexError as error:
            raise NotReadableError(f"its schema has no message at {list(steps)}") from error

    def _reader(self, kind: Descriptor) -> Callable[[bytes], bytes]:
        parse = GetMessageClass(kind).FromString
        plain = self._values.of(kind)
        stamps = self._stamps_in(kind)

        def read(content: bytes) -> bytes:
            try:
                value = plain(parse(content))
                if self._time is not None:
                    for path in stamps:
                        self._time.write(value, path)
                return json_of(value)
            except DecodeError as error:
                raise NotReadableError(f"it is not what its schema describes: {error}") from error
            except _GARBAGE as error:
                raise NotReadableError(f"it has what no event can have: {error}") from error

        return read

    def _stamps_in(self, kind: Descriptor) -> list[FieldPath]:
        """Return where the Timestamps of event times are; UnusableSchemaError for narrow times."""
        if self._time is None:
            return []
        is_there = self._time.path[0] in kind.fields_by_name
        found = []
        for path in self._time.paths(is_there=is_there):
            time = _single_field(kind, path)
            if time is not None and (time.type == time.TYPE_FLOAT or _message_name(time) == _FLOAT):
                raise UnusableSchemaError(narrow_time(field_text(path)))
            if _message_name(time) == TIMESTAMP and not self._time.format.is_sequence:
                found.append(path)
        return found


def _steps(value: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the index path of a message, and where its bytes begin."""
    if value[start : start + 1] == b"\0":
        return (0,), start + 1
    count, place = _zigzag(value, start)
    if not 0 < count <= _DEEPEST:
        raise NotReadableError(f"it is {count} steps to its message")
    steps = []
    for _ in range(count):
        step, place = _zigzag(value, place)
        if step < 0:
            raise NotReadableError("it does not say which message it is")
        steps.append(step)
    return tuple(steps), place


def _zigzag(value: bytes, start: int) -> tuple[int, int]:
    number = 0
    for place in range(_LONGEST_VARINT):
        if start + place >= len(value):
            raise NotReadableError("it ends before it says which message it is")
        byte = value[start + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), start + place + 1
    raise NotReadableError("it does not say which message it is")


# A worker reads a schema in several places: for its partitions, and for a sample of the source.
_registered = lru_cache(maxsize=64)(registered_files)
_declared = lru_cache(maxsize=8)(declared_files)
