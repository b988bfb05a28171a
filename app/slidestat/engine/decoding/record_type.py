"""The msgspec type that reads a topology's records: only the fields asked for, limits included."""

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from slidestat.declare.columns import MAX_ITEM_LENGTH, Limits
from slidestat.declare.expressions.nodes import Sort
from slidestat.declare.fields import FieldPath
from slidestat.declare.topology import Topology
from slidestat.schemas.event import MAX_KEY_LENGTH

_Tree = dict[str, Any]

KEY = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH)] | int
_ITEM = Annotated[str, Meta(max_length=MAX_ITEM_LENGTH)] | int | float | bool


def _number(limits: Limits, *, also_item: bool) -> object:
    meta = Meta(ge=limits.least, le=limits.most)
    if not also_item:
        return Annotated[float, meta]
    # A whole number stays one, so that as an item it is the text that it is in JSON.
    if limits.are_any:
        return int | Annotated[float, meta]
    whole = Meta(ge=max(-(2**63), int(limits.least)), le=min(2**63 - 1, int(limits.most)))
    return Annotated[int, whole] | Annotated[float, meta]


# Types that may be null; a Raw is JSON as it is written.
_ANY = (Any, msgspec.Raw)
# The type of a field that conditions read as one sort.
_OF_SORT: dict[Sort, Any] = {
    Sort.NUMBER: float,
    Sort.TEXT: str,
    Sort.TRUTH: bool,
    Sort.SCALAR: str | int | float | bool,
}


def record_type(topology: Topology, *, lenient: bool = False) -> type[msgspec.Struct]:
    """Return a struct with the fields that `topology` reads, nested as they are in the records.
    Fields of statistics and conditions are None where a record has null or nothing; a `lenient`
    struct takes anything in fields that conditions alone read.
    """
    computed = topology.computed_fields
    types: dict[FieldPath, object] = {
        column.path: _ITEM for column in topology.columns.items if column.path not in computed
    }
    for place, column in enumerate(topology.columns.numbers):
        if column.limits is not None and column.path not in computed:
            # Limits hold for columns that are read of all events.
            limits = Limits() if place in topology.chosen_columns else column.limits
            types[column.path] = _number(limits, also_item=column.path in types)
    optional = {*types} - {topology.time_path}
    if topology.time_path is not None:
        # Where it is read as a number as well, it is one.
        is_number = topology.time_path in types or topology.time_path in topology.expression_fields
        kind: Any = topology.times.type
        types[topology.time_path] = kind if is_number or topology.is_sequence else kind | str
    if topology.key_path is not None and reads_key(topology):
        types[topology.key_path] = KEY
        optional.discard(topology.key_path)  # Statistics may read it as well.
    in_conditions = condition_paths(topology)
    for path in expression_paths(topology):
        known = topology.expression_fields[path] - {Sort.ANY}
        (sort, *others) = known or {Sort.ANY}
        types[path] = Any if others else _OF_SORT.get(sort, Any)
        if lenient and path in in_conditions:
            types[path] = msgspec.Raw
        optional.add(path)
    return struct_of(types, optional)


def reads_key(topology: Topology) -> bool:
    """Return whether a key is read from the records."""
    path = topology.key_path
    own = path is not None and path not in topology.computed_fields
    return own and not topology.publishes_partitions


def expression_paths(topology: Topology) -> list[FieldPath]:
    """Return the fields that expressions alone read."""
    columns = topology.columns
    others = {column.path for column in (*columns.numbers, *columns.items)}
    others |= {path for path in (topology.time_path,) if path is not None}
    if topology.key_path is not None and reads_key(topology):
        others.add(topology.key_path)
    return [path for path in topology.expression_fields if path not in others]


def condition_paths(topology: Topology) -> list[FieldPath]:
    """Return the fields that conditions alone read."""
    computed = topology.computed_fields.values()
    others = {path for field in computed for path in field.expression.paths}
    return [path for path in expression_paths(topology) if path not in others]


def struct_of(
    types: Mapping[FieldPath, object], optional: Collection[FieldPath] = ()
) -> type[msgspec.Struct]:
    """Return a struct with a field of the given type at each path. Fields that are `optional`, and
    objects with only such fields, are None where they are null or missing.
    """
    tree: _Tree = {}
    for path, leaf in types.items():
        inner = tree
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = leaf
    return _struct(tree, (), frozenset(optional))[0]


def attributes(struct: type[msgspec.Struct], path: FieldPath) -> list[str]:
    """Return the attribute names that lead to the field at `path` in such a struct."""
    return [field.name for field in _fields_along(struct, path)]


def reader(struct: type[msgspec.Struct], path: FieldPath) -> Callable[[Any], Any]:
    """Return a function that reads the field at `path`; None where an object around it is."""
    fields = _fields_along(struct, path)
    read = attrgetter(".".join(field.name for field in fields))
    return _read_if_there(read) if any(_is_optional(f.type) for f in fields[:-1]) else read


def blank(event: Any, names: Sequence[str]) -> None:
    """Set a field of an event to None, by its `attributes`."""
    for name in names[:-1]:
        event = getattr(event, name)
        if event is None:
            return
    setattr(event, names[-1], None)


def _fields_along(struct: type[msgspec.Struct], path: FieldPath) -> list[msgspec.structs.FieldInfo]:
    """Return the fields of such a struct, and of those in it, that lead to the one at `path`."""
    found: list[msgspec.structs.FieldInfo] = []
    current: Any = struct
    for name in path:
        fields = msgspec.structs.fields(_present(current))
        found.append(next(field for field in fields if field.encode_name == name))
        current = found[-1].type
    return found


def _struct(
    tree: _Tree, above: FieldPath, optional: frozenset[FieldPath]
) -> tuple[type[msgspec.Struct], bool]:
    """Return the struct of the fields below a path, and whether all of it is optional."""
    names = {f"f{i}": name for i, name in enumerate(tree)}
    fields: list[Any] = []
    is_optional = True
    for attribute, name in names.items():
        leaf, path = tree[name], (*above, name)
        may_lack = path in optional
        if isinstance(leaf, dict):
            leaf, may_lack = _struct(leaf, path, optional)
        if may_lack:
            fields.append((attribute, leaf if leaf in _ANY else leaf | None, None))
        else:
            fields.append((attribute, leaf))
        is_optional &= may_lack
    struct = msgspec.defstruct("Record", fields, rename=names, gc=False, kw_only=True)
    return struct, is_optional


def _is_optional(kind: object) -> bool:
    return type(None) in get_args(kind)


def _present(kind: Any) -> Any:
    """Return the type of an object without None."""
    return next(k for k in get_args(kind) if k is not type(None)) if _is_optional(kind) else kind


def _read_if_there(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_if_there(event: Any) -> Any:
        try:
            return read(event)
        except AttributeError:
            return None

    return read_if_there
