"""The msgspec type that reads a topology's records: only the fields asked for, limits included."""

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import Annotated, Any, get_args

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
    """A struct with the fields that `topology` reads, nested as they are in the records. What
    statistics read is None where a record has null or nothing.
    """
    types: dict[FieldPath, object] = {column.path: _ITEM for column in topology.columns.items}
    for column in topology.columns.numbers:
        if column.limits is not None:
            types[column.path] = _number(column.limits, also_item=column.path in types)
    optional = frozenset(types)
    if topology.time_path is not None:
        types[topology.time_path] = topology.times.type
    if topology.key_path is not None and not topology.publishes_partitions:
        types[topology.key_path] = KEY
    return struct_of(types, optional)


def struct_of(
    types: Mapping[FieldPath, object], optional: Collection[FieldPath] = ()
) -> type[msgspec.Struct]:
    """A struct with a field of the given type at each path; those that are `optional`, and objects
    with nothing but such fields, are None where they are null or not there.
    """
    tree: _Tree = {}
    for path, leaf in types.items():
        _plant(tree, path, leaf)
    return _struct(tree, (), frozenset(optional))[0]


def reader(struct: type[msgspec.Struct], path: FieldPath) -> Callable[[Any], Any]:
    """Return a function that reads the field at `path`; None where an object around it is."""
    attributes: list[str] = []
    current: Any = struct
    may_lack_parent = False
    for name in path:
        may_lack_parent |= bool(attributes) and _is_optional(current)
        field = next(f for f in msgspec.structs.fields(_present(current)) if f.encode_name == name)
        attributes.append(field.name)
        current = field.type
    read = attrgetter(".".join(attributes))
    return _read_if_there(read) if may_lack_parent else read


def _plant(tree: _Tree, path: FieldPath, leaf: object) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = leaf


def _struct(
    tree: _Tree, above: FieldPath, optional: frozenset[FieldPath]
) -> tuple[type[msgspec.Struct], bool]:
    """The struct of what lies below a path, and whether all of it is optional."""
    names = {f"f{i}": name for i, name in enumerate(tree)}
    fields: list[Any] = []
    is_optional = True
    for attribute, name in names.items():
        leaf, path = tree[name], (*above, name)
        may_lack = path in optional
        if isinstance(leaf, dict):
            leaf, may_lack = _struct(leaf, path, optional)
        fields.append((attribute, leaf | None, None) if may_lack else (attribute, leaf))
        is_optional &= may_lack
    struct = msgspec.defstruct("Record", fields, rename=names, gc=False, kw_only=True)
    return struct, is_optional


def _is_optional(kind: object) -> bool:
    return type(None) in get_args(kind)


def _present(kind: Any) -> Any:
    """The type of an object that is there."""
    return next(k for k in get_args(kind) if k is not type(None)) if _is_optional(kind) else kind


def _read_if_there(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_if_there(event: Any) -> Any:
        try:
            return read(event)
        except AttributeError:
            return None

    return read_if_there
