"""The msgspec type that reads a topology's records: only the fields asked for, limits included."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slidestat.declare.columns import MAX_ITEM_LENGTH, Limits
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.schemas.event import MAX_KEY_LENGTH

_Tree = dict[str, Any]

KEY = (
    Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH)]
    | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
)
_ITEM = Annotated[str, Meta(max_length=MAX_ITEM_LENGTH)] | int | float | bool


def _number(limits: Limits, *, also_item: bool) -> object:
    meta = Meta(ge=limits.least, le=limits.most)
    if not also_item:
        return Annotated[float, meta]
    # A whole number stays one, so that as an item it is the text that it is in JSON.
    whole = Meta(ge=max(-(2**63), int(limits.least)), le=min(2**63 - 1, int(limits.most)))
    return Annotated[int, whole] | Annotated[float, meta]


def record_type(topology: Topology) -> type[msgspec.Struct]:
    """A struct with the fields that `topology` reads, nested as they are in the records."""
    types: dict[FieldPath, object] = {column.path: _ITEM for column in topology.columns.items}
    for column in topology.columns.numbers:
        if column.limits is not None:
            types[column.path] = _number(column.limits, also_item=column.path in types)
    if topology.time_path is not None:
        types[topology.time_path] = topology.times.type
    if topology.key_path is not None and not topology.publishes_partitions:
        types[topology.key_path] = KEY
    return struct_of(types)


def struct_of(types: Mapping[FieldPath, object]) -> type[msgspec.Struct]:
    """A struct with a field of the given type at each path."""
    tree: _Tree = {}
    for path, leaf in types.items():
        _plant(tree, path, leaf)
    return _struct(tree)


def reader(struct: type[msgspec.Struct], path: FieldPath) -> Callable[[Any], Any]:
    """Return a function that reads the field at `path` of such a struct."""
    attributes = []
    current: Any = struct
    for name in path:
        field = next(f for f in msgspec.structs.fields(current) if f.encode_name == name)
        attributes.append(field.name)
        current = field.type
    return attrgetter(".".join(attributes))


def _plant(tree: _Tree, path: FieldPath, leaf: object) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = leaf


def _struct(tree: _Tree) -> type[msgspec.Struct]:
    names = {f"f{i}": name for i, name in enumerate(tree)}
    fields = [
        (attribute, _struct(tree[name]) if isinstance(tree[name], dict) else tree[name])
        for attribute, name in names.items()
    ]
    return msgspec.defstruct("Record", fields, rename=names, gc=False)
