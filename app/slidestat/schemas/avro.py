"""Avro schemas of what is on the wire, made from the structs as the JSON Schemas are.

A field that a struct may leave out has the struct's default in Avro too: so a reader of either
version can read records of the other, as long as new fields come with a default. A struct that
derives from another is a later version of it: it has the same name, and a field of another name has
the older one as its alias, so that a reader of the later version can read records of the older one.
"""

import inspect
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import inspect as types

from slidestat.schemas.emission import Emission

NAMESPACE = "slidestat"

_PRIMITIVES: dict[type[types.Type], str] = {
    types.StrType: "string",
    types.IntType: "long",
    types.FloatType: "double",
    types.BoolType: "boolean",
    types.NoneType: "null",
}


def avro_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a struct as a record in NAMESPACE, with the structs in it nested.

    Its fields are text, whole numbers (of 64 bits), floats, truth values, lists, other structs, or
    any of these or none; raise TypeError for a field of another type.
    """
    schema: dict[str, Any] = _record(struct, set()) | {"namespace": NAMESPACE}
    return {name: schema[name] for name in ("type", "name", "namespace", "doc", "fields")}


def emission_schema(emission: type[Emission] = Emission, *, without: Collection[str] = ()) -> str:
    """Return the schema of a version of the emission, as JSON text, `without` some fields of
    figures: those that no figure of a topology has.
    """
    schema = avro_schema(emission)
    (figures,) = (field for field in schema["fields"] if field["name"] == "figures")
    figure = figures["type"]["items"]
    figure["fields"] = [field for field in figure["fields"] if field["name"] not in without]
    return json.dumps(schema, indent=2, ensure_ascii=False)


def row_schema(
    topic: str, columns: Mapping[str, str | list[str]], aliases: Mapping[str, str]
) -> str:
    """Return the schema of the rows of a topic, as JSON text; `columns` maps names to types,
    `aliases` maps some names to their older ones.
    """
    fields = [
        {
            "name": name,
            **({"aliases": [aliases[name]]} if name in aliases else {}),
            "type": kind,
            **({"default": None} if isinstance(kind, list) else {}),
        }
        for name, kind in columns.items()
    ]
    name = record_name(topic)
    return json.dumps({"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields})


def record_name(topic: str) -> str:
    """Return the name of the records of a topic, in letters that Avro and Protobuf allow."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return name if name[0].isalpha() else f"_{name}"


def _record(struct: type[msgspec.Struct], known: set[str]) -> dict[str, Any]:
    name = _first_version(struct).__name__
    known.add(name)
    return {
        "type": "record",
        "name": name,
        "doc": inspect.getdoc(struct) or "",
        "fields": [_field(struct, field, known) for field in msgspec.structs.fields(struct)],
    }


def _first_version(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    base: type[msgspec.Struct] = struct.__bases__[0]
    return struct if base is msgspec.Struct else _first_version(base)


def _field(
    struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo, known: set[str]
) -> dict[str, Any]:
    kind = types.type_info(field.type)
    described: dict[str, Any] = {"name": field.encode_name}
    older = _first_version(struct)
    older_name = older.__struct_encode_fields__[older.__struct_fields__.index(field.name)]
    if older_name != field.encode_name:
        described["aliases"] = [older_name]
    if isinstance(kind, types.Metadata):
        described["doc"] = (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    described["type"] = _type(kind, known, f"{struct.__name__}.{field.name}")
    if field.default is not msgspec.NODEFAULT:
        described["default"] = field.default
    return described


def _type(kind: types.Type, known: set[str], where: str) -> Any:
    if isinstance(kind, types.Metadata):
        return _type(kind.type, known, where)
    if type(kind) in _PRIMITIVES:
        return _PRIMITIVES[type(kind)]
    if isinstance(kind, types.ListType):
        return {"type": "array", "items": _type(kind.item_type, known, where)}
    if isinstance(kind, types.UnionType):
        # Null first: the default of such a field is null, and Avro asks for the default's type.
        parts = sorted(kind.types, key=lambda part: not isinstance(part, types.NoneType))
        return [_type(part, known, where) for part in parts]
    if isinstance(kind, types.StructType):
        name = _first_version(kind.cls).__name__
        return name if name in known else _record(kind.cls, known)
    raise TypeError(f"{where} is of a type that has no Avro schema here: {kind!r}")
