"""The structs of `schemas` as types of Spark's columns: one source for both."""

import types
import typing
from typing import Any

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

# A truth value is an int to Python, so it is asked for first; an enumeration of texts is a text.
_PLAIN: tuple[tuple[type, DataType], ...] = (
    (bool, BooleanType()),
    (int, LongType()),
    (float, DoubleType()),
    (str, StringType()),
)


def struct_type(struct: type[msgspec.Struct]) -> StructType:
    """The columns of a struct: the same names, each nullable, as fields may be left out."""
    hints = typing.get_type_hints(struct)
    return StructType(
        [StructField(name, _column(hints[name])) for name in struct.__struct_fields__]
    )


def _column(hint: Any) -> DataType:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (hint,) = (option for option in typing.get_args(hint) if option is not type(None))
        return _column(hint)
    if origin is list:
        return ArrayType(_column(typing.get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return struct_type(hint)
    return next(kind for plain, kind in _PLAIN if issubclass(hint, plain))
