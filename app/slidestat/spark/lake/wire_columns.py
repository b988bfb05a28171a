"""The structs of `schemas` as types of Spark's columns: one source for both."""

import types
import typing
from collections.abc import Mapping
from inspect import signature
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
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


def struct_type(struct: type[msgspec.Struct], *, on_the_wire: bool = False) -> StructType:
    """Return the columns of a struct: the names of its attributes, or those `on_the_wire`; each
    nullable, as fields may be left out.
    """
    hints = typing.get_type_hints(struct)
    names = struct.__struct_encode_fields__ if on_the_wire else struct.__struct_fields__
    return StructType(
        [
            StructField(name, _column(hints[attribute], on_the_wire))
            for name, attribute in zip(names, struct.__struct_fields__, strict=True)
        ]
    )


def arrow_schema(columns: StructType) -> pa.Schema:
    """Return the columns of Spark as columns of Arrow, with times in UTC."""
    # PySpark 4.2 asks for the zone; before, there was no such argument, and UTC was the default.
    is_asked = "timezone" in signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if is_asked else {}
    return to_arrow_schema(columns, **zone)


def batch_of(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Return some columns of a schema, at least one of them, with null in all others."""
    count = len(next(iter(columns.values())))
    return pa.record_batch(
        [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _column(hint: Any, on_the_wire: bool) -> DataType:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (hint,) = (option for option in typing.get_args(hint) if option is not type(None))
        return _column(hint, on_the_wire)
    if origin is list:
        return ArrayType(_column(typing.get_args(hint)[0], on_the_wire))
    if origin is typing.Literal:
        return _column(type(typing.get_args(hint)[0]), on_the_wire)
    if origin is dict:
        name, value = (_column(of, on_the_wire) for of in typing.get_args(hint))
        return MapType(name, value)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return struct_type(hint, on_the_wire=on_the_wire)
    return next(kind for plain, kind in _PLAIN if issubclass(hint, plain))
